//! The frame around console pages, shared by two functions: the organization's name, and links.

use maud::{Markup, Render, html};

use crate::{
    http::page::{navigation, visible},
    name::Name,
};

/// The console of an organization. Each of its pages shows the organization's name and links to the other pages.
pub struct Console {
    pub organization: Name,
    /// The path of the navigation link to highlight.
    pub here: &'static str,
}

impl Render for Console {
    fn render(&self) -> Markup {
        html! {
            span .org { (visible(self.organization.as_str())) }
            (navigation(self.here))
        }
    }
}
