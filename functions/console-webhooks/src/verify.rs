//! Code that verifies a delivery, by language. `docs/receiving.md` has the same examples and more.

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

/// A secret that is shown only once, with the code that uses it.
pub(crate) fn secret(secret: &str) -> Markup {
    html! {
        div .warning {
            p { strong { "Copy the signing secret now. It is not shown again." } }
            pre #secret { (secret) }
        }
        p { "Verify each request with this secret, over the raw bytes of the body:" }
        @for (language, lines) in LINES {
            p .soft { (language) }
            pre { (lines) }
        }
    }
}
