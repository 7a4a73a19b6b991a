//! The console's pages about webhooks, in a browser without scripts.

mod access;
mod deliveries;
mod endpoint;
mod finding;
mod new_endpoint;
mod overview;
mod pull;
mod states;
mod verification;

use tests::{Answer, Browser, browser::readable};

/// Returns a page's visible text, and checks that no markup was injected.
fn text(page: &Answer) -> String {
    for active in ["<script", "<img", " style=", " onclick=", "href=\"javascript:"] {
        assert!(!page.page().contains(active), "{active} in {}", page.page());
    }
    readable(page.page())
}

/// Disables an endpoint on its page at `path`, after the confirmation.
async fn disable(browser: &Browser<'_>, path: &str) -> Answer {
    let asked = browser.open(&format!("{path}?confirm=deactivate")).await;
    browser.press(path, &asked, "Disable endpoint", &[]).await
}

/// Fails the test unless the page contains all of these strings, in this order.
fn says(page: &Answer, words: &[&str]) {
    let text = text(page);
    let mut rest = text.as_str();
    for word in words {
        let found = rest.split_once(word);
        assert!(found.is_some(), "{word:?} is missing or out of order in {text}");
        rest = found.map_or("", |(_, behind)| behind);
    }
}
