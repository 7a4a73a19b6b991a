//! The local addresses and names of the template's resources.

/// The local addresses of the template's resources.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) region: String,
    pub(crate) account: String,
    pub(crate) api: String,
    pub(crate) sqs: String,
}

impl Place {
    pub(crate) fn example() -> Self {
        Self {
            region: "eu-central-1".to_owned(),
            account: "123456789012".to_owned(),
            api: "http://127.0.0.1:9000".to_owned(),
            sqs: "http://127.0.0.1:9324".to_owned(),
        }
    }
}

/// Returns the local name of a resource without an explicit name: its logical id in kebab case, without the suffix for
/// its kind.
pub(crate) fn local_name(logical: &str) -> String {
    let stem = ["Function", "Table", "Queue"].iter().find_map(|kind| logical.strip_suffix(kind)).unwrap_or(logical);
    let mut name = String::new();
    for character in stem.chars() {
        if character.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(character.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(local_name("JobEventsDeadQueue"), "job-events-dead");
        assert_eq!(local_name("ApiKeysTable"), "api-keys");
        assert_eq!(local_name("AuthSignupAndCreateOrgFunction"), "auth-signup-and-create-org");
    }
}
