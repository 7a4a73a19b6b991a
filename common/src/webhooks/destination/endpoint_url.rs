//! The URL of a webhook endpoint or of a job's callback.

use std::fmt;

use http::Uri;
use url::{Position, Url};

use super::destination_policy::{DestinationError, DestinationPolicy};
use crate::issue::Problem;

const MAX_LENGTH: usize = 2048;
/// The rule for a URL from a producer.
const ABSOLUTE: &str = "Must be an absolute https URL";

/// An absolute http or https URL with a host and at most 2048 characters, without user info or a fragment. The
/// [`DestinationPolicy`] decides whether the deployment may send to it.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    given: String,
    url: Url,
}

impl EndpointUrl {
    /// Parses a URL to deliver to, without applying a policy.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        Self::parse_and(text, ABSOLUTE, |_| Vec::new())
    }

    /// Parses a URL from a user or a producer. Also rejects what browsers repair: invisible characters, and a scheme
    /// without `://`.
    pub fn parse_new(text: &str) -> Result<Self, Vec<Problem>> {
        Self::parse_and(text, ABSOLUTE, |_| problems_of_new(text).collect())
    }

    /// Parses a URL to store, like [`parse_new`](Self::parse_new). Rejects URLs that `policy` would reject at each
    /// delivery, too.
    pub fn parse_permitted(text: &str, policy: &DestinationPolicy) -> Result<Self, Vec<Problem>> {
        let problem = |refused: DestinationError| Problem::format(refused.to_string());
        let problems = |url: &Url| policy.refusals_to_store(url).map(problem).chain(problems_of_new(text)).collect();
        Self::parse_and(text, policy.complete_url(), problems)
    }

    /// Parses a URL, and adds the problems that `more` finds. `complete` is the rule for a text that is not an absolute
    /// URL.
    fn parse_and(text: &str, complete: &str, more: impl FnOnce(&Url) -> Vec<Problem>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 0, MAX_LENGTH));
        // The parser silently drops these characters, but the stored URL must be exactly the URL that is called.
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            problems.push(Problem::format("Must not contain whitespace or control characters"));
        }
        let Some(url) = Url::parse(text).ok().filter(is_requestable) else {
            problems.push(Problem::format(complete));
            return Err(problems);
        };
        if has_user_info(text, &url) {
            problems.push(Problem::format("Must not contain a user name or password"));
        }
        if url.fragment().is_some() {
            problems.push(Problem::format("Must not contain a fragment"));
        }
        problems.extend(more(&url));
        if problems.is_empty() { Ok(Self { given: text.to_owned(), url }) } else { Err(problems) }
    }

    /// The URL as entered by the tenant.
    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// The URL that requests are sent to, if it differs from the text by more than the slash after the host: dots in the
    /// path are resolved, and some characters are encoded or replaced.
    pub fn as_sent(&self) -> Option<&str> {
        let sent = self.url.as_str();
        (sent != self.given && sent.strip_suffix('/') != Some(&self.given)).then_some(sent)
    }

    /// The parsed URL, for requests.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The scheme, the host and, if the URL contains one, the port: the target of a connection.
    pub fn origin(&self) -> &str {
        &self.url[..Position::BeforePath]
    }
}

/// The problems of a URL that are accepted in stored ones.
fn problems_of_new(text: &str) -> impl Iterator<Item = Problem> {
    let has_slashes = text.split_once(':').is_some_and(|(_, rest)| rest.starts_with("//"));
    let form = (!has_slashes).then(|| Problem::format(ABSOLUTE));
    form.into_iter().chain(Problem::invisible(text))
}

/// Whether the URL is valid for HTTP, which allows fewer characters in a host than the URL standard does.
fn is_requestable(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host() && url.as_str().parse::<Uri>().is_ok()
}

/// Also looks for an `@`, because the parser drops an empty user name.
fn has_user_info(text: &str, url: &Url) -> bool {
    let authority = text.split(['/', '\\']).find(|part| !part.is_empty() && !part.ends_with(':'));
    let at = authority.and_then(|part| part.split(['?', '#']).next()).is_some_and(|part| part.contains('@'));
    at || !url.username().is_empty() || url.password().is_some()
}

