//! The program: what it prints (people read standard error, programs read standard output), and what it takes.

#![expect(clippy::expect_used, reason = "a program that does not start should fail the test")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

use serde_json::Value;

/// A running program. Dropping it kills it.
struct Program(Child);

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
        let command = command.args(arguments).env("RUST_LOG", "off").stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("it starts"))
    }

    /// The service, with its first line.
    fn serve() -> (Self, BufReader<ChildStdout>, String) {
        let mut program = Self::start(&[&["--memory", "--json"], &FREE_PORTS[..]].concat());
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
fn it_says_what_comes_up_and_prints_the_addresses_as_one_line_of_json() {
    let (mut program, output, line) = Program::serve();
    assert_eq!(program.first_error_line(), "Starting fanfare on this machine, with its data in memory.\n");
    let addresses: Value = serde_json::from_str(&line).expect("JSON");
    assert!(addresses.get("api").is_some(), "{line}");
    // It ends, and nothing has followed.
    let rest = thread::spawn(move || output.bytes().count());
    drop(program);
    assert_eq!(rest.join().expect("it is read"), 0);
}

#[test]
fn when_it_is_told_to_end_it_prints_what_it_has_done_as_one_line_of_json() {
    let (program, mut output, _) = Program::serve();
    let kill = Command::new("kill").args(["-INT", &program.0.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    let work: Value = serde_json::from_str(&line).expect("JSON");
    for counted in ["/requests/dynamodb", "/requests/sqs", "/invocations/webhooks-deliver"] {
        assert!(work.pointer(counted).is_some_and(Value::is_u64), "{counted} in {line}");
    }
    assert_ne!(work.pointer("/requests/sqs"), Some(&Value::from(0)), "it has made its queues");
}

#[test]
fn the_demo_says_first_what_it_shows() {
    let line = Program::start(&["demo"]).first_error_line();
    assert_eq!(line, "The service in use over HTTP, from sign-up to two signed deliveries, one of them sent again:\n");
}

#[test]
fn the_description_is_all_that_is_printed_for_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_local")).arg("openapi").output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty());
    let description: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(description.get("openapi"), Some(&Value::from("3.1.0")));
}

/// What all connections share is not copied for each.
#[cfg(target_os = "linux")]
#[test]
fn a_thousand_idle_connections_take_little_memory() {
    let (program, _output, line) = Program::serve();
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
