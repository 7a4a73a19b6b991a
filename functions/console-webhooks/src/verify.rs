//! Code for verifying a delivery, by language. `docs/receiving.md` contains these examples and more.

use common::{presentation::docs::RECEIVING, webhooks::destination::SigningSecret};
use maud::{Markup, html};

/// Each language with its code. The receiver reads the secret from its environment.
const LINES: [(&str, &str); 3] = [
    (
        "Node.js",
        "import { Webhook } from \"standardwebhooks\"; // npm install standardwebhooks\n\
         new Webhook(process.env.WEBHOOK_SECRET).verify(rawBody, request.headers);",
    ),
    (
        "Python",
        "from standardwebhooks import Webhook  # pip install standardwebhooks\n\
         Webhook(os.environ[\"WEBHOOK_SECRET\"]).verify(raw_body, request.headers)",
    ),
    (
        "Rust",
        "use standardwebhooks::Webhook; // cargo add standardwebhooks\n\
         Webhook::new(&std::env::var(\"WEBHOOK_SECRET\")?)?.verify(&raw_body, &headers)?;",
    ),
];

/// A secret that is shown only once, with code that uses it.
pub(crate) fn secret(secret: &SigningSecret) -> Markup {
    html! { (copied(secret)) (code()) }
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
                p { "The libraries below decode secrets from base64. Give them the secret in this form:" }
                pre #library-secret { (*for_libraries) }
            }
        }
    }
}

/// Code for verifying deliveries with the secret.
pub(crate) fn code() -> Markup {
    html! {
        p { "Store the secret as " code { "WEBHOOK_SECRET" } " on your server, and verify each request over the raw bytes of its body:" }
        @for (language, lines) in LINES {
            p .soft { (language) }
            pre { (lines) }
        }
        p { a href=(RECEIVING) { "Read how to receive webhooks" } ": the headers and the body, other languages, retries and duplicates." }
    }
}
