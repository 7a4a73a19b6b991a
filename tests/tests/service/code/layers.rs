//! Modules form layers: each one imports only from lower layers, and the imports between files have no cycles.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Ident, Token, UseTree, braced, bracketed,
    ext::IdentExt,
    parenthesized,
    parse::{ParseStream, Parser},
    token,
    visit::{self, Visit},
};

use crate::docs::{codes, files, page, rows};

/// The layers of `common` from top to bottom. Modules outside these folders form one more layer at the bottom.
const LAYERS: [&str; 8] = ["presentation", "http", "application", "accounts", "webhooks", "audit", "aws", "telemetry"];
const BOTTOM: &str = "values";

/// The modules of `common::webhooks`. Each module uses only modules that come earlier in this list.
const ROOMS: [&str; 13] = [
    "destination",
    "event",
    "delivery",
    "post",
    "log",
    "queue",
    "endpoints",
    "request",
    "job_failures",
    "erasure",
    "drains",
    "recoveries",
    "verification",
];

/// A path of modules, from the root of the crate.
type Module = Vec<String>;

/// A source file, with the paths in it that belong to this crate.
struct Source {
    path: PathBuf,
    imports: BTreeSet<Vec<String>>,
}

/// The sources of a crate, by their modules. The binary, a separate crate, is excluded.
fn sources(krate: &str) -> BTreeMap<Module, Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src");
    let (mut folders, mut sources) = (vec![root.clone()], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let file = entry.expect("an entry").path();
            if file.is_dir() {
                folders.push(file);
                continue;
            }
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let path = file.strip_prefix(&root).expect("it is inside").to_owned();
            let names = path.with_extension("");
            let names = names.iter().map(|name| name.to_str().expect("UTF-8").to_owned());
            let module: Module = if path == Path::new("lib.rs") { Vec::new() } else { names.collect() };
            if path == Path::new("main.rs") || path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let source = syn::parse_file(&fs::read_to_string(&file).expect("UTF-8")).expect("Rust");
            let mut reader = Reader { module: module.clone(), imports: BTreeSet::new() };
            reader.visit_file(&source);
            sources.insert(module, Source { path, imports: reader.imports });
        }
    }
    sources
}

/// Finds the paths in a source file, relative to the root of the crate. Unit tests are exempt.
struct Reader {
    module: Module,
    imports: BTreeSet<Vec<String>>,
}

impl Reader {
    fn found(&mut self, path: Vec<String>) {
        let depth = path.iter().take_while(|name| *name == "super").count();
        let (from, rest) = match path.first().map(String::as_str) {
            Some("crate") => (&[][..], &path[1..]),
            Some("super") => (&self.module[..self.module.len() - depth], &path[depth..]),
            Some("self") => (&self.module[..], &path[1..]),
            // The name may refer to a submodule.
            _ => (&self.module[..], &path[..]),
        };
        self.imports.insert([from, rest].concat());
    }

