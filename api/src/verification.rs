//! The diagnosis of a request that a receiver could not verify.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    name::Extensible,
    strings::{DeliveryId, EndpointId, Timestamp},
};

names! {
    /// A way of signing a request.
    Scheme {
        /// `webhook-signature`, which covers the id, the timestamp and the body.
        Standard = "standard",
        /// `x-webhook-signature`, which covers the body alone.
        Body = "body",
    }

    /// Which of an endpoint's two secrets.
    WhichSecret {
        /// The current secret.
        Current = "current",
        /// The secret before the latest rotation.
        Previous = "previous",
    }

    /// The form in which a secret is an HMAC key.
    KeyForm {
        /// The UTF-8 bytes of the secret.
        Bytes = "bytes",
        /// The base64 decoding of the secret, without a leading `whsec_`.
        Decoded = "decoded",
    }

    /// The reason why a request does not verify, or a remark about it.
    Cause {
        /// A header that the signature needs was not seen.
        HeadersMissing = "headers_missing",
        /// A header was seen under another name.
        HeaderNames = "header_names",
        /// A header was seen more than once.
        HeaderRepeated = "header_repeated",
        /// The value of a header was changed, for example by white space around it.
        HeaderValue = "header_value",
        /// The timestamp is not in Unix seconds.
        TimestampMalformed = "timestamp_malformed",
        /// A prefix of the signature, such as `v1,`, was kept, missing or a different one.
        SignaturePrefix = "signature_prefix",
        /// The signature is in another encoding, such as hex instead of base64.
        SignatureEncoding = "signature_encoding",
        /// The list of signatures was not read entry by entry.
        SignatureEntries = "signature_entries",
        /// The HMAC was computed over the wrong parts of the request.
        SignedContent = "signed_content",
        /// The signature was computed with another algorithm.
        Algorithm = "algorithm",
        /// The text of the secret was the key where its decoding is meant.
        SecretAsText = "secret_as_text",
        /// A decoding of the secret was the key where its text is meant, or a wrong decoding.
        SecretDecoded = "secret_decoded",
        /// The secret was empty or changed, for example by a line break.
        SecretAltered = "secret_altered",
        /// The secret from before the rotation was used after its overlap.
        PreviousSecret = "previous_secret",
        /// The secret of another endpoint of the organization, or of a job's callback, was used.
        OtherEndpoint = "other_endpoint",
        /// The signature was made with none of the known secrets.
        UnknownSecret = "unknown_secret",
        /// The id belongs to another delivery than the signature.
        IdOfAnother = "id_of_another",
        /// The timestamp belongs to another attempt than the signature.
        TimestampOfAnother = "timestamp_of_another",
        /// The signature belongs to another delivery.
        SignatureOfAnother = "signature_of_another",
        /// The body belongs to another delivery.
        BodyOfAnother = "body_of_another",
        /// The body is empty, for example because it had already been read.
        BodyMissing = "body_missing",
        /// The end of the body is missing.
        BodyCutOff = "body_cut_off",
        /// White space, a line end or a byte order mark was added around the body.
        WhiteSpaceAdded = "white_space_added",
        /// The body was parsed and written again.
        BodyReserialized = "body_reserialized",
        /// The body is in another encoding, such as base64 or another character set.
        BodyEncoded = "body_encoded",
        /// The body is the full event and a thin one was sent, or the reverse.
        BodyForm = "body_form",
        /// The body differs in another way.
        BodyChanged = "body_changed",
        /// The timestamp is too far from the receiver's clock.
        TimestampTolerance = "timestamp_tolerance",
        /// No cause was found.
        Unexplained = "unexplained",
        /// A remark: the log has no delivery with this `webhook-id`.
        NotInLog = "not_in_log",
        /// A remark: the log no longer has the body of the delivery.
        PayloadNotKept = "payload_not_kept",
        /// A remark: the timestamp is old, and the receiver's clock is unknown.
        TimestampUnchecked = "timestamp_unchecked",
        /// A remark: only the secret from before the rotation matches.
        PreviousSecretUsed = "previous_secret_used",
        /// A remark: the body is too large to try every explanation.
        NotAllTried = "not_all_tried",
    }
}

calls! {
    POST "/v1/webhooks/verify" Verify -> Verification {
        required { id: EndpointId, headers: String, body: String }
        optional { computed: String, received_at: Timestamp }
    }
}

/// The maximum number of bytes in the body of a request to verify: an event of the maximum size.
pub const MAX_BODY: usize = 1_100_000;

/// The result of verifying a request.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Verification {
    /// Whether the request is authentic, and nothing was found that makes a receiver reject it.
    #[schemars(extend("examples" = [false]))]
    pub verified: bool,
    /// The signatures of the request that are valid.
    #[schemars(extend("examples" = [[]]))]
    pub valid: Vec<Valid>,
    /// The reasons why a receiver rejects the request, the most important one first.
    pub causes: Vec<Finding>,
    /// Facts that explain the result but are no cause.
    #[schemars(extend("examples" = [[{
        "cause": "timestamp_unchecked",
        "message": "The request is 2 hours old. Libraries accept one for five minutes; give the receiver's time to check it.",
        "seconds": 7205,
    }]]))]
    pub remarks: Vec<Finding>,
}

/// A valid signature.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "ValidSignature")]
pub struct Valid {
    /// The part of the request that the signature covers.
    pub scheme: Extensible<Scheme>,
    /// The secret that it was made with.
    pub secret: Extensible<WhichSecret>,
    /// The form of the secret.
    pub key: Extensible<KeyForm>,
}

/// A cause or a remark.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "VerificationFinding")]
#[schemars(extend("examples" = [{
    "cause": "body_reserialized",
    "message": "The body was parsed and written again, which changed its numbers. Verify the bytes as they were received, \
                before they are parsed.",
    "at": 146,
    "sent": r#"…esult":{"rate":1.0,"id":7},"error":null,…"#,
    "seen": r#"…esult":{"rate":1,"id":7},"error":null,"m…"#,
}]))]
pub struct Finding {
    /// Identifies the cause for programs.
    pub cause: Extensible<Cause>,
    /// The cause and the remedy, for people. The wording may change.
    pub message: String,
    /// The first byte of the body that differs from what was sent, counted from 0; absent if the cause is elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub at: Option<usize>,
    /// The bytes that were sent, around the first difference. `…` stands for what is left out, and symbols for line
    /// breaks and tabs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub sent: Option<String>,
    /// The bytes that were seen, in the same place and form.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub seen: Option<String>,
    /// The difference between the receiver's clock and the timestamp; positive if the clock is later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub seconds: Option<i64>,
    /// The other endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EndpointId")]
    pub webhook_endpoint_id: Option<EndpointId>,
    /// The delivery that the finding is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeliveryId")]
    pub delivery_id: Option<DeliveryId>,
}
