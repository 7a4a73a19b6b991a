//! Builds names and lines of YAML.

/// Indents the lines of `text`.
pub(super) fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

/// `webhooks-create` is `WebhooksCreate`.
pub(super) fn camel(name: &str, separator: char) -> String {
    let part = |part: &str| {
        let (first, rest) = part.split_at_checked(1).unwrap_or_default();
        first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
    };
    name.split(separator).map(part).collect()
}

/// A list on one line, if it is short, or else with a line for each item.
pub(super) fn list(name: &str, items: &[String]) -> String {
    let line = format!("{name}: [{}]\n", items.join(", "));
    if line.len() <= 100 {
        return line;
    }
    let items: String = items.iter().map(|item| format!("  - {item}\n")).collect();
    format!("{name}:\n{items}")
}