/// Prints only the origin, because a query often contains a secret.
impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointUrl({})", self.url.origin().ascii_serialization())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_endpoint_urls_are_refused() {
        let long = format!("https://example.com/{}", "a".repeat(2048));
        for text in [
            "",
            "example.com",
            "/hook",
            "//example.com",
            "ftp://example.com",
            "mailto:a@example.com",
            "https://",
            "https:///",
            "https://user@example.com",
            "https://@example.com",
            "https://{a}.com",
            "https://a\"b.com",
            "https://`x`.com",
            "https://user:pass@example.com",
            "https://:pass@example.com",
            "https://example.com/#a",
            " https://example.com",
            "https://exa\nmple.com",
            "https://exa mple.com",
            "https://[::1",
            "https://1.2.3.4.5",
            "javascript:alert(1)",
            &long,
        ] {
            assert!(EndpointUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_rule_that_a_url_breaks_is_reported() {
        let default = DestinationPolicy::default();
        assert_eq!(EndpointUrl::parse_permitted("http://user@10.0.0.1/#x", &default).expect_err("four rules").len(), 4);
        assert_eq!(EndpointUrl::parse("https://user:pass@example.com/ #a").expect_err("three rules").len(), 3);
    }

    #[test]
    fn an_invisible_character_is_refused_by_name() {
        let policy = DestinationPolicy::default();
        for (part, name) in [("hook\u{200b}", "U+200B"), ("?a=\u{2060}1", "U+2060"), ("\u{feff}x", "U+FEFF")] {
            let problems = EndpointUrl::parse_permitted(&format!("https://example.com/{part}"), &policy);
            let expected = format!("Must not contain the invisible character {name}");
            assert_eq!(problems.expect_err("a problem")[0].message, expected);
        }
        assert!(EndpointUrl::parse_permitted("https://example.com/häkchen/夜?q=é", &policy).is_ok());
        assert!(EndpointUrl::parse("https://example.com/hook\u{200b}").is_ok(), "a stored URL stays valid");
    }

    #[test]
    fn a_new_url_has_slashes_after_its_scheme() {
        for text in ["https:example.com", "https:/example.com/a", "https:\\\\example.com", "HTTPS:/\\example.com"] {
            let problems = EndpointUrl::parse_new(text).expect_err(text);
            assert_eq!(problems, [Problem::format("Must be an absolute https URL")], "{text}");
            assert!(EndpointUrl::parse(text).is_ok(), "a stored URL stays valid");
        }
        assert!(EndpointUrl::parse_new("HttpS://example.com/a:b").is_ok());
    }

    #[test]
    fn the_url_as_sent_is_known_where_it_differs() {
        for (given, sent) in [
            ("https://example.com/a/%2e%2e/x", Some("https://example.com/x")),
            ("https://example.com/a?b='c'", Some("https://example.com/a?b=%27c%27")),
            ("https://example.com/a\\b", Some("https://example.com/a/b")),
            ("https://example.com/ä", Some("https://example.com/%C3%A4")),
            ("https://bücher.example/a", Some("https://xn--bcher-kva.example/a")),
            ("HTTPS://Example.com:443/a", Some("https://example.com/a")),
            ("https://example.com?a=b", Some("https://example.com/?a=b")),
            ("https://example.com", None),
            ("https://example.com/", None),
            ("https://example.com/a//b?c=%2e&d=/../", None),
        ] {
            let url = EndpointUrl::parse_new(given).expect(given);
            assert_eq!((url.as_sent(), url.as_str()), (sent, given));
        }
    }

    #[test]
    fn the_text_stays_as_it_was_given() {
        assert!(EndpointUrl::parse("https://example.com/@me?a@b").is_ok());
        let url = EndpointUrl::parse("HTTPS://Example.com?key=1").expect("a URL");
        assert_eq!(url.as_str(), "HTTPS://Example.com?key=1");
        assert_eq!(url.url().as_str(), "https://example.com/?key=1");
        assert_eq!(format!("{url:?}"), "EndpointUrl(https://example.com)");
    }

    #[test]
    fn only_public_tls_destinations_are_permitted_by_default() {
        let policy = DestinationPolicy::default();
        assert!(EndpointUrl::parse_permitted("https://example.com/hook", &policy).is_ok());
        for text in ["http://example.com/hook", "https://127.0.0.1/", "https://localhost/", "https://[::1]/"] {
            assert!(EndpointUrl::parse_permitted(text, &policy).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_the_parser(text in any::<String>()) {
            let _parsed = EndpointUrl::parse(&text);
        }

        #[test]
        fn a_plain_url_is_accepted(host in "[a-z]{1,10}\\.(com|dev)", path in "[a-z0-9/]{0,40}", query in "[a-z=&]{0,20}") {
            let text = format!("https://{host}/{path}?{query}");
            prop_assert!(EndpointUrl::parse(&text).is_ok(), "{}", text);
        }
    }
}
