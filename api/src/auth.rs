//! Browser logins of the client: routes under `/v1/auth`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::strings::{CliLoginId, EmailAddress, Secret, Timestamp, UserId};

calls! {
    POST "/v1/auth/cliLoginCreate" CliLoginCreate -> CliLoginCreated { required {} optional {} }
    POST "/v1/auth/cliLoginPoll" CliLoginPoll -> CliLogin { required { request_id = "requestId": CliLoginId, secret: Secret } optional {} }
}

/// A new request and its secret.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
pub struct CliLoginCreated {
    /// The id of the request.
    pub request_id: CliLoginId,
    /// The secret of the request, which is required to approve or poll the request. No other response contains it.
    #[schemars(extend("examples" = ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"]))]
    pub secret: Secret,
    /// When the request expires: ten minutes after it was created.
    pub expires_at: Timestamp,
}

/// The state of the request. Unknown, expired and used requests, and requests whose approval has ended, are all
/// reported as `expired`, so the response does not reveal which of these applies.
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
        email: EmailAddress,
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

/// Returns the code of a request, such as `KQTB-MFRD`. Both the client and the approval page show it, so users can
/// check that the page is for their own request.
///
/// The code encodes the last 32 bits of the id, which are random. Its letters are consonants, which are hard to confuse
/// and spell no words (RFC 8628, section 6.1).
pub fn comparison_code(request_id: &CliLoginId) -> String {
    const LETTERS: [char; 16] = ['B', 'C', 'D', 'F', 'G', 'H', 'J', 'K', 'M', 'N', 'P', 'Q', 'R', 'T', 'V', 'W'];
    const LENGTH: usize = 8;
    let digits: Vec<_> =
        request_id.as_str().chars().rev().filter_map(|digit| digit.to_digit(16)).take(LENGTH).collect();
    let letters = digits.iter().rev().filter_map(|digit| LETTERS.get(usize::try_from(*digit).ok()?));
    let mut code: String = letters.collect();
    if code.len() == LENGTH {
        code.insert(LENGTH / 2, '-');
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_two_groups_of_random_letters() {
        let code = |id: &str| comparison_code(&CliLoginId::from(id));
        assert_eq!(code("01a1fd8f-0d9d-7513-8a60-3a930123456f"), "BCDF-GHJW");
        assert_eq!(code("01A1FD8F-0D9D-7513-8A60-3A93FEDCBA98"), "WVTR-QPNM");
        assert_eq!(code(""), "", "an id in another format does not panic");
    }
}
