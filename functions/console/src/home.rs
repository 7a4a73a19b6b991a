//! The page at the root of the API, for whoever opens its address.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    base_url::BaseUrl,
    error::{Error, Result},
    http::{Call, Output, Public, Reply, Route, Wire, page::Page},
};
use maud::html;
use url::Url;

use crate::{app::App, docs::Docs};

pub(crate) fn show() -> Route<App> {
    Route::get("/", Public, |_, _| Ok(()), open)
        .summary("What this is, and where to go on: a page, or the same in JSON for whoever does not take `text/html`.")
}

async fn open(app: Arc<App>, call: Call<()>, (): ()) -> Result<Reply> {
    let docs = app.docs.as_ref();
    if call.takes_html() { Ok(page(docs).into()) } else { links(&call.base, docs)?.reply(Wire::Page) }
}

fn page(docs: Option<&Docs>) -> Page {
    let content = html! {
        p {
            "An organization stores its webhook endpoints here. When one of its jobs ends, each endpoint that wants the \
             event gets a signed request about it. If that fails, more attempts follow for about a day."
        }
        p { a href="/signin" { "Sign in" } " or " a href="/signin?mode=signup" { "sign up" } "." }
        @if let Some(docs) = docs {
            p { "Everything else is done through the API. Here is " a href=(docs.0) { "its documentation" } "." }
        } @else {
            p { "Everything else is done through the API. Its documentation comes with its source." }
        }
    };
    Page::new("This service is up", content)
}

/// The links of the page, for programs.
fn links(base: &BaseUrl, docs: Option<&Docs>) -> Result<BTreeMap<&'static str, String>> {
    let root = Url::parse(base.as_str()).map_err(Error::internal("reading the base URL"))?;
    let at = |path: &str| root.join(path).map(String::from).map_err(Error::internal("making a link"));
    let mut links = BTreeMap::from([("message", "This service is up".to_owned()), ("signIn", at("/signin")?)]);
    if let Some(docs) = docs {
        links.insert("docs", at(&docs.0)?);
    }
    Ok(links)
}
