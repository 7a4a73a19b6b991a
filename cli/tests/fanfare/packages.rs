//! Tests the files in the client's packages other than the executable.

use std::process::Command;

fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fanfare")).args(arguments).output().expect("the client");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn each_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        assert!(run(&["completions", shell]).contains("print-secret"), "{shell}");
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = std::env::temp_dir().join(format!("fanfare-man-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    run(&["man", folder.to_str().expect("UTF-8")]);
    for (page, text) in [("fanfare", "Exit codes"), ("fanfare-endpoints-create", "\\-\\-pull")] {
        let page = std::fs::read_to_string(folder.join(format!("{page}.1"))).expect(page);
        assert!(page.contains(text), "{page}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
}
