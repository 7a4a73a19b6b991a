//! Tests the program's human-readable output, JSON output and memory use.

#![expect(clippy::expect_used, reason = "a program that does not start should fail the test")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

use serde_json::Value;

/// A running program. Dropping the value kills the process.
struct Program(Child);

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
        let command = command.args(arguments).env("RUST_LOG", "off").stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("it starts"))
    }

    /// Starts the service. Also returns the first line of its output, and the rest.
    fn serve(arguments: &[&str]) -> (Self, BufReader<ChildStdout>, String) {
        let mut program = Self::start(&[&["--memory"], arguments, &FREE_PORTS[..]].concat());
        let mut output = BufReader::new(program.0.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        (program, output, line)
    }

    fn first_error_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
        line
    }

    #[cfg(target_os = "linux")]
    fn resident_megabytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().expect("it is killed");
        self.0.wait().expect("it ends");
    }
}

const FREE_PORTS: [&str; 5] = ["--api=0", "--dynamodb=0", "--sqs=0", "--mail=0", "--inbox=0"];

#[test]
fn json_prints_all_addresses_as_one_line() {
    let (mut program, output, line) = Program::serve(&["--json"]);
    assert_eq!(program.first_error_line(), "Starting fanfare on this machine, with its data in memory.\n");
    let addresses: Value = serde_json::from_str(&line).expect("JSON");
    assert!(addresses.get("api").is_some(), "{line}");
    // The program ends without further output.
    let rest = thread::spawn(move || output.bytes().count());
    drop(program);
    assert_eq!(rest.join().expect("it is read"), 0);
}

#[test]
fn the_link_stays_the_last_line_while_requests_are_served() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
    let command = command.args(["--memory", "--demo-data"]).args(FREE_PORTS).env_remove("RUST_LOG");
    let mut program = Program(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"));
    let output = BufReader::new(program.0.stdout.take().expect("a pipe"));
    let mut lines = output.lines().map(|line| line.expect("UTF-8"));
    let link = lines.by_ref().find(|line| line.starts_with("Open ")).expect("a link");
    let address = link.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    let mut connection = TcpStream::connect(address).expect("a connection");
    let request = format!("GET /demo HTTP/1.1\r\nhost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).expect("it is sent");
    let mut status = [0; 12];
    connection.read_exact(&mut status).expect("an answer");
    assert_eq!(status, *b"HTTP/1.1 303");
    let kill = Command::new("kill").args(["-INT", &program.0.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    assert_eq!(lines.next(), None, "the link is the last line");
    let mut log = String::new();
    program.0.stderr.take().expect("a pipe").read_to_string(&mut log).expect("UTF-8");
    assert_eq!(log, "Starting fanfare on this machine, with its data in memory.\n", "nothing hides the link");
}

/// The log is a file on a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_written_does_not_fail_requests() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
    command.args(["--memory", "--json"]).args(FREE_PORTS).env("RUST_LOG", "info").stdout(Stdio::piped()).stderr(full);
    let mut program = Program(command.spawn().expect("it starts"));
    let mut line = String::new();
    let mut output = BufReader::new(program.0.stdout.take().expect("a pipe"));
    output.read_line(&mut line).expect("a line");
    let addresses: Value = serde_json::from_str(&line).expect("JSON");
    let api = addresses.get("api").and_then(Value::as_str).expect("a URL").trim_start_matches("http://");
    for _ in 0..2 {
        let mut connection = TcpStream::connect(api).expect("a connection");
        connection.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is sent");
        let mut status = [0; 12];
        connection.read_exact(&mut status).expect("an answer");
        assert_eq!(status, *b"HTTP/1.1 200");
    }
}

#[test]
fn a_signal_prints_the_work_so_far_as_one_line_of_json() {
    let (program, mut output, _) = Program::serve(&["--json"]);
    let kill = Command::new("kill").args(["-INT", &program.0.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    let work: Value = serde_json::from_str(&line).expect("JSON");
    for counted in ["/requests/dynamodb", "/requests/sqs", "/invocations/webhooks-deliver"] {
        assert!(work.pointer(counted).is_some_and(Value::is_u64), "{counted} in {line}");
    }
    assert_ne!(work.pointer("/requests/sqs"), Some(&Value::from(0)), "the program has created its queues");
}

/// Returns the addresses that the service prints.
fn addresses(arguments: &[&str]) -> Vec<String> {
    let (_program, output, first) = Program::serve(arguments);
    let rest = output.lines().map(|line| line.expect("UTF-8")).take_while(|line| line != "Press Ctrl-C to stop.");
    std::iter::once(first.trim_end().to_owned()).chain(rest).collect()
}

#[test]
fn only_verbose_prints_the_addresses_of_tables_and_queues() {
    let names = |lines: &[String]| -> Vec<_> {
        lines.iter().map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect()
    };
    let plain = addresses(&[]);
    assert_eq!(names(&plain), ["console", "API", "emails", "inbox"]);
    assert!(plain[0].ends_with("/console"), "{plain:?}");
    let verbose = addresses(&["--verbose"]);
    assert!(names(&verbose).starts_with(&names(&plain)));
    for listed in ["DynamoDB ", "  webhook-endpoints", "SQS ", "  job-events "] {
        assert!(verbose.iter().any(|line| line.starts_with(listed)), "{listed} in {verbose:?}");
    }
}

#[test]
fn the_demo_prints_the_story_that_the_readme_shows() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_local"));
    let output = demo.arg("demo").env_remove("RUST_LOG").output().expect("it runs");
    let (story, log) = (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{log}");
    assert_eq!(log, "", "only the story is printed");
    assert!(story.lines().all(|line| line.chars().count() <= 100 && !line.contains('\x1b')), "{story}");

    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).expect("UTF-8");
    let shown = readme.split_once("```text\n").and_then(|(_, rest)| rest.split_once("```")).expect("a block").0;
    assert_eq!(constant(&story), constant(shown), "README.md shows another story: paste the new one");
}

/// Removes the port and the random parts, which differ in each run, from the output. Ids are printed as their start,
/// `…` and their end.
fn constant(story: &str) -> String {
    let is_random = |c: char| c.is_ascii_alphanumeric() || "_-+/=".contains(c);
    let words = story.split_inclusive(|c: char| !is_random(c) && c != '…');
    let words = words.map(|word| {
        let is_port = word.len() > 4 && word.chars().take(4).all(|c| c.is_ascii_digit());
        if is_port || word.chars().count() > 2 && word.contains('…') { "…" } else { word }
    });
    words.collect()
}

#[test]
fn openapi_prints_only_the_description() {
    let output = Command::new(env!("CARGO_BIN_EXE_local")).arg("openapi").output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty());
    let description: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(description.get("openapi"), Some(&Value::from("3.1.0")));
}

/// Connections share the service's state instead of copying it.
#[cfg(target_os = "linux")]
#[test]
fn a_thousand_idle_connections_take_little_memory() {
    let (program, _output, line) = Program::serve(&["--json"]);
    let addresses: Value = serde_json::from_str(&line).expect("JSON");
    let api = addresses.get("api").and_then(Value::as_str).expect("a URL").trim_start_matches("http://");
    let before = program.resident_megabytes();
    let connections = (0..1000).map(|_| {
        let mut connection = TcpStream::connect(api).expect("a connection");
        connection.write_all(b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is sent");
        assert!(connection.read(&mut [0; 1024]).expect("an answer") > 0);
        connection
    });
    let connections: Vec<_> = connections.collect();
    let after = program.resident_megabytes();
    drop(connections);
    assert!(after < before + 200, "{before} MB became {after} MB");
}
