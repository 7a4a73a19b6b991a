//! The example of docs/listening.md runs as written.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
};

use tests::World;

use super::Machine;

/// The blocks of the page that are marked `bash`.
fn script() -> String {
    let page = include_str!("../../../docs/listening.md");
    let blocks = page.split("```bash\n").skip(1).filter_map(|rest| Some(rest.split_once("```\n")?.0));
    blocks.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_page_works() {
    let world = World::live(&[]).await;
    let machine = Machine::new(&world);
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mut here = script().replace("9100", &port.to_string());
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
    let words =
        ["ada@example.com, owner of Analytical Engines", r#""result":{"answer":42}"#, "job.completed  job-1  204"];
    for words in words {
        assert!(told.contains(words), "{words}: {told}");
    }
}
