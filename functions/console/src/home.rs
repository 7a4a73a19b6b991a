//! The page at the root of the API, for whoever opens its address.

use std::{collections::BTreeMap, str::FromStr, sync::Arc};

use common::{
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::{Error, Result},
    http::{Call, Output, Public, Reply, Route, Wire, page::Page},
};
use maud::html;
use url::Url;

use crate::App;

/// Where the documentation is: a URL, or a path of this API.
pub(crate) struct Docs(String);

impl Docs {
    /// Reads `DOCS_URL`. `None` if the deployment does not set it.
    pub(crate) fn from_env(env: &Env) -> Result<Option<Self>, ConfigError> {
        env.optional("DOCS_URL").map(|_| env.parsed("DOCS_URL")).transpose()
    }
}

impl FromStr for Docs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_path = text.starts_with('/');
        let url =
            if is_path { Url::parse("https://api.example.com").and_then(|api| api.join(text)) } else { text.parse() };
        match url.map_err(|error| error.to_string())?.scheme() {
            "http" | "https" => Ok(Self(text.to_owned())),
            _ => Err("it must be an http or https URL, or a path".into()),
        }
    }
}

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
            "An organization stores its webhook endpoints here. When one of its jobs ends, each endpoint gets a signed \
             request about it, which is repeated until it succeeds, for up to three days."
        }
        p { a href="/signin" { "Sign in" } " or " a href="/signin?mode=signup" { "sign up" } "." }
        @if let Some(Docs(docs)) = docs {
            p { "Everything else is done through the API. Here is " a href=(docs) { "its documentation" } "." }
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
    if let Some(Docs(docs)) = docs {
        links.insert("docs", at(docs)?);
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_is_at_a_url_or_a_path() {
        for good in ["https://docs.example.com/webhooks?v=1#top", "http://localhost:8080", "/openapi.json", "/"] {
            assert!(good.parse::<Docs>().is_ok(), "{good}");
        }
        for bad in
            ["javascript:alert(1)", "docs", "?", "data:text/html,x", "ftp://example.com", "https://", "mailto:a@b.c"]
        {
            assert!(bad.parse::<Docs>().is_err(), "{bad}");
        }
    }
}
