//! The failed deliveries of several endpoints, with the link that recovers all of them, or the progress of a recovery.

use common::webhooks::log::{recovery::Recovery, undelivered::Backlog};
use maud::{Markup, html};

use super::other_pages::Elsewhere;
use crate::{
    numbers::{EndpointNumbers, counted},
    recovery::{PATH, button, running},
};

/// The notice, if more than one active endpoint has failed deliveries, or all are being recovered.
pub(super) fn notice(rows: &[EndpointNumbers], elsewhere: &[Elsewhere], unfinished: &[Recovery]) -> Markup {
    let here = rows.iter().filter(|row| row.endpoint.active).map(|row| &row.open.failed);
    let others = elsewhere.iter().filter_map(Elsewhere::failed);
    let failed: Vec<&Backlog> = here.chain(others).filter(|failed| failed.count > 0).collect();
    html! {
        @if let Some(running) = running(unfinished) {
            (running)
        } @else if failed.len() > 1 {
            div .notice.problem.bad {
                p { strong { (counted(failed.len(), "endpoint has", "endpoints have")) " failed deliveries" } "." }
                a .button href=(PATH) { (button(failed.into_iter())) }
            }
        }
    }
}
