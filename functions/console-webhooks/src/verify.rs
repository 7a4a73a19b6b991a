//! The lines with which a receiver verifies what it gets, by language. `docs/receiving.md` has the same, and more.

use maud::{Markup, html};

/// The languages, with their lines. The secret comes from the environment of the receiver.
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

/// A secret that is shown this once, and how to use it.
pub(crate) fn secret(secret: &str) -> Markup {
    html! {
        div .warning {
            p { strong { "Copy the signing secret now: it is not shown again." } }
            pre #secret { (secret) }
        }
        p { "Your server verifies each request with it, over the bytes of the body as they came:" }
        @for (language, lines) in LINES {
            p .soft { (language) }
            pre { (lines) }
        }
    }
}
