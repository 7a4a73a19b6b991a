//! Builds the programs that a benchmark starts.

use std::path::{Path, PathBuf};

/// The folder of this benchmark's profile, such as `target/release`.
pub(crate) fn folder() -> PathBuf {
    // target/PROFILE/deps/figures-...
    let this = std::env::current_exe().expect("a path");
    this.ancestors().nth(2).expect("a folder").to_owned()
}

/// `cargo build` into a target folder.
pub(crate) fn cargo_build<'a>(target: &Path, what: impl IntoIterator<Item = &'a str>) {
    let mut build = tests::cargo();
    build.args(["build", "--locked", "--quiet", "--target-dir"]).arg(target).args(what);
    // Runs in the root: in a package's folder, Cargo would enable only that package's features.
    build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    assert!(build.status().expect("cargo starts").success(), "{build:?}");
}
