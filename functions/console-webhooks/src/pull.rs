//! Instructions for programs that receive deliveries from a pull endpoint.

use common::{base_url::BaseUrl, id::EndpointId};
use maud::{Markup, html};

/// The command for a laptop, and the calls for other programs.
pub(crate) fn usage(id: EndpointId, base: &BaseUrl, is_open: bool) -> Markup {
    html! {
        details open[is_open] {
            summary { "How to fetch deliveries" }
            p { "To forward them to a program on your computer, run the command-line client:" }
            pre { "fanfare listen --endpoint " (id) " --to 3000/hook" }
            p { "Or call the API from your program, with a key from " a href="/console/keys" { "API keys" } ":" }
            pre {
                "curl " (base) "/v1/deliveries/receive -H \"x-api-key: $KEY\" \\\n"
                "  -d '{\"json\": {\"webhook_endpoint_id\": \"" (id) "\"}}'"
            }
            p { "Each delivery in the response is leased to you for 60 seconds. Report the result before the lease \
                 ends:" }
            pre {
                "curl " (base) "/v1/deliveries/settle -H \"x-api-key: $KEY\" \\\n"
                "  -d '{\"json\": {\"settlements\": [{\"delivery_id\": \"…\", \"lease\": \"…\", \"status_code\": 204}]}}'"
            }
            p { a href="/docs" { "Fields of these calls" } }
        }
    }
}
