//! Tests the client on terminals with 60 to 200 columns. `cargo test --test fanfare -- ten_tasks --nocapture`
//! prints the output.

use std::{
    ffi::OsStr,
    fs::File,
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anstream::adapter::strip_str;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use serde_json::json;
use tests::{Receiver, World, event};
use unicode_width::UnicodeWidthStr;

use super::{Machine, Output};

/// A program on a terminal.
pub(super) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: std::thread::JoinHandle<()>,
}

impl Terminal {
    pub(super) fn start(mut command: Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("a terminal");
        unlockpt(&master).expect("a terminal");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let side = File::options().read(true).write(true).open(OsStr::from_bytes(name.as_bytes())).expect("a terminal");
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&side, size).expect("a size");
        let copy = || Stdio::from(side.try_clone().expect("a terminal"));
        command.stdin(copy()).stdout(copy()).stderr(copy()).env("TERM", "xterm-256color");
        let child = command.spawn().expect("it starts");
        drop((command, side));
        let keyboard = File::from(master);
        let (mut source, screen) = (keyboard.try_clone().expect("a terminal"), Arc::new(Mutex::new(Vec::new())));
        let shown = screen.clone();
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            // Linux reports an error when the last process on a terminal ends.
            while let Ok(count @ 1..) = source.read(&mut part) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).extend(&part[..count]);
            }
        });
        Self { child, keyboard, screen, reader }
    }

    pub(super) fn text(&self) -> String {
        let bytes = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        strip_str(&String::from_utf8_lossy(&bytes)).to_string()
    }

    pub(super) fn says(&self, words: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.text().contains(words) {
            assert!(Instant::now() < end, "{words}: {}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until typed characters are no longer shown. The client's library prints a prompt before it changes the
    /// terminal.
    fn hides(&self) {
        let end = Instant::now() + Duration::from_secs(30);
        while tcgetattr(&self.keyboard).expect("a terminal").local_modes.contains(LocalModes::ECHO) {
            assert!(Instant::now() < end, "{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("a terminal");
    }

    /// Sends a signal to the program.
    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    pub(super) fn end(mut self) -> Output {
        let code = self.child.wait().expect("it ends").code().unwrap_or(-1);
        let screen = self.screen.clone();
        self.reader.join().expect("a thread");
        let bytes = screen.lock().unwrap_or_else(PoisonError::into_inner);
        Output { code, out: String::from_utf8_lossy(&bytes).replace("\r\n", "\n"), err: String::new() }
    }
}

/// Runs a command on a terminal. Types each answer once its prompt is shown.
async fn on(
    machine: &Machine,
    columns: u16,
    arguments: &[&str],
    answers: &'static [(&'static str, &'static str)],
) -> Output {
    let command = machine.command(arguments);
    let run = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::start(command, columns);
        for (question, answer) in answers {
            terminal.says(question);
            terminal.types(answer);
        }
        terminal.end()
    });
    run.await.expect("it ends")
}

fn lines(output: &Output) -> Vec<String> {
    strip_str(&output.out).to_string().lines().map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_tasks_fit_60_to_200_columns() {
    let world = World::live(&[("RETRY_SCHEDULE", "600,600")]).await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let receiver = Receiver::scripted(&[(200, &[]), (500, &[])]).await;
    machine.signs_in(&tenant).await;
    let url = receiver.url("/webhooks/of/invoices?source=fanfare");
    let endpoint = world.endpoint(&tenant, &url, "s").await;
    for (count, job) in ["invoices-of-january-2026", "job-2"].into_iter().enumerate() {
        world.enqueue("job-events", event(&tenant.id, job)).await;
        receiver.wait_for(count + 1).await;
    }
    while world.log(&tenant.id).await.iter().any(|delivery| delivery.attempts == 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let failed = world.log(&tenant.id).await.into_iter().find(|one| one.job_id == "job-2").expect("a delivery");
    let short = failed.id.to_string().rsplit('.').next().expect("a part")[..8].to_owned();
    let host = url.trim_start_matches("http://").split('/').next().expect("a host");
    let program = Receiver::start().await;
    for columns in [60, 80, 120, 200] {
        let mut transcript = format!("\n===== {columns} columns\n");
        let mut task = async |arguments: &[&str], fits: bool| {
            let output = on(&machine, columns, arguments, &[]).await;
            let shown = strip_str(&output.out).to_string();
            transcript.push_str(&format!("$ fanfare {}\n{shown}\n", arguments.join(" ")));
            assert_eq!(output.code, 0, "{transcript}");
            let widest = shown.lines().map(UnicodeWidthStr::width).max().unwrap_or_default();
            assert!(!fits || widest <= columns.into(), "{widest} of {columns} columns: {transcript}");
            shown
        };
        task(&["--help"], true).await;
        task(&["listen", "--help"], true).await;
        task(&["whoami"], false).await;
        let endpoints = task(&["endpoints", "list"], true).await;
        assert!(endpoints.contains(host) && endpoints.contains(&endpoint[..8]), "{endpoints}");
        let got = task(&["endpoints", "get", &endpoint[..13]], false).await;
        assert!(got.contains(&url), "{got}");
        let deliveries = task(&["deliveries", "list"], true).await;
        let row = deliveries.lines().find(|line| line.starts_with(&short)).expect("a row");
        assert!(row.contains("pending") && row.contains("job-2") && row.contains(host), "{deliveries}");
        let delivery = task(&["deliveries", "get", &short], false).await;
        assert!(delivery.contains("HTTP 500") || delivery.contains("500"), "{delivery}");
        assert!(delivery.contains("\n  \"job_id\": \"job-2\","), "the payload is indented: {delivery}");
        let replayed = task(&["replay", &short, "--to", &program.url("/hook")], true).await;
        let line = replayed.lines().find(|line| line.contains("  job-2  200  ")).expect("a line");
        assert!(line.contains(&short) && replayed.contains("Replayed 1 of 1: 1 accepted."), "{replayed}");
        let waited = task(&["wait", "job-2", "invoices-of-january-2026"], true).await;
        assert_eq!(waited, "completed  job-2\nnull\ncompleted  invoices-of-january-2026\nnull\n");
        task(&["replay", "--help"], true).await;
        task(&["wait", "--help"], true).await;
        let counted = task(&["deliveries", "stats"], true).await;
        assert!(counted.contains("UTC (24h ago)."), "{counted}");
        task(&["keys", "list"], true).await;
        task(&["team", "list"], true).await;
        task(&["audit", "--help"], true).await;
        let changes = task(&["audit"], true).await;
        assert!(changes.contains("webhook.created") && changes.contains("key test"), "{changes}");
        task(&["settings"], true).await;
        task(&["profiles"], true).await;
        let opened = task(&["open", &short, "--no-browser"], false).await;
        assert_eq!(opened.trim(), format!("{}/console/deliveries/{}", machine.api, failed.id));
        task(&["doctor"], false).await;
        let listened = listened(&world, &tenant.id, &machine, columns).await;
        let widest = listened.iter().map(|line| line.width()).max().unwrap_or_default();
        transcript.push_str(&format!("$ fanfare listen\n{}\n", listened.join("\n")));
        assert!(widest <= 120 && listened.iter().any(|line| line.contains("retry in ")), "{transcript}");
        assert!(listened.iter().any(|line| line == "Stopped: 1 failed."), "{transcript}");
        eprintln!("{transcript}");
    }
    let answers = &[("[y/N] ", "n\n")];
    let kept = on(&machine, 80, &["endpoints", "delete", &endpoint[..13]], answers).await;
    assert!(kept.code == 1 && kept.out.contains(&format!("Delete the endpoint {url}?")), "{kept:?}");
    let deleted = on(&machine, 80, &["endpoints", "delete", &endpoint[..13]], &[("[y/N] ", "y\n")]).await;
    assert!(deleted.code == 0 && deleted.out.contains("Webhook endpoint deleted"), "{deleted:?}");
}

/// Returns the lines that `listen` prints if its program responds to an event with 503.
async fn listened(world: &World, tenant: &str, machine: &Machine, columns: u16) -> Vec<String> {
    let program = Receiver::scripted(&[(503, &[])]).await;
    let command =
        machine.command(&["listen", "--to", &program.url("/hook"), "--print-body", "--name", &columns.to_string()]);
    let terminal = tokio::task::spawn_blocking(move || {
        let terminal = Terminal::start(command, columns);
        terminal.says("Forwarding to");
        terminal
    });
    let terminal = terminal.await.expect("it starts");
    world.enqueue("job-events", event(tenant, format!("listened-{columns}"))).await;
    let output = tokio::task::spawn_blocking(move || {
        terminal.says("  503  ");
        terminal.says("\"event\"");
        terminal.signal("INT");
        terminal.end()
    });
    let output = output.await.expect("it ends");
    assert!(output.out.contains("\u{1b}]8;;"), "the id links to its page: {output:?}");
    // Bodies are printed in full, regardless of the width.
    lines(&output).into_iter().filter(|line| !line.contains("{\"event\"")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_terminal_shows_the_receivers_error_in_full() {
    let world = World::live(&[("RETRY_SCHEDULE", "600")]).await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    // At this path, the response lists the headers of the request.
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    machine.signs_in(&tenant).await;
    world.endpoint(&tenant, &receiver.url("/echo"), "s").await;
    world.enqueue("job-events", event(&tenant.id, "job-1")).await;
    let response = loop {
        let log = world.log(&tenant.id).await;
        if let Some(response) = log.into_iter().find_map(|one| one.last_attempt?.response) {
            break response;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for columns in [60, 200] {
        let shown = on(&machine, columns, &["deliveries", "get", "--job", "job-1"], &[]).await;
        assert!(lines(&shown).contains(&response), "{response}: {shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_has_titles_and_columns() {
    let world = World::live(&[]).await;
    let (tenant, machine, receiver) = (world.tenant("acme").await, Machine::new(&world), Receiver::start().await);
    machine.signs_in(&tenant).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let command = machine.command(&["deliveries", "list", "--watch"]);
    let terminal = tokio::task::spawn_blocking(move || {
        let terminal = Terminal::start(command, 80);
        terminal.says("JOB");
        terminal
    });
    let mut terminal = terminal.await.expect("it starts");
    world.enqueue("job-events", event(&tenant.id, "a-job-with-a-long-name-indeed")).await;
    let shown = tokio::task::spawn_blocking(move || {
        terminal.says("HTTP 200");
        terminal.child.kill().expect("it runs");
        terminal.end()
    });
    let shown = lines(&shown.await.expect("it ends"));
    let column = shown[0].find("JOB").expect("a title");
    assert!(shown.iter().all(|line| line.width() <= 80), "{shown:#?}");
    assert!(shown[1..].iter().all(|line| line[column..].starts_with("a-job…deed  ")), "{shown:#?}");
}

/// `fanfare login --key` with a controlling terminal, which it reads the key from.
fn login_with_key(machine: &Machine) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_fanfare"), "login", "--key"]).env_clear();
    command.env("XDG_CONFIG_HOME", &machine.home).env("FANFARE_API", &machine.api);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_at_a_hidden_prompt_restores_the_terminal() {
    let machine = Machine::new(&World::start().await);
    let command = login_with_key(&machine);
    let ended = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::start(command, 80);
        terminal.says("API key: ");
        terminal.hides();
        terminal.types("\u{3}");
        let code = terminal.child.wait().expect("it ends").code();
        (code, tcgetattr(&terminal.keyboard).expect("a terminal").local_modes)
    });
    let (code, modes) = ended.await.expect("it ends");
    assert_eq!(code, Some(130));
    assert!(modes.contains(LocalModes::ECHO | LocalModes::ISIG | LocalModes::ICANON), "{modes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_key_is_not_shown() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let command = login_with_key(&machine);
    let key = tenant.key.clone();
    let shown = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::start(command, 80);
        terminal.says("API key: ");
        terminal.hides();
        terminal.types(&format!("{key}\n"));
        terminal.end()
    });
    let shown = shown.await.expect("it ends");
    assert!(shown.out.contains("owner of") && !shown.out.contains(&tenant.key), "{shown:?}");
    let listed = world.rpc(&tenant.key, "webhooks/list", json!({})).await;
    assert_eq!(listed.status, 200);
}
