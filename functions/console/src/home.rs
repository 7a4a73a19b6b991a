//! The API's root: redirects browsers to the console, and returns links to programs.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    base_url::BaseUrl,
    error::{Error, Result},
    http::{BodyFormat, Call, Output, Public, Reply, Route},
    presentation::docs::Docs,
};
use url::Url;

use crate::app::App;

pub(crate) fn show() -> Route<App> {
    Route::get("/", Public, |_, _| Ok(()), get_page)
        .summary("Redirects browsers to the console. Clients that do not accept `text/html` get links as JSON.")
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<()>, (): ()) -> Result<Reply> {
    if call.takes_html() {
        return Ok(Reply::redirect("/console"));
    }
    links(&call.base, &app.docs)?.reply(BodyFormat::Page)
}

/// The links for programs.
fn links(base: &BaseUrl, docs: &Docs) -> Result<BTreeMap<&'static str, String>> {
    let root = Url::parse(base.as_str()).map_err(Error::internal("reading the base URL"))?;
    let at = |path: &str| root.join(path).map(String::from).map_err(Error::internal("making a link"));
    Ok(BTreeMap::from([
        ("message", "This service is up".to_owned()),
        ("signIn", at("/signin")?),
        ("docs", at(docs.as_str())?),
    ]))
}
