//! The name of a device, from the `User-Agent` of its browser or program.

use std::borrow::Cow;

/// Browsers with their tokens. Most browsers also send the tokens of later entries, so the first match counts.
const BROWSERS: [(&str, &str); 6] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
];
/// Operating systems with their tokens. The first match counts: Android, for example, also sends `Linux`.
const SYSTEMS: [(&str, &str); 7] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
];

/// Returns `Chrome on Linux` for a browser, `curl 8.5.0` for a program, and any other value unchanged.
pub fn name(agent: &str) -> Cow<'_, str> {
    let system = SYSTEMS.iter().find(|(token, _)| agent.contains(token)).map(|(_, name)| *name);
    if !agent.starts_with("Mozilla/") {
        let first = agent.split(' ').next().unwrap_or_default();
        return first.split_once('/').map_or(agent.into(), |(program, version)| format!("{program} {version}").into());
    }
    let browser = BROWSERS.iter().find(|(token, _)| agent.contains(token)).map(|(_, name)| *name);
    match (browser.or(agent.contains("Safari/").then_some("Safari")), system) {
        (Some(browser), Some(system)) => format!("{browser} on {system}").into(),
        (Some(browser), None) => browser.into(),
        (None, Some(system)) => format!("A browser on {system}").into(),
        (None, None) => agent.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_named_with_its_system() {
        for (agent, expected) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
                "Chrome on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
                "Safari on macOS",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0 Mobile/15E148 Safari/604.1",
                "Chrome on iPhone",
            ),
            (
                "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            ("Mozilla/5.0 (Linux) Ladybird", "A browser on Linux"),
        ] {
            assert_eq!(name(agent), expected);
        }
    }

    #[test]
    fn programs_and_unknown_texts_keep_their_names() {
        for (agent, expected) in [
            ("curl/8.5.0", "curl 8.5.0"),
            ("fanfare/0.1.0 (Linux)", "fanfare 0.1.0"),
            ("Mozilla/5.0", "Mozilla/5.0"),
            ("my laptop", "my laptop"),
            ("", ""),
            ("/", " "),
        ] {
            assert_eq!(name(agent), expected);
        }
    }
}
