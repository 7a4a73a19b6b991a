//! Builds the measured binaries as they are deployed, except that the environment may change the release profile.

use std::{collections::HashMap, io::Write, path::PathBuf};

use flate2::{Compression, write::DeflateEncoder};

use crate::{
    Effort,
    artifacts::{cargo_build, folder},
    table::{Row, Table},
};

/// The HTTP functions.
pub(crate) fn http_functions() -> impl Iterator<Item = &'static str> {
    local::function_names().filter(|name| *name != DELIVER)
}
/// The delivery function.
pub(crate) const DELIVER: &str = "webhooks-deliver";
/// The minimal function.
pub(crate) const BASELINE: &str = "function";
/// The minimal delivery function.
pub(crate) const BARE_DELIVER: &str = "bare-deliver";
/// The minimal delivery loop.
pub(crate) const BARE_LOOP: &str = "bare-loop";
/// The folder of the binaries.
pub(crate) struct Binaries {
    functions: PathBuf,
}

impl Binaries {
    /// Builds each function separately, as for a deployment. In a single build, the functions would share crate
    /// features; a quick run accepts this difference to use both cores. The functions have their own target folder;
    /// otherwise, builds with their profile and with the benchmark's would overwrite each other.
    pub(crate) fn build(effort: Effort, with_http_functions: bool) -> Self {
        let functions: Vec<_> = http_functions().filter(|_| with_http_functions).chain([DELIVER]).collect();
        Self::of(&functions, effort)
    }

    /// Like `build`, but builds the given functions.
    pub(crate) fn of(functions: &[&str], effort: Effort) -> Self {
        let shipped = folder().parent().expect("a target folder").join("shipped");
        let packages: Vec<_> = functions.iter().copied().chain(["baseline"]).collect();
        for packages in packages.chunks(if effort.quick { packages.len() } else { 1 }) {
            let packages = packages.iter().flat_map(|package| ["--package", package]);
            cargo_build(&shipped, ["--release"].into_iter().chain(packages));
        }
        Self { functions: shipped.join("release") }
    }

    /// The binary of a function.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.functions.join(name)
    }
}

/// The size of each binary, and its size when deflated, as in the uploaded archive.
pub(crate) fn sizes(binaries: &Binaries, table: &mut Table) {
    let size = |name: &str| {
        let bytes = std::fs::read(binaries.path(name)).expect("the binary was built");
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
        deflated.write_all(&bytes).expect("a write to memory succeeds");
        (bytes.len(), deflated.finish().expect("a write to memory succeeds").len())
    };
    let sizes: HashMap<&str, (usize, usize)> =
        http_functions().chain([DELIVER, BASELINE]).map(|name| (name, size(name))).collect();
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    let (plain, zipped) = sizes[BASELINE];
    for name in http_functions().chain([DELIVER]) {
        let (own_plain, own_zipped) = sizes[name];
        let binary = Row::ratio(&format!("binary of {name}"), "MiB", mib(own_plain), mib(plain));
        table.push(binary.at_most(1.2, 1.0).within("binary of a function"));
        let archive = Row::ratio(&format!("the same, zipped: {name}"), "MiB", mib(own_zipped), mib(zipped));
        table.push(archive.at_most(1.2, 1.0).within("binary of a function, zipped"));
    }
}
