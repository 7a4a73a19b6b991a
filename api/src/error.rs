//! Errors: codes, reasons and issues.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{account::Scope, name::Extensible};

names! {
    /// The kind of error, for programs.
    Code {
        BadRequest = "BAD_REQUEST",
        Unauthorized = "UNAUTHORIZED",
        Forbidden = "FORBIDDEN",
        NotFound = "NOT_FOUND",
        MethodNotSupported = "METHOD_NOT_SUPPORTED",
        Conflict = "CONFLICT",
        PayloadTooLarge = "PAYLOAD_TOO_LARGE",
        TooManyRequests = "TOO_MANY_REQUESTS",
        InternalServerError = "INTERNAL_SERVER_ERROR",
        ServiceUnavailable = "SERVICE_UNAVAILABLE",
        // Codes that only plain JSON errors use. For a conflict, such an error uses the reason in upper case as its
        // code.
        InvalidEmailOrPassword = "INVALID_EMAIL_OR_PASSWORD",
        InvalidPassword = "INVALID_PASSWORD",
        InvalidToken = "INVALID_TOKEN",
        InvalidCode = "INVALID_CODE",
        InvalidBackupCode = "INVALID_BACKUP_CODE",
        InvalidTwoFactorCookie = "INVALID_TWO_FACTOR_COOKIE",
        TotpAlreadyEnabled = "TOTP_ALREADY_ENABLED",
        TotpNotEnabled = "TOTP_NOT_ENABLED",
        TwoFactorNotEnabled = "TWO_FACTOR_NOT_ENABLED",
        ConfirmationRequired = "CONFIRMATION_REQUIRED",
        // Better Auth's names.
        NotAMember = "USER_IS_NOT_A_MEMBER_OF_THE_ORGANIZATION",
        NotTheRecipient = "YOU_ARE_NOT_THE_RECIPIENT_OF_THE_INVITATION",
        EmailNotVerified = "EMAIL_NOT_VERIFIED",
        InvalidOrigin = "INVALID_ORIGIN",
    }

    /// In errors with the status 409, the reason for a conflict with stored data; in errors with the status 403, the
    /// reason why a key or a session may not make the call.
    Reason {
        SlugTaken = "slug_taken",
        EmailTaken = "email_taken",
        EmailSuppressed = "email_suppressed",
        InvitationExpired = "invitation_expired",
        InvitationUsed = "invitation_used",
        LastOwner = "last_owner",
        LastMember = "last_member",
        // Better Auth's name.
        AlreadyAMember = "user_is_already_a_member_of_this_organization",
        OrganizationChanged = "organization_changed",
        EndpointLimit = "endpoint_limit",
        KeyLimit = "key_limit",
        PayloadNotKept = "payload_not_kept",
        DeliveryPending = "delivery_pending",
        EndpointInactive = "endpoint_inactive",
        NotAPullEndpoint = "not_a_pull_endpoint",
        PullEndpoint = "pull_endpoint",
        HeadersNeeded = "headers_needed",
        RecoveryLimit = "recovery_limit",
        IdempotencyKeyReused = "idempotency_key_reused",
        ScopeMissing = "scope_missing",
        TwoFactorRequired = "two_factor_required",
    }

    /// The kind of problem. `invalid_type` means that the field is missing or has the wrong JSON type.
    #[schemars(inline)]
    IssueCode {
        // These are zod's names, which oRPC clients use.
        InvalidType = "invalid_type",
        InvalidFormat = "invalid_format",
        TooSmall = "too_small",
        TooBig = "too_big",
    }
}

/// A value in the envelope of the routes under `/v1`.
#[derive(Deserialize, Serialize)]
pub struct Envelope<T> {
    pub json: T,
}

/// An error from a route under `/v1`.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct EnvelopeError {
    /// The error.
    pub json: Error,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Error {
    /// Always false.
    pub defined: bool,
    /// The kind of error, for programs.
    pub code: String,
    /// The HTTP status of the response.
    #[schemars(schema_with = "integer")]
    pub status: u16,
    /// The cause and the remedy, in words that may change.
    pub message: String,
    /// Details of the error; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Details")]
    pub data: Option<Details>,
}

#[derive(Default, Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Details {
    /// All issues with all fields. Present only in errors with the status 400.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Issue>")]
    pub issues: Option<Vec<Issue>>,
    /// In errors with the status 409, the reason for a conflict with stored data. In errors with the status 403,
    /// `scope_missing` or `two_factor_required`.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(!default, with = "String")]
    pub reason: Option<Reason>,
    /// The scope that the API key lacks. Present only with the reason `scope_missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!default, with = "Scope")]
    pub scope: Option<Extensible<Scope>>,
}

/// An error from any other route.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct PlainError {
    /// The kind of error, for programs.
    pub code: String,
    /// The cause and the remedy, in words that may change.
    pub message: String,
    /// All issues with all fields. Present only in errors with the status 400.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Issue>")]
    pub issues: Option<Vec<Issue>>,
    /// In errors with the status 409, the reason for a conflict with stored data. In errors with the status 403,
    /// `scope_missing` or `two_factor_required`.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(!default, with = "String")]
    pub reason: Option<Reason>,
    /// The scope that the API key lacks. Present only with the reason `scope_missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!default, with = "Scope")]
    pub scope: Option<Extensible<Scope>>,
}

/// A problem with one field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Issue {
    #[serde(deserialize_with = "known_or_format")]
    pub code: IssueCode,
    /// The field and, in an array, the index of the element, starting at `0`; in `headers`, the name of the header.
    pub path: Vec<String>,
    /// The rule that the field violates. The message never repeats the value.
    pub message: String,
}

/// Formats an issue as "password: must have at least 8 characters".
impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut message = self.message.chars();
        let first = message.next().unwrap_or_default().to_ascii_lowercase();
        write!(f, "{}: {first}{}", self.path.join("."), message.as_str())
    }
}

/// Reads an unknown reason, sent by a later version of the service, as `None`, so the client still prints the message.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Reason>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|name| name.parse().ok()))
}

/// Reads an unknown code, sent by a later version of the service, as the most general one, so the client still prints
/// the message.
fn known_or_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IssueCode, D::Error> {
    Ok(String::deserialize(deserializer)?.parse().unwrap_or(IssueCode::InvalidFormat))
}

fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_of_later_versions_are_read() {
        let text = r#"{"code":"too_rare","path":["url"],"message":"Must be common"}"#;
        let issue: Issue = serde_json::from_str(text).expect("an issue");
        assert_eq!(issue.to_string(), "url: must be common");
    }
}