    fn found_use(&mut self, before: &[String], tree: &UseTree) {
        let path = |name: &Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(tree) => self.found_use(&path(&tree.ident), &tree.tree),
            UseTree::Name(tree) => self.found(path(&tree.ident)),
            UseTree::Rename(tree) => self.found(path(&tree.ident)),
            UseTree::Glob(_) => self.found(before.to_vec()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.found_use(before, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        if item.content.is_some() && !is_test {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    /// `pub(super)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.found_use(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.found(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// A macro's input is not always valid Rust, but the paths in it are.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let mut paths = Vec::new();
        let read = |input: ParseStream<'_>| read_paths(input, &mut paths);
        read.parse2(call.tokens.clone()).expect("tokens");
        paths.into_iter().for_each(|path| self.found(path));
        visit::visit_macro(self, call);
    }
}

/// Finds paths with more than one segment in tokens.
fn read_paths(input: ParseStream<'_>, paths: &mut Vec<Vec<String>>) -> syn::Result<()> {
    let inside;
    if input.is_empty() {
        return Ok(());
    } else if input.peek(token::Brace) {
        braced!(inside in input);
        read_paths(&inside, paths)?;
    } else if input.peek(token::Paren) {
        parenthesized!(inside in input);
        read_paths(&inside, paths)?;
    } else if input.peek(token::Bracket) {
        bracketed!(inside in input);
        read_paths(&inside, paths)?;
    } else if input.peek(Ident::peek_any) {
        let mut path = vec![input.call(Ident::parse_any)?.to_string()];
        while input.peek(Token![::]) {
            input.parse::<Token![::]>()?;
            if !input.peek(Ident::peek_any) {
                break;
            }
            path.push(input.call(Ident::parse_any)?.to_string());
        }
        paths.extend((path.len() > 1).then_some(path));
    } else {
        input.step(|cursor| Ok(((), cursor.token_tree().map_or(*cursor, |(_, rest)| rest))))?;
    }
    read_paths(input, paths)
}

/// Returns the other modules that each module of a crate imports.
fn imports(sources: &BTreeMap<Module, Source>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let module_of = |path: &Vec<String>| {
        (0..=path.len()).rev().find_map(|length| sources.get_key_value(&path[..length])).map(|(module, _)| module)
    };
    let others = |module, source: &Source| {
        let found = source.imports.iter().filter_map(module_of);
        // A path to another crate counts as part of this module.
        found.filter(|other| *other != module).collect()
    };
    sources.iter().map(|(module, source)| (module, others(module, source))).collect()
}

/// The groups of files that import each other, directly or indirectly.
fn circles(krate: &str) -> BTreeSet<BTreeSet<String>> {
    let sources = sources(krate);
    let imports = imports(&sources);
    let reached = |from| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(imports[module].iter().copied().filter(|other| reached.insert(*other)));
        }
        reached
    };
    let reached: BTreeMap<_, _> = sources.keys().map(|module| (module, reached(module))).collect();
    let circle = |module: &Module| {
        let others = reached[module].iter().filter(|other| reached[*other].contains(module));
        others.map(|module| sources[*module].path.to_str().expect("UTF-8").to_owned()).collect::<BTreeSet<_>>()
    };
    sources.keys().map(circle).filter(|circle| !circle.is_empty()).collect()
}

fn layer(module: &str) -> &'static str {
    LAYERS.into_iter().find(|layer| *layer == module).unwrap_or(BOTTOM)
}

#[test]
fn each_layer_imports_only_from_the_layers_below_it() {
    let depth = |name: &str| LAYERS.iter().position(|layer| *layer == name).unwrap_or(LAYERS.len());
    let (sources, mut seen) = (sources("common"), BTreeSet::new());
    for (module, others) in imports(&sources) {
        for (from, to) in others.iter().filter_map(|other| module.first().zip(other.first())) {
            let (own, other) = (layer(from), layer(to));
            seen.insert((own, other));
            let allowed = other == own || depth(other) > depth(own);
            assert!(allowed, "{}: `{own}` must not import `{to}`, which is above it", module.join("::"));
            let apart = (own, other) == ("accounts", "webhooks");
            assert!(!apart, "{}: accounts and webhooks must not depend on each other", module.join("::"));
        }
    }
    // These imports are known to exist, so the test must find them.
    for pair in [
        ("presentation", "http"),
        ("http", "application"),
        ("application", "accounts"),
        ("application", "webhooks"),
        ("accounts", "aws"),
        ("webhooks", "aws"),
        ("aws", BOTTOM),
        ("telemetry", BOTTOM),
    ] {
        assert!(seen.contains(&pair), "{pair:?} was not found in {seen:?}");
    }
}

#[test]
fn each_module_of_webhooks_uses_only_those_before_it() {
    let room = |module: &Module| {
        let inside = module.first().filter(|first| *first == "webhooks").and(module.get(1));
        inside.map(|name| ROOMS.iter().position(|room| room == name).expect("it is in the list"))
    };
    let (sources, mut seen) = (sources("common"), BTreeSet::new());
    for (module, others) in imports(&sources) {
        for (own, other) in others.iter().filter_map(|other| room(module).zip(room(other))) {
            let (module, name) = (module.join("::"), ROOMS[other]);
            assert!(other <= own, "{module} must not use `{name}`, which is later in the list");
            seen.insert((ROOMS[own], name));
        }
    }
    for pair in [("endpoints", "log"), ("queue", "delivery"), ("post", "destination"), ("log", "log")] {
        assert!(seen.contains(&pair), "{pair:?} was not found in {seen:?}");
    }
}

