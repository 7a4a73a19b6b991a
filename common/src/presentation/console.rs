//! The frame around console pages, shared by two functions: the organization's name, and links.

use maud::{Markup, Render, html};

use crate::{http::page::visible, name::Name};

/// The console of an organization. Each of its pages shows the organization's name and links to the other pages.
pub struct Console {
    pub organization: Name,
    /// The path of the navigation link that the page belongs to.
    pub here: &'static str,
}

/// The console's pages, as its navigation names them.
const PAGES: [(&str, &str); 6] = [
    ("/console", "Endpoints"),
    ("/console/deliveries", "Deliveries"),
    ("/console/keys", "API keys"),
    ("/console/team", "Team"),
    ("/console/settings", "Settings"),
    ("/console/account", "Account"),
];

impl Render for Console {
    fn render(&self) -> Markup {
        html! {
            span .org { (visible(self.organization.as_str())) }
            nav aria-label="Console" {
                @for (path, name) in PAGES {
                    a href=(path) aria-current=[(path == self.here).then_some("page")] { (name) }
                }
                a href="/docs" { "Docs" }
            }
            form method="post" action="/signin" {
                input type="hidden" name="action" value="sign-out";
                button .secondary { "Sign out" }
            }
        }
    }
}
