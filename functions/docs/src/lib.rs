//! The documentation: an index, a page for each API call, and guides. The build script generates the content of the
//! pages, so the function does not read tables or parse anything. The pages need neither scripts nor a session.

use std::sync::Arc;

use common::{
    config::{ConfigError, Env},
    error::{Error, Result},
    http::{Call, DeclaredError, FormValues, Function, NoCallers, Public, Reply, Route, page::Page},
    presentation::docs::{Docs, INDEX, QUICK_START, RECEIVING},
};
use maud::{Markup, PreEscaped, html};

/// A page's path, title and content.
type GeneratedPage = (&'static str, &'static str, &'static str);

/// The pages that the build script generated.
const PAGES: &[GeneratedPage] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The placeholder for the API's address in a page's content.
const API: &str = "%API%";

common::from_env! {
    /// The routes' dependencies.
    pub struct App {
        docs: Docs = Docs::from_env,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::of_pages(env, [index(), page()])
}

fn index() -> Route<App, NoCallers> {
    Route::get(INDEX, Public, |_, _| Ok(()), open_index)
        .summary("Shows the documentation of the API, or redirects to `DOCS_URL`.")
        .redirects()
}

fn page() -> Route<App, NoCallers> {
    Route::get("/docs/{page}", Public, |_, fields| Ok(fields.typed(&[PAGE])), open)
        .summary("Shows a call with its fields, response and errors, or a guide, or redirects to `DOCS_URL`.")
        .errors(&[DeclaredError::NotFound])
        .redirects()
}

/// A page's path parameter: its name and description.
const PAGE: (&str, &str) = (
    "page",
    "The `operationId` of a call, or the name of a guide: `quick-start`, `receivers`, `events`, `listening` for the client, \
      `receiving`, `servers`, or `job-events` for producers.",
);

async fn open_index(app: Arc<App>, call: Call<()>, (): ()) -> Result<Reply> {
    show(&app, &call, INDEX)
}

async fn open(app: Arc<App>, call: Call<()>, link: FormValues) -> Result<Reply> {
    show(&app, &call, &format!("{INDEX}/{}", link.get("page")))
}

/// Returns the page at `path`, or a redirect if the deployment hosts its documentation elsewhere.
fn show(app: &App, call: &Call<()>, path: &str) -> Result<Reply> {
    if let Some(to) = app.docs.elsewhere() {
        return Ok(Reply::redirect(to));
    }
    let Some((_, title, content)) = PAGES.iter().find(|(known, ..)| *known == path) else {
        return missing(call).map(Reply::from);
    };
    let api = html! { (call.base) }.into_string();
    let content = PreEscaped(content.replace(API, &api));
    Ok(Page::new(*title, content).within(frame(path)).public().into())
}

fn missing(call: &Call<()>) -> Result<Page> {
    let missing = Error::NotFound("Page not found");
    if !call.takes_html() {
        return Err(missing);
    }
    let content = html! {
        p { "There is no documentation page at this address. The link may be old or incomplete." }
        p { a href=(INDEX) { "View all pages of the documentation" } }
    };
    Ok(Page::new("Page not found", content).within(frame("")).refused(Some(missing)))
}

/// The header of documentation pages, for readers with or without a session.
fn frame(here: &str) -> Markup {
    html! {
        nav aria-label="Documentation" {
            @for (path, name) in [(INDEX, "Documentation"), (QUICK_START, "Quick start"), (RECEIVING, "Receiving webhooks")] {
                a href=(path) aria-current=[(path == here).then_some("page")] { (name) }
            }
            a href="/console" { "Console" }
        }
    }
}
