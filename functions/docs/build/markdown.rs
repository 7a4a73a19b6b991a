//! Converts a page in `docs/` to a page under `/docs`.

use std::collections::BTreeSet;

use super::API;
use maud::html;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The start of the section for readers of the repository. The page omits this section.
const LOCALLY: &str = "\n## Try it locally";
/// Part of each link in the source's table of contents. That table is dropped, because the page has its own.
const CONTENTS: &str = "](#";

/// The address of the API in the sources, instead of which a page shows the service's own.
const EXAMPLE: &str = "https://api.example.com";

/// Returns a page's title and content. `guides` are the names of the files that have a page, and `calls` the ids of the
/// calls that have one.
pub(crate) fn page(text: &str, guides: &[&str], calls: &BTreeSet<&str>) -> (String, String) {
    let text = text.replace(EXAMPLE, API);
    let text = text.split(LOCALLY).next().unwrap_or_default();
    let is_contents = |block: &&str| block.starts_with('[') && block.matches(CONTENTS).count() > 2;
    let text: Vec<&str> = text.split("\n\n").filter(|block| !is_contents(block)).collect();
    let text = text.join("\n\n");
    let events: Vec<Event<'_>> = Parser::new_ext(&text, Options::ENABLE_TABLES).collect();
    let (mut made, mut title, mut sections) = (Vec::new(), String::new(), Vec::new());
    // Whether each open link is kept. Links to files that are only in the repository become plain text.
    let mut links = Vec::new();
    let mut is_title = false;
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => {
                is_title = true;
                title = words(events.get(at + 1..).unwrap_or_default());
            }
            Event::End(TagEnd::Heading(HeadingLevel::H1)) => is_title = false,
            _ if is_title => {}
            Event::Start(Tag::Heading { level, .. }) => {
                let words = words(events.get(at + 1..).unwrap_or_default());
                let id = anchor(&words);
                made.push(Event::Html(format!("<{level} id=\"{id}\">").into()));
                if *level == HeadingLevel::H2 {
                    sections.push((id, words));
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                let target = target(dest_url, guides, calls);
                if let Some(to) = &target {
                    made.push(Event::Html(format!("<a href=\"{to}\">").into()));
                }
                links.push(target.is_some());
            }
            Event::End(TagEnd::Link) => {
                if links.pop() == Some(true) {
                    made.push(Event::Html("</a>".into()));
                }
            }
            // Code and tables scroll sideways on phones. They are focusable, so that keyboard users can scroll them.
            Event::Start(Tag::CodeBlock(kind)) => made.push(open("pre class=\"code\"", language(kind))),
            Event::End(TagEnd::CodeBlock) => made.push(Event::Html("</pre>".into())),
            Event::Start(Tag::Table(_)) => made.extend([open("div class=\"scroll\"", "Table"), event.clone()]),
            Event::End(TagEnd::Table) => made.extend([event.clone(), Event::Html("</div>".into())]),
            Event::Html(_) | Event::InlineHtml(_) => {}
            _ => made.push(event.clone()),
        }
    }
    let contents = html! {
        nav aria-label="On this page" {
            ul { @for (id, words) in &sections { li { a href={ "#" (id) } { (words) } } } }
        }
    };
    let mut content = contents.into_string();
    pulldown_cmark::html::push_html(&mut content, made.into_iter());
    (title, content)
}

/// Returns the start tag of a focusable element.
fn open(element: &str, name: &str) -> Event<'static> {
    Event::Html(format!("<{element} tabindex=\"0\" role=\"group\" aria-label=\"{name}\">").into())
}

fn language<'a>(kind: &'a CodeBlockKind<'_>) -> &'a str {
    match kind {
        CodeBlockKind::Fenced(name) if **name != *"text" => name,
        _ => "Example",
    }
}

/// Returns the text of the heading that starts at `events`.
fn words(events: &[Event<'_>]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let words = inside.map(|event| match event {
        Event::Text(words) | Event::Code(words) => words.as_ref(),
        _ => "",
    });
    words.collect()
}

/// Returns a heading's id by GitHub's rules, so that links in the source work.
fn anchor(heading: &str) -> String {
    let heading = heading.to_lowercase().replace(' ', "-");
    heading.chars().filter(|character| character.is_alphanumeric() || matches!(character, '-' | '_')).collect()
}

/// Returns the address of a link's target under `/docs`, or `None` if the target is only in the repository.
fn target(link: &CowStr<'_>, guides: &[&str], calls: &BTreeSet<&str>) -> Option<String> {
    if link.starts_with('#') || link.starts_with("https://") {
        return Some(link.to_string());
    }
    let (file, section) = link.split_once('#').unwrap_or((link, ""));
    if file == "reference.md" {
        let call = calls.iter().find(|call| call.to_lowercase() == section)?;
        return Some(format!("/docs/{call}"));
    }
    let name = file.strip_suffix(".md").filter(|name| guides.contains(name))?;
    Some(if section.is_empty() { format!("/docs/{name}") } else { format!("/docs/{name}#{section}") })
}
