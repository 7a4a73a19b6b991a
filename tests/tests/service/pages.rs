//! The pages as a browser sees them.

use tests::{
    Answer, World,
    world::{BROWSER, hidden_fields},
};

mod account;
mod audit;
mod docs;
mod every_page;
mod home;
mod invite;
mod keys;
mod settings;
mod sign_in;
mod team;
mod two_factor;
mod welcome;

/// A script that a stranger tries to inject.
const SCRIPT: &str = "\"><script>alert(1)</script>";

/// Returns a page's text, and checks that no markup was injected.
fn harmless(page: &Answer) -> &str {
    assert!(!page.page().contains("<script"), "{page:?}");
    page.page()
}

/// The hidden fields of the form with this button, and a user's input. A button in a table row has a label.
fn filled(page: &Answer, button: &str, typed: &[(&str, &str)]) -> Vec<(String, String)> {
    let form = page.page().split("<form ").skip(1).map(|form| form.split("</form>").next().unwrap_or_default());
    let names = [format!(">{button}</button>"), format!(" aria-label=\"{button}\"")];
    let form = form.filter(|form| names.iter().any(|name| form.contains(name))).collect::<Vec<_>>();
    assert_eq!(form.len(), 1, "{button} in {}", page.page());
    let mut fields = hidden_fields(form[0]);
    for (name, value) in typed {
        assert!(form[0].contains(&format!(" name=\"{name}\"")), "{name} in {}", form[0]);
        fields.push(((*name).to_owned(), (*value).to_owned()));
    }
    fields
}

/// Opens a page in a browser with this cookie.
async fn open(world: &World, cookie: &str, path: &str) -> Answer {
    world.send(world.http.get(world.url(path)).header("accept", BROWSER).header("cookie", cookie)).await
}

/// Sends a form to a page from a browser with this cookie.
async fn submit(world: &World, cookie: &str, path: &str, fields: &[(String, String)]) -> Answer {
    let request = world.http.post(world.url(path)).header("accept", BROWSER).header("origin", world.stack.api());
    world.send(request.header("cookie", cookie).form(fields)).await
}

/// The page that the response redirects to.
fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.headers["location"].to_str().expect("a string")
}

/// Opens the page that the response to a form redirects to.
async fn follow(world: &World, cookie: &str, answer: &Answer) -> Answer {
    let page = open(world, cookie, location(answer)).await;
    assert_eq!(page.status, 200, "{page:?}");
    page
}

/// The session cookie that a response sets, as a `cookie` header.
fn set(answer: &Answer) -> String {
    let cookie = answer.headers["set-cookie"].to_str().expect("a cookie");
    cookie.split(';').next().unwrap_or_default().to_owned()
}
