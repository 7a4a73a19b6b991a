//! The outcomes of attempts, and their names and meanings for people.

/// The names of outcomes in the delivery log.
pub const OUTCOMES: [&str; 14] = [
    "delivered",
    "status_5xx",
    "status_4xx",
    "status_other",
    "gone",
    "redirect",
    "timeout",
    "connect",
    "dns",
    "tls",
    "protocol",
    "blocked",
    "unanswered",
    "untaken",
];

/// A short name for a failure: `HTTP 500` if the receiver sent a status, otherwise a few words.
pub fn error_name(reason: &str, status_code: Option<u16>) -> String {
    if let Some(status) = status_code {
        return format!("HTTP {status}");
    }
    let name = match reason {
        "status_4xx" => "HTTP 4xx",
        "status_5xx" => "HTTP 5xx",
        "status_other" => "Unexpected HTTP status",
        "redirect" => "HTTP redirect",
        "gone" => "HTTP 410",
        "timeout" => "Timeout",
        "blocked" => "Address not allowed",
        "dns" => "Host not found",
        "connect" => "Connection failed",
        "tls" => "TLS error",
        "protocol" => "Invalid HTTP response",
        "unanswered" => "Not sent in time",
        "untaken" => "Not received in time",
        _ => "Attempt failed",
    };
    name.to_owned()
}

/// Explains a failure: returns its detail or, if there is none, the meaning of its reason, as sentences.
pub fn error_meaning(reason: &str, detail: Option<&str>) -> String {
    if let Some(detail) = detail {
        let rule = if reason == "redirect" { " Redirects are not followed." } else { "" };
        return format!("{detail}.{rule}");
    }
    let meaning = match reason {
        "status_4xx" => "The receiver rejected the request.",
        "status_5xx" => "The receiver reported a server error.",
        "status_other" => "The receiver responded with a status other than 2xx.",
        "redirect" => "The receiver redirected the request. Redirects are not followed.",
        "gone" => "The receiver asked to stop deliveries.",
        "timeout" => "No complete response arrived in time.",
        "blocked" => "The URL resolves to an address that this deployment does not allow.",
        "dns" => "The host name has no address.",
        "connect" => "No address of the host accepted a connection.",
        "tls" => "The TLS handshake failed, most often because the certificate is not trusted.",
        "protocol" => "The connection closed early, or the response was not valid HTTP.",
        "unanswered" => "No attempt was made within three days, because the receiver was silent or too slow.",
        "untaken" => "No client received the delivery within three days.",
        _ => "The attempt failed.",
    };
    meaning.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_the_error() {
        assert_eq!(error_name("status_5xx", Some(503)), "HTTP 503");
        assert_eq!(error_name("timeout", None), "Timeout");
        assert_eq!(error_name("a reason from a later version", None), "Attempt failed");
    }

    #[test]
    fn a_detail_replaces_the_reason() {
        let expired = "The certificate expired on 2026-01-31 12:00:00 UTC";
        assert_eq!(error_meaning("tls", Some(expired)), "The certificate expired on 2026-01-31 12:00:00 UTC.");
        let elsewhere = "The receiver redirected the request to https://example.com/";
        assert_eq!(
            error_meaning("redirect", Some(elsewhere)),
            "The receiver redirected the request to https://example.com/. Redirects are not followed."
        );
        assert_eq!(error_meaning("dns", None), "The host name has no address.");
    }
}
