//! Runs the examples in docs/listening.md as written.

use std::process::{Command, Stdio};

use serde_json::Value;
use tests::{World, unused_port};

use super::Machine;

const PAGE: &str = include_str!("../../../docs/listening.md");

/// Returns the code blocks marked with this language.
fn blocks<'a>(text: &'a str, mark: &str) -> impl Iterator<Item = &'a str> {
    text.split(&format!("```{mark}\n"))
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("```\n")?.0))
        .collect::<Vec<_>>()
        .into_iter()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_page_works() {
    let world = World::live(&[]).await;
    let machine = Machine::new(&world);
    let mut here = blocks(PAGE, "bash").collect::<String>().replace("9100", &unused_port().to_string());
    for (usual, address) in [("9000", world.stack.api()), ("8025", world.stack.mail()), ("9324", world.stack.sqs())] {
        here = here.replace(&format!("http://127.0.0.1:{usual}"), address.trim_end_matches('/'));
    }
    // A failure must not hang the test.
    let mut shell = Command::new("timeout");
    shell.args(["60", "bash", "-euo", "pipefail", "-c", &here]);
    shell.stdin(Stdio::null()).env("no_proxy", "*").env("XDG_CONFIG_HOME", &machine.home);
    shell.env("PATH", Machine::path()).env_remove("FANFARE_API_KEY");
    let output = tokio::task::spawn_blocking(move || shell.output().expect("bash")).await.expect("it ends");
    let told = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    assert!(output.status.success(), "{told}");
    let words = [
        "ada@example.com, owner of Analytical Engines",
        r#""result":{"answer":42}"#,
        r#"completed  job-1  {"answer":42}"#,
        "job.completed  job-1  204",
        "Replayed 1 of 1: 1 accepted. The log is unchanged.",
        // `endpoints create` made it, on this machine.
        "The secret of this endpoint is not stored on this machine.",
        " did not respond: connection refused.",
    ];
    for words in words {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_of_the_page_is_what_scripts_read() {
    let world = World::start().await;
    let failed =
        Machine::new(&world).run_in(&[("FANFARE_API", "https://api.example.com")], &["--json", "whoami"]).await;
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let shown: Vec<_> = blocks(PAGE, "json").map(json).filter(|block| block.get("error").is_some()).collect();
    assert_eq!((failed.code, shown), (3, vec![json(&failed.err)]));
}

/// The examples for a terminal.
#[cfg(unix)]
mod on_a_terminal {
    use std::{future::Future, os::unix::fs::PermissionsExt, time::Duration};

    use serde_json::json;
    use tests::{Receiver, Tenant, event};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::{
        super::{connections::Encrypted, terminal::Terminal},
        *,
    };

    /// Runs part of a dialog on a separate thread, because the service needs this process's threads.
    async fn apart<T: Send + 'static>(dialog: impl FnOnce() -> T + Send + 'static) -> T {
        tokio::task::spawn_blocking(dialog).await.expect("it ends")
    }

    /// Approves the login whose address is on the terminal.
    async fn approve(world: &World, tenant: &Tenant, shown: &str) {
        let page = shown.split([' ', '"', '\r', '\n']).find(|word| word.contains("/signin?")).expect("an address");
        let page: reqwest::Url = page.parse().expect("a URL");
        let of = |name: &str| page.query_pairs().find(|(key, _)| key == name).expect("a value").1.into_owned();
        let request = json!({"requestId": of("cliLoginId"), "secret": of("cliLoginSecret")});
        world.rpc_by_session(&tenant.cookie, "auth/cliLoginApprove", request).await.ok();
    }

    /// Runs sweeps while `run` is running, as `cargo local` does every minute.
    async fn with_sweeps<T>(world: &World, run: impl Future<Output = T>) -> T {
        let sweeps = async {
            loop {
                world.sweep(common::timestamp::Timestamp::now()).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::select! {
            ended = run => ended,
            () = sweeps => unreachable!("the command does not end"),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_command_of_the_page_works() {
        let world = World::live(&[]).await;
        let (tenant, machine, receiver) = (world.tenant("acme").await, Machine::new(&world), Receiver::start().await);
        let encrypted = Encrypted::before(&receiver.url(""), &machine).await;
        let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "a secret of some length").await;
        world.enqueue("job-events", event(&tenant.id, "job-1")).await;
        let first = receiver.wait_for(1).await.remove(0);
        let headers = first.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text")));
        let headers = headers.collect::<std::collections::BTreeMap<_, _>>();
        std::fs::create_dir_all(&machine.home).expect("a folder");
        std::fs::write(machine.home.join("h.json"), json!(headers).to_string()).expect("a file");
        std::fs::write(machine.home.join("b.bin"), &first.body).expect("a file");
        let short =
            world.only_logged(&tenant.id).await.id.to_string().rsplit('.').next().expect("a part")[..8].to_owned();
        // A stand-in for the browser.
        let bin = machine.home.join("bin");
        std::fs::create_dir_all(&bin).expect("a folder");
        std::fs::write(bin.join("xdg-open"), "#!/bin/sh\n").expect("a file");
        std::fs::set_permissions(bin.join("xdg-open"), PermissionsExt::from_mode(0o700)).expect("a file");

        // The organization that invites the user, who is not the last member of their own.
        let host = world.tenant("analytical-engines").await;
        let invite = json!({"email": tenant.email, "role": "owner"});
        world.cli(&host.cookie, "organization/invite-member", invite).await;
        world.member(&tenant, "second@example.com", "owner").await;

        // The installation is tested by .ci/try-client.
        let sections = PAGE.split("\n## ").filter(|section| !section.starts_with("Install\n"));
        let lines: Vec<_> = sections.flat_map(|section| blocks(section, "sh")).flat_map(str::lines).collect();
        assert!(lines.len() > 15 && lines.iter().all(|line| line.contains("fanfare ")), "{lines:#?}");
        let port = receiver.url("").rsplit(':').next().expect("a port").to_owned();
        for line in lines {
            let mut here = line.to_owned();
            for (example, actual) in [
                ("api.example.com", world.stack.api()),
                ("staging.example.com", world.stack.api()),
                ("https://example.com/hook", &receiver.url("/hook")),
                ("https://localhost:8443", &encrypted.url),
                ("3000/hook", &format!("{port}/hook")),
                ("a6250e60", &short),
                ("01a20cd1", &endpoint),
            ] {
                here = here.replace(example, actual);
            }
            let mut command = Command::new("bash");
            command.args(["-euo", "pipefail", "-c", &here]).env_clear().current_dir(&machine.home);
            command.env("PATH", format!("{}:{}", bin.display(), Machine::path())).env("HOSTNAME", "laptop");
            command.env("XDG_CONFIG_HOME", &machine.home).env("FANFARE_API", &machine.api);
            command.env("FANFARE_QUEUE_URL", &world.stack.queues()["job-events"]);
            command.env("KEY", &tenant.key).env("SECRET", "another secret of some length");
            let is_login = line.contains(" login") && !line.contains("--key") && !line.contains("--complete");
            let is_approved = is_login || line.contains("keys create") || line.contains("team accept");
            let is_confirmed = line.contains("team accept");
            // `--watch` inherits that SIGINT is ignored if a shell has started the tests in the background.
            let lasts = [("listen ", "Press Ctrl-C to stop.", "INT"), ("--watch", "CREATED", "TERM")].into_iter();
            let lasts = lasts.filter(|(word, ..)| line.contains(word)).map(|(_, shown, signal)| (shown, signal)).next();
            let run = async {
                let mut terminal = apart(|| Terminal::start(command, 120)).await;
                if is_approved {
                    terminal = apart(|| {
                        terminal.says("mode=");
                        terminal
                    })
                    .await;
                    approve(&world, &tenant, &terminal.text()).await;
                }
                apart(move || {
                    if is_confirmed {
                        terminal.says("[y/N] ");
                        terminal.types("y\n");
                    }
                    if let Some((shown, signal)) = lasts {
                        terminal.says(shown);
                        terminal.signal(signal);
                    }
                    terminal.end()
                })
                .await
            };
            let ended = with_sweeps(&world, run).await;
            // A signal ends `--watch`.
            assert!(ended.code == 0 || (line.contains("--watch") && ended.code == -1), "{here}: {ended:?}");
        }
        let posted = receiver.received().await;
        let events: Vec<_> = posted.iter().map(|one| (one.path.as_str(), one.header("x-event-type"))).collect();
        for expected in ["job.completed", "job.failed", "webhook.test"] {
            assert!(events.contains(&("/hook", expected)), "{expected}: {events:#?}");
        }
    }

    /// Removes from a line the values that differ between runs.
    fn shape(line: &str) -> String {
        let words: Vec<_> = line.split_whitespace().collect();
        let shaped = words.iter().enumerate().map(|(number, word)| {
            let bare = word.trim_matches(['(', ')', '.']);
            let is_of = |allowed: fn(&u8) -> bool| bare.bytes().all(|byte| allowed(&byte));
            match bare.len() {
                36 if bare.matches('-').count() == 4 => "ID",
                8 if is_of(|byte| byte.is_ascii_digit() || *byte == b':') && bare.contains(':') => "TIME",
                8 if is_of(u8::is_ascii_hexdigit) => "SHORT",
                2.. if bare.trim_end_matches('s').parse::<u8>().is_ok() && bare.ends_with('s') => "SECONDS",
                _ if words.get(number + 1) == Some(&"ms") => "NUMBER",
                _ => word,
            }
        });
        shaped.collect::<Vec<_>>().join(" ")
    }

    /// Starts a program that responds to one event and ends. Returns its port.
    async fn program() -> (u16, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let answered = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a post");
            drop(listener);
            let mut read = [0; 8192];
            let _body = stream.read(&mut read).await.expect("a post");
            stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.expect("a post");
        });
        (port, answered)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn listen_prints_what_the_page_shows() {
        let world = World::live(&[("RETRY_SCHEDULE", "5,600")]).await;
        let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
        machine.signs_in(&tenant).await;
        let (port, answered) = program().await;
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_fanfare"), "listen", "--to", &format!("{port}/hook")]);
        command.env_clear().env("HOSTNAME", "laptop");
        command.env("XDG_CONFIG_HOME", &machine.home).env("FANFARE_API", &machine.api);
        let terminal = apart(|| Terminal::start(command, 120)).await;
        let terminal = apart(|| {
            terminal.says("are kept for");
            terminal
        })
        .await;
        world.enqueue("job-events", event(&tenant.id, "job-1")).await;
        let terminal = apart(|| {
            terminal.says("  204  ");
            terminal
        })
        .await;
        answered.await.expect("a post");
        let mut failed = event(&tenant.id, "job-2");
        failed["event"] = json!("job.failed");
        world.enqueue("job-events", failed).await;
        let ended = apart(|| {
            let mut terminal = terminal;
            terminal.says("hint: ");
            terminal.types("\u{3}");
            terminal.says("Stopped: ");
            terminal.end()
        });
        let printed = anstream::adapter::strip_str(&ended.await.out).to_string().replace(&port.to_string(), "3000");
        let shapes = |text: &str| text.lines().map(shape).collect::<Vec<_>>();
        let shown = blocks(PAGE, "text").next().expect("a block");
        assert_eq!(shapes(&printed), shapes(shown), "{printed}");
    }
}
