//! Generates the documentation pages from `docs/openapi.json` and some of the pages in `docs/`.

use std::{env, error::Error, fs, path::Path};

use maud::html;

#[path = "build/markdown.rs"]
mod markdown;
#[path = "build/reference.rs"]
mod reference;

/// A documentation page.
struct Page {
    path: String,
    title: String,
    content: String,
}

/// The placeholder for the API's address, which the function fills in.
const API: &str = "%API%";

/// The guides for customers: the file's name, which is also the page's, and a description.
const GUIDES: [(&str, &str); 6] = [
    ("quick-start", "From an account to a verified webhook, in about ten minutes."),
    ("receivers", "Complete programs that verify a request: Express, FastAPI, Rails, Laravel, Spring, Go and others."),
    ("events", "Every event, with its members and a sample."),
    ("listening", "The command line: events on your own machine, deliveries, endpoints and keys."),
    ("receiving", "Requests, signatures, responses, retries and duplicates."),
    ("servers", "Servers, proxies and queues that lose or repeat events, as measured."),
];
/// The guides for the operator of the service.
const OPERATORS: [(&str, &str); 1] =
    [("job-events", "For the developers of the service that runs the jobs: the message that reports a finished job.")];

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../docs");
    let read = |name: &str| {
        let path = docs.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    println!("cargo::rerun-if-changed=build");
    let calls = reference::ids().collect();
    let names = GUIDES.iter().chain(&OPERATORS).map(|(name, _)| *name).collect::<Vec<_>>();
    let mut guides = Vec::new();
    for (name, about) in GUIDES.into_iter().chain(OPERATORS) {
        let (title, content) = markdown::page(&read(&format!("{name}.md"))?, &names, &calls);
        guides.push((Page { path: format!("/docs/{name}"), title, content }, about));
    }
    let links = |guides: &[(Page, &str)]| {
        html! { dl .calls { @for (page, about) in guides { dt { a href=(page.path) { (page.title) } } dd { (about) } } } }
    };
    let (customers, operators) = guides.split_at(GUIDES.len());
    let mut pages = vec![Page {
        path: "/docs".to_owned(),
        title: "Documentation".to_owned(),
        content: reference::index(&links(customers), &links(operators)).into_string(),
    }];
    pages.extend(reference::pages().map(|(id, title, content)| Page {
        path: format!("/docs/{id}"),
        title: title.to_owned(),
        content: content.into_string(),
    }));
    pages.extend(guides.into_iter().map(|(page, _)| page));
    let rows: String =
        pages.iter().map(|page| format!("({:?}, {:?}, {:?}),\n", page.path, page.title, page.content)).collect();
    fs::write(Path::new(&env::var("OUT_DIR")?).join("pages.rs"), format!("&[\n{rows}]\n"))?;
    Ok(())
}
