//! Opens the service's pages in the user's browser.

use std::{
    io::{self, IsTerminal},
    process::{Command, Stdio},
};

use api::webhooks::List;
use serde_json::json;
use url::Url;

use crate::{
    calls::Api,
    failure::Failure,
    ids,
    terminal::{is_for_people, print_result},
};

/// The names of the console's pages.
const PAGES: [&str; 6] = ["deliveries", "keys", "team", "audit", "settings", "account"];

/// `fanfare open`: prints the address of a page, and opens it.
pub(crate) async fn run(api: &Api, what: Option<&str>, has_browser: bool, is_json: bool) -> Result<(), Failure> {
    let path = match what {
        None => "/console".to_owned(),
        Some(page) if is_page(page) => format!("/console/{page}"),
        Some(id) => path_of(api, id).await?,
    };
    let page: Url = api.page(&path).parse().map_err(|error| Failure::local(format!("{error}.")))?;
    print_result(&json!({ "url": page.as_str() }), is_json, page.as_str())?;
    if has_browser && !is_json && is_for_people() {
        open(&page);
    }
    Ok(())
}

/// Whether `text` is the name of a page rather than an id.
pub(crate) fn is_page(text: &str) -> bool {
    PAGES.contains(&text)
}

/// Returns the path of the page for an endpoint or a delivery.
async fn path_of(api: &Api, typed: &str) -> Result<String, Failure> {
    let endpoint = |id| format!("/console/endpoints/{id}");
    let delivery = |id| format!("/console/deliveries/{id}");
    if ids::is_uuid(typed) {
        return Ok(endpoint(ids::endpoint(api, typed).await?));
    }
    if ids::is_delivery_id(typed) {
        return Ok(delivery(ids::delivery(api, typed).await?));
    }
    let endpoints = ids::endpoints_like(&api.call(&List::new()).await?.webhook_endpoints, typed);
    let mut found: Vec<_> = endpoints.into_iter().map(|(id, line)| (endpoint(id), line)).collect();
    found.extend(ids::deliveries_like(api, typed).await?.into_iter().map(|(id, line)| (delivery(id), line)));
    ids::only(typed, "endpoint and no recent delivery", found)
}

/// Opens a page in the browser, if there is one. The caller also prints the address.
pub(crate) fn open(page: &Url) {
    let (program, first) = match std::env::consts::OS {
        "macos" => ("open", None),
        "windows" => ("rundll32", Some("url.dll,FileProtocolHandler")),
        _ => ("xdg-open", None),
    };
    let mut command = Command::new(program);
    command.args(first).arg(page.as_str());
    let _started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

/// Whether standard input and output are a terminal.
pub(crate) fn has_person() -> bool {
    io::stdin().is_terminal()
}
