//! The local addresses and names of the template's resources.

pub(crate) const REGION: &str = "eu-central-1";
pub(crate) const ACCOUNT: &str = "123456789012";

/// The local addresses of the template's resources.
#[derive(Clone)]
pub(crate) struct LocalAddresses {
    pub(crate) api: String,
    pub(crate) sqs: String,
}

impl LocalAddresses {
    /// Returns the addresses of the API and the queues.
    pub(crate) fn new(api: &str, sqs: &str) -> Self {
        Self { api: api.to_owned(), sqs: sqs.to_owned() }
    }

    pub(crate) fn example() -> Self {
        Self::new("http://127.0.0.1:9000", "http://127.0.0.1:9324")
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
