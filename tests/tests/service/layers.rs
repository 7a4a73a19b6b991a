//! The modules of `common` form layers: each imports only from the layers below it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// From top to bottom. Modules outside these folders form one more layer at the bottom.
const LAYERS: [&str; 5] = ["http", "accounts", "webhooks", "aws", "telemetry"];
const BOTTOM: &str = "values";

/// Each source file of `common`, with its layer.
fn sources() -> Vec<(PathBuf, &'static str, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/src");
    let (mut folders, mut sources) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inside = path.strip_prefix(&root).expect("it is inside");
            if inside != Path::new("lib.rs") {
                let first = inside.iter().next().and_then(|name| name.to_str()).expect("UTF-8");
                let layer = layer(first.trim_end_matches(".rs"));
                sources.push((inside.to_owned(), layer, fs::read_to_string(&path).expect("UTF-8")));
            }
        }
    }
    sources
}

fn layer(module: &str) -> &'static str {
    LAYERS.into_iter().find(|layer| *layer == module).unwrap_or(BOTTOM)
}

/// The top-level modules that a source file names: in `crate::module`, or first in a group of `use crate::{...}`.
fn imports(source: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for rest in source.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let (mut depth, mut starts) = (0, true);
        for (place, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => starts = true,
                _ if starts && c.is_alphanumeric() => {
                    found.insert(word(&group[place..]));
                    starts = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn each_layer_imports_only_from_the_layers_below_it() {
    let depth = |name: &str| LAYERS.iter().position(|layer| *layer == name).unwrap_or(LAYERS.len());
    let mut seen = BTreeSet::new();
    for (path, own, source) in sources() {
        for module in imports(&source) {
            let other = layer(&module);
            seen.insert((own, other));
            let allowed = other == own || depth(other) > depth(own);
            assert!(allowed, "{}: `{own}` must not import `{module}`, which is above it", path.display());
            let apart = (own, other) == ("accounts", "webhooks");
            assert!(!apart, "{}: accounts and webhooks must not depend on each other", path.display());
        }
    }
    // Make sure that the test finds imports at all: these exist.
    for pair in [("http", "accounts"), ("accounts", "aws"), ("webhooks", "aws"), ("aws", BOTTOM), ("telemetry", BOTTOM)]
    {
        assert!(seen.contains(&pair), "{pair:?} was not found in {seen:?}");
    }
}

/// `webhooks::client` speaks HTTP to receivers; everything else leaves HTTP to `http`.
#[test]
fn only_http_knows_status_codes() {
    for (path, layer, source) in sources() {
        let speaks = layer == "http" || path == Path::new("webhooks/client.rs");
        assert!(speaks || !source.contains("StatusCode"), "{} names status codes", path.display());
    }
}
