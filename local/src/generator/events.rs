//! The sample events of the functions with a route under `/v1`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use common::http::Credential;
use serde_json::{json, value::RawValue};

/// The sample event from which the others are made: a call with an API key and without fields.
const MODEL: &str = include_str!("../../../events/webhooks-list.json");
const MODEL_PATH: &str = "/v1/webhooks/list";
const MODEL_BODY: &str = r#"{"json":{}}"#;
/// The fields in each sample event.
const FIELDS: &str = include_str!("../../../events/fields.json");

const KEY: &str = r#"    "x-api-key": "ak_4fK9sQ2mXbT7vLr0ZyNc8HjWp3GdEuA6RtYi1OoSk5B",
"#;
const COOKIES: &str = r#"  "cookies": [
    "__Host-session_token=Zk3v9XwQ1rTn7LbYc5HsGm2PdJx8KfUa4EoVi6RyBtM"
  ],
"#;

/// Returns the sample event of each function in `routes`, which have the path and the credentials of its route.
pub(super) fn samples<'a>(
    routes: impl Iterator<Item = (&'a str, &'a str, &'a [Credential])>,
) -> Result<BTreeMap<String, String>> {
    let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(FIELDS).context("events/fields.json")?;
    let mut samples = BTreeMap::new();
    for (function, path, credentials) in routes {
        let fields = fields.remove(function).with_context(|| format!("events/fields.json has no {function}"))?;
        samples.insert(function.to_owned(), sample(path, fields.get(), credentials));
    }
    ensure!(fields.is_empty(), "events/fields.json has {:?}, which have no route under /v1", fields.keys());
    Ok(samples)
}

fn sample(path: &str, fields: &str, credentials: &[Credential]) -> String {
    let body = format!("{{\"json\":{fields}}}");
    let length = |body: &str| format!("\"content-length\": \"{}\"", body.len());
    let event = MODEL
        .replace(MODEL_PATH, path)
        .replace(&length(MODEL_BODY), &length(&body))
        .replace(&json!(MODEL_BODY).to_string(), &json!(body).to_string());
    if credentials.contains(&Credential::Key) {
        event
    } else if credentials.contains(&Credential::Session) {
        let origin = "    \"origin\": \"https://api.example.com\",\n    \"user-agent\"";
        let (before, after) = ("  \"headers\": {\n", "    \"user-agent\"");
        event.replace(KEY, "").replace(before, &format!("{COOKIES}{before}")).replacen(after, origin, 1)
    } else {
        event.replace(KEY, "")
    }
}
