//! The links between the console's pages, which also appear on its error pages.

use maud::{Markup, html};

/// The pages, with their names in the navigation.
const PAGES: [(&str, &str); 6] = [
    ("/console", "Endpoints"),
    ("/console/deliveries", "Deliveries"),
    ("/console/keys", "API keys"),
    ("/console/team", "Team"),
    ("/console/settings", "Settings"),
    ("/console/account", "Account"),
];

/// The links, and the button that signs out. `here` is the path of the link to the current page.
pub fn navigation(here: &str) -> Markup {
    html! {
        nav aria-label="Console" {
            @for (path, name) in PAGES {
                a href=(path) aria-current=[(path == here).then_some("page")] { (name) }
            }
            a href="/docs" { "Docs" }
        }
        form method="post" action="/signin" {
            input type="hidden" name="action" value="sign-out";
            button .secondary { "Sign out" }
        }
    }
}
