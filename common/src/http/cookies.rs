//! The cookies for sessions and unfinished sign-ins: their names, attributes and tokens.

use crate::{
    accounts::{sessions::SESSION_SECONDS, token::Token, two_factor::pending_sign_ins::SIGN_IN_SECONDS},
    base_url::BaseUrl,
};

/// The name of a cookie, with and without the prefix that https deployments use. With the prefix, browsers accept the
/// cookie only over https and only from this exact host, not from others in its domain (RFC 6265bis, 4.1.3.2).
#[derive(Clone, Copy)]
pub struct CookieName {
    prefixed: &'static str,
    plain: &'static str,
}

/// The session cookie.
pub const SESSION: CookieName = CookieName { prefixed: "__Host-session_token", plain: "session_token" };
/// The cookie for a sign-in that is waiting for the second factor.
pub const PENDING_SIGN_IN: CookieName = CookieName { prefixed: "__Host-two_factor", plain: "two_factor" };

impl CookieName {
    fn at(self, base: &BaseUrl) -> &'static str {
        if base.is_https() { self.prefixed } else { self.plain }
    }
}

/// The `Set-Cookie` value that signs the browser in.
pub fn session_cookie(base: &BaseUrl, token: &Token) -> String {
    set_cookie(base, SESSION, token.reveal(), SESSION_SECONDS)
}

/// The `Set-Cookie` values for a sign-in that is waiting for the second factor. It is not a session yet, and replaces
/// the browser's previous session.
pub fn pending_cookies(base: &BaseUrl, token: &Token) -> Vec<String> {
    vec![set_cookie(base, PENDING_SIGN_IN, token.reveal(), SIGN_IN_SECONDS), cleared_cookie(base)]
}

/// The `Set-Cookie` values for a session that started with the second factor.
pub fn finished_cookies(base: &BaseUrl, token: &Token) -> Vec<String> {
    vec![session_cookie(base, token), set_cookie(base, PENDING_SIGN_IN, "", 0)]
}

fn set_cookie(base: &BaseUrl, name: CookieName, value: &str, max_age: i64) -> String {
    let secure = if base.is_https() { "; Secure" } else { "" };
    format!("{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}", name.at(base))
}

/// The `Cookie` header with which a client other than a browser uses the session with this token.
pub fn cookie_header(base: &BaseUrl, token: &Token) -> String {
    format!("{}={}", SESSION.at(base), token.reveal())
}

/// Finds a token among a request's cookies, given the values of its `cookie` headers.
pub fn token_in_cookies<'a>(
    base: &BaseUrl,
    name: CookieName,
    headers: impl IntoIterator<Item = &'a str>,
) -> Option<Token> {
    let pairs = headers.into_iter().flat_map(|header| header.split(';'));
    // Only white space as defined by RFC 6265 is trimmed. Browsers treat other white space as part of the name, which
    // then lacks the protection of `__Host-`.
    let mut values =
        pairs.filter_map(|pair| pair.trim_matches([' ', '\t']).strip_prefix(name.at(base))?.strip_prefix('='));
    values.find_map(Token::parse)
}

/// The `Set-Cookie` value that signs the browser out.
pub fn cleared_cookie(base: &BaseUrl) -> String {
    set_cookie(base, SESSION, "", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(url: &str) -> BaseUrl {
        url.parse().expect("a base URL")
    }

    #[test]
    fn the_cookie_is_secure_if_the_base_url_is_https() {
        let token = Token::generate();
        let secret = token.reveal();
        assert_eq!(
            session_cookie(&base("https://api.example.com"), &token),
            format!("__Host-session_token={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000; Secure")
        );
        assert_eq!(
            session_cookie(&base("http://127.0.0.1:9000"), &token),
            format!("session_token={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000")
        );
    }

    /// Another host in the domain could have set these cookies, because browsers do not recognize the prefix `__Host-`
    /// in their names.
    #[test]
    fn a_name_after_other_white_space_is_another_name() {
        let (base, token) = (base("https://api.example.com"), Token::generate());
        let cookie = cookie_header(&base, &token);
        for space in [" ", "\t", ""] {
            assert!(token_in_cookies(&base, SESSION, [&*format!("a=b;{space}{cookie}")]).is_some(), "{space:?}");
        }
        for space in ["\u{85}", "\u{a0}", "\u{2003}"] {
            assert!(token_in_cookies(&base, SESSION, [&*format!("{space}{cookie}")]).is_none(), "{space:?}");
        }
    }

    #[test]
    fn the_cookie_header_for_a_client_signs_it_in() {
        let token = Token::generate();
        for (base_url, name) in
            [("https://api.example.com", "__Host-session_token"), ("http://127.0.0.1:9000", "session_token")]
        {
            let (base, header) = (base(base_url), cookie_header(&base(base_url), &token));
            assert_eq!(header, format!("{name}={}", token.reveal()));
            assert_eq!(token_in_cookies(&base, SESSION, [&*header]).map(|found| found.hash()), Some(token.hash()));
        }
    }

    #[test]
    fn the_token_is_found_among_other_cookies() {
        let (local, token) = (base("http://127.0.0.1:9000"), Token::generate());
        let own = format!("session_token={}", token.reveal());
        let find =
            |headers: &[&str]| token_in_cookies(&local, SESSION, headers.iter().copied()).map(|token| token.hash());
        assert_eq!(find(&[&format!("a=b; {own}; c=d")]), Some(token.hash()));
        assert_eq!(find(&["a=b", &own]), Some(token.hash()));
        assert_eq!(find(&[&format!("session_token=; {own}")]), Some(token.hash()));
        for other in ["", "session_token", "session_token=", "session_token=x", &format!("x{own}"), &own[1..]] {
            assert_eq!(find(&[other]), None, "{other}");
        }
    }

    #[test]
    fn an_https_deployment_ignores_the_cookie_without_prefix() {
        let token = Token::generate();
        let find = |name: &str| {
            let cookie = format!("{name}={}", token.reveal());
            token_in_cookies(&base("https://api.example.com"), SESSION, [cookie.as_str()]).map(|found| found.hash())
        };
        assert_eq!(find("__Host-session_token"), Some(token.hash()));
        // Other hosts in the domain can set these cookies.
        assert_eq!((find("session_token"), find("__Secure-session_token")), (None, None));
    }
}
