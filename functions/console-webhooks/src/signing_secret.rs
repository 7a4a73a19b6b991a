//! The secret of an endpoint, and receivers that verify deliveries with it. `docs/receivers.md` is the source of the
//! receivers.

use common::{
    presentation::docs::{RECEIVERS, RECEIVING},
    webhooks::destination::SigningSecret,
};
use maud::{Markup, html};

/// The page with a receiver for each framework.
const PAGE: &str = include_str!("../../../docs/receivers.md");

/// A complete receiver.
struct ExampleReceiver {
    framework: &'static str,
    /// How to install and run it, with code between backticks.
    steps: &'static str,
    program: &'static str,
}

/// A secret that is shown only once. The libraries decode secrets from base64 and reject other strings, so the page
/// also shows the secret in base64, unless all libraries accept it unchanged.
pub(crate) fn copied(secret: &SigningSecret) -> Markup {
    let for_libraries = secret.for_libraries();
    html! {
        div .warning {
            p { strong { "Copy the signing secret now. It is not shown again." } }
            pre #secret { (secret.reveal()) }
            @if *for_libraries != *secret.reveal() {
                p {
                    "The libraries for JavaScript and Python decode secrets from base64. Give them the secret in this form, and \
                     the receivers in other languages the secret as it is:"
                }
                pre #library-secret { (*for_libraries) }
            }
        }
    }
}

/// A receiver for each framework.
pub(crate) fn receivers() -> Markup {
    html! {
        p { "Store the secret as " code { "WEBHOOK_SECRET" } " on your server, and verify each request over the raw bytes of its body, before anything parses them. Complete receivers:" }
        @for ExampleReceiver { framework, steps, program } in parsed() {
            details .receiver name="receiver" {
                summary { (framework) }
                p {
                    @for (number, part) in steps.split('`').enumerate() {
                        @if number % 2 == 1 { code { (part) } } @else { (part) }
                    }
                }
                pre tabindex="0" role="group" aria-label=(framework) { (program) }
            }
        }
        p { a href=(RECEIVING) { "Read how to receive webhooks" } ": the headers and the body, other languages, retries and duplicates." }
    }
}

/// The link to the receivers, for someone who has one.
pub(crate) fn link() -> Markup {
    html! { p { a href=(RECEIVERS) { "View receivers for each framework" } } }
}

/// The receivers on the page. Each is a section with a paragraph and a block of code.
fn parsed() -> impl Iterator<Item = ExampleReceiver> {
    PAGE.split("\n## ").skip(1).filter_map(|section| {
        let (framework, rest) = section.split_once("\n\n")?;
        let (steps, rest) = rest.split_once("\n\n```")?;
        let (_language, rest) = rest.split_once('\n')?;
        let (program, _) = rest.split_once("```")?;
        Some(ExampleReceiver { framework, steps, program })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_the_page_is_a_receiver() {
        let receivers: Vec<_> = parsed().collect();
        assert_eq!(receivers.len(), PAGE.matches("\n## ").count());
        for ExampleReceiver { framework, steps, program } in receivers {
            assert!(program.contains("WEBHOOK_SECRET") && program.contains("webhook-"), "{framework}: {program}");
            // The console renders code in this paragraph, but no other markup.
            assert!(steps.matches('`').count() % 2 == 0 && !steps.contains(']'), "{framework}: {steps}");
        }
    }
}