#[test]
fn the_table_of_layers_lists_every_module() {
    let map = page("docs/architecture.md");
    let listed = rows(&map, &["layer", "modules", "purpose"]).into_iter().flat_map(|row| {
        let layer = layer(row[0].trim_matches('`'));
        codes(row[1]).into_iter().map(move |(module, _)| (layer, module.to_owned()))
    });
    let existing = sources("common").into_keys().filter_map(|module| {
        let layer = layer(module.first()?);
        Some((layer, module.get(usize::from(layer != BOTTOM))?.clone()))
    });
    assert_eq!(listed.collect::<BTreeSet<_>>(), existing.collect());
}

#[test]
fn the_table_of_deliver_lists_every_module_and_constant() {
    let (map, krate) = (page("docs/architecture.md"), "functions/webhooks-deliver");
    let listed = rows(&map, &["module", "purpose", "concepts", "constants"]).into_iter().map(|row| {
        let constants = codes(row[3]).into_iter().map(|(name, _)| name.to_owned());
        (row[0].trim_matches('`').to_owned(), constants.collect::<BTreeSet<_>>())
    });
    let existing = sources(krate).into_iter().map(|(module, source)| {
        let text = page(&format!("{krate}/src/{}", source.path.display()));
        let declared = text.lines().filter_map(|line| line.trim_start_matches("pub(crate) ").strip_prefix("const "));
        let constants = declared.filter_map(|constant| constant.split_once(':')).map(|(name, _)| name.to_owned());
        (module.first().map_or("lib", String::as_str).to_owned(), constants.collect::<BTreeSet<_>>())
    });
    assert_eq!(listed.collect::<BTreeMap<_, _>>(), existing.collect());
}

#[test]
fn no_files_import_each_other() {
    let functions = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../functions")).expect("a folder");
    let functions = functions.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let crates =
        functions.map(|name| format!("functions/{name}")).chain(["api", "cli", "common", "local"].map(str::to_owned));
    let circles = crates.flat_map(|krate| circles(&krate).into_iter().map(move |circle| (krate.clone(), circle)));
    assert_eq!(circles.collect::<Vec<_>>(), [], "these files import each other");
}

/// Building and starting a test binary takes a second, and so does the search of a crate for examples in comments. Crates
/// and binaries without tests therefore declare `test = false`, and crates without examples `doctest = false`.
#[test]
fn no_test_is_switched_off_with_its_crate() {
    let files = files();
    let read = |path: &Path| page(path.to_str().expect("UTF-8"));
    for manifest in files.iter().filter(|path| path.ends_with("Cargo.toml") && path.as_os_str() != "Cargo.toml") {
        let (options, folder) = (read(manifest), manifest.with_file_name("src"));
        let is_off = |section: &str, option: &str| {
            options.split("\n\n").any(|part| part.starts_with(section) && part.contains(&format!("\n{option} = false")))
        };
        let main =
            files.iter().find(|path| **path == folder.join("main.rs")).map(|path| read(path)).unwrap_or_default();
        for path in files.iter().filter(|path| path.starts_with(&folder)) {
            let source = read(path);
            let module = path.file_stem().and_then(OsStr::to_str).expect("a name");
            let is_of_binary = module == "main" || main.contains(&format!("mod {module};"));
            let section = if is_of_binary { "[[bin]]" } else { "[lib]" };
            let is_test = source.contains("#[test]") || source.contains("#[tokio::test");
            assert!(!is_test || !is_off(section, "test"), "remove `test = false` from {}", manifest.display());
            // The first fence opens an example, the second one closes it.
            let comments = source.lines().filter_map(|line| line.trim().strip_prefix("//"));
            let fences = comments.filter_map(|line| line.trim_start_matches(['/', '!', ' ']).strip_prefix("```"));
            let is_example = fences.step_by(2).any(|language| language != "sh" && language != "text");
            assert!(!is_example || !is_off("[lib]", "doctest"), "remove `doctest = false` from {}", manifest.display());
        }
    }
}

/// Only `http` handles HTTP, except for `webhooks::post`, which calls receivers.
#[test]
fn only_http_knows_status_codes() {
    for (module, source) in sources("common") {
        let speaks = module.first().is_some_and(|first| first == "http")
            || source.path.with_extension("").starts_with("webhooks/post");
        let names = source.imports.iter().flatten().any(|name| name == "StatusCode");
        assert!(speaks || !names, "{} names status codes", source.path.display());
    }
}
