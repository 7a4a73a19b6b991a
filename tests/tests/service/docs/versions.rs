//! The pages state the version in `Cargo.toml`.

use std::fs;

use super::{page, root};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn the_changelog_has_this_version_below_the_unreleased_part() {
    let source = page("CHANGELOG.md");
    let headings: Vec<_> = source.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(headings[0], "[Unreleased]");
    assert!(headings[1].starts_with(&format!("[{VERSION}] - 2")), "{}", headings[1]);
}

#[test]
fn deliveries_in_the_pages_are_from_this_version() {
    let pages = fs::read_dir(root().join("docs")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut agents = Vec::new();
    for path in pages {
        let source = fs::read_to_string(path).expect("UTF-8");
        agents.extend(source.lines().filter_map(|line| line.strip_prefix("user-agent: ")).map(str::to_owned));
    }
    assert!(!agents.is_empty(), "the examples are found");
    assert!(agents.iter().all(|agent| *agent == format!("fanfare/{VERSION}")), "{agents:?}");
}
