//! Requests for unknown paths, and the favicon.

use std::sync::{Arc, LazyLock};

use common::{
    error::{Error, Result},
    http::{
        Call, Public, Reply, Route,
        page::{HOOK, Page},
    },
};
use maud::html;

use crate::app::App;

/// The favicon, in a color that is visible on light and dark tabs.
static ICON: LazyLock<String> = LazyLock::new(|| {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\" fill=\"none\" stroke=\"#4a86f7\" stroke-width=\"2\" \
         stroke-linecap=\"round\"><path d=\"{HOOK}\"/></svg>"
    )
});

/// Addresses that people are likely to type, with the intended pages.
const LIKELY_PATHS: [(&str, &str); 3] =
    [("/signup", "/signin?mode=signup"), ("/login", "/signin"), ("/console/endpoints", "/console")];

/// The message for a `GET` request to a path that looks like an API call.
const OF_API: &str = "Not found. Calls under /v1 use POST";

/// Handles every `GET` that does not match another route. Programs get the same JSON as from API Gateway, with a code.
pub(crate) fn show() -> Route<App> {
    Route::get("/{proxy+}", Public, |_, _| Ok(()), get_page)
}

pub(crate) fn icon() -> Route<App> {
    Route::get("/favicon.ico", Public, |_, _| Ok(()), draw)
}

async fn draw(_: Arc<App>, _: Call<()>, (): ()) -> Result<Reply> {
    Ok(Reply::Svg(&ICON))
}

async fn get_page(_: Arc<App>, call: Call<()>, (): ()) -> Result<Reply> {
    if !call.takes_html() {
        return Err(Error::NotFound(if call.path().starts_with("/v1/") { OF_API } else { "Not Found" }));
    }
    if let Some((_, page)) = LIKELY_PATHS.iter().find(|(typed, _)| *typed == call.path()) {
        return Ok(Reply::redirect(*page));
    }
    let content = html! {
        p { "There is no page at this address. The link may be old or incomplete." }
        p { a href="/console" { "Go to the console" } " or " a href="/docs" { "read the documentation" } "." }
    };
    Ok(Page::new("Page not found", content).refused(Some(Error::NotFound("Not Found"))).into())
}
