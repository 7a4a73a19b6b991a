//! Links point to existing files and headings, and no file contains a path that exists only on one machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use pulldown_cmark::{Event, Tag, TagEnd};

use super::{parser, root};

/// Every file in the repository that Git does not ignore, by its path.
pub(crate) fn files() -> Vec<PathBuf> {
    let ignored = fs::read_to_string(root().join(".gitignore")).expect("a list of folders in the root");
    let mut ignored: BTreeSet<&str> = ignored.lines().map(|line| line.trim_start_matches('/')).collect();
    ignored.insert(".git");
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = folder.join(entry.file_name());
            if path.to_str().is_some_and(|path| ignored.contains(path)) {
                continue;
            }
            if entry.file_type().expect("a type").is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

/// The anchors and the links on a page.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

fn read(source: &str) -> Page {
    let (mut page, mut heading) = (Page::default(), None);
    for event in parser(source) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            (Event::End(TagEnd::Heading(_)), Some(text)) => {
                let anchor = anchor(text);
                let repeated = (1..).map(|number| format!("{anchor}-{number}"));
                let free = std::iter::once(anchor.clone()).chain(repeated).find(|name| !page.anchors.contains(name));
                page.anchors.extend(free);
                heading = None;
            }
            (Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }), _) => {
                page.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    page
}

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_and_every_anchor_exists() {
    let files: BTreeSet<PathBuf> = files().into_iter().collect();
    let is_page = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let pages: BTreeMap<&Path, Page> = (files.iter().filter(is_page))
        .map(|path| (path.as_path(), read(&fs::read_to_string(root().join(path)).expect("UTF-8"))))
        .collect();
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, name)| (file, Some(name)));
            let target = if file.is_empty() { path.to_path_buf() } else { resolve(path, file) };
            let known = || pages.get(target.as_path()).map(|page| &page.anchors);
            if !files.contains(&target) || anchor.is_some_and(|name| !known().is_some_and(|names| names.contains(name)))
            {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(pages.len() > 5 && pages.values().any(|page| page.links.len() > 10), "the pages are found and read");
    assert!(broken.is_empty(), "broken links: {broken:#?}");
}

/// The target file of a link, relative to its page's folder.
fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut target = page.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(link) {
        if part == ".." { assert!(target.pop(), "{link} leads out of the repository") } else { target.push(part) }
    }
    target
}

#[test]
fn no_file_refers_to_paths_outside_the_repository() {
    // The paths are in two parts, so this file does not contain them.
    let foreign = [["../", "shared"], ["/wor", "k/"], ["/roo", "t/"], ["/ho", "me/"], ["/User", "s/"]]
        .map(|parts| parts.concat());
    for path in files() {
        let bytes = fs::read(root().join(&path)).expect("a file");
        let text = String::from_utf8_lossy(&bytes);
        for foreign in &foreign {
            assert!(!text.contains(foreign), "{} mentions {foreign}", path.display());
        }
    }
}
