//! docs/deploying.md names the tools that its commands need, and its commands do not leave files in a clone.

use std::collections::BTreeSet;

use super::page;

const PAGE: &str = "docs/deploying.md";

/// The lines in all examples.
fn commands(source: &str) -> impl Iterator<Item = &str> {
    source.split("```").skip(1).step_by(2).flat_map(str::lines).map(str::trim)
}

#[test]
fn the_folders_of_the_tools_are_ignored_by_git() {
    let (source, ignored) = (page(PAGE), page(".gitignore"));
    let made: BTreeSet<_> = commands(&source).filter_map(|line| line.strip_prefix("python3 -m venv ")).collect();
    let made: Vec<_> = made.iter().filter_map(|rest| rest.split(' ').next()).collect();
    assert!(!made.is_empty());
    for folder in made {
        assert!(ignored.lines().any(|line| line == format!("/{folder}")), "{folder} would appear in git status");
    }
}

#[test]
fn the_tools_include_the_aws_cli_in_the_needed_version() {
    let source = page(PAGE);
    assert!(commands(&source).any(|line| line.starts_with("aws logs tail ")), "version 1 lacks this command");
    let tools = source.split("\n## ").find(|section| section.starts_with("Two commands\n")).expect("a section");
    assert!(tools.contains("(`aws`)") && tools.contains("`aws` has to be [version 2]"), "{tools}");
}
