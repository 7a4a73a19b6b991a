//! Browser logins of the client: routes under `/v1/auth`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{CliLoginId, Email, Secret, Timestamp, UserId};

calls! {
    POST "/v1/auth/cliLoginCreate" CliLoginCreate -> CliLoginCreated { required {} optional {} }
    POST "/v1/auth/cliLoginPoll" CliLoginPoll -> CliLogin { required { request_id = "requestId": CliLoginId, secret: Secret } optional {} }
}

/// The request and its secret, which only this response contains.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
pub struct CliLoginCreated {
    /// The id of the request.
    pub request_id: CliLoginId,
    /// The secret of the request, needed to approve it and to poll it. No other response contains it.
    #[schemars(extend("examples" = ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"]))]
    pub secret: Secret,
    /// When the request expires, ten minutes from now.
    pub expires_at: Timestamp,
}

/// The state of the request. Requests that do not exist, have expired, were used or whose approval has ended are all
/// `expired`, so the response does not reveal which.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(tag = "status", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
pub enum CliLogin {
    /// `approved`: the response contains the session.
    Approved {
        /// The session, as the value of a `Cookie` header. No other response contains it.
        #[schemars(extend("examples" = ["__Host-session_token=_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"]))]
        cookie_header: Secret,
        /// The id of the user who approved the request.
        user_id: UserId,
        /// The email address of the user.
        email: Email,
        /// Always `true`.
        email_verified: bool,
        /// When the session ends.
        session_expires_at: Timestamp,
    },
    /// `pending`: no user has approved the request yet, or the user must verify their email first.
    Pending,
    /// `expired`: the request can no longer be approved, so create a new one.
    Expired,
}
