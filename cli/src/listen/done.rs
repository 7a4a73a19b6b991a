//! The result of an event: its post, and the settlement made of it.

use serde_json::{Value, json};

use super::lease::Lease;
use crate::http::{NoAnswer, Posted};

/// An event that was posted, or is released.
pub(super) struct Done {
    pub(super) delivery: Value,
    /// The result of the post. `None` releases the event.
    pub(super) tried: Option<Tried>,
    pub(super) lease: Lease,
}

/// The result of a post.
pub(super) struct Tried {
    pub(super) answer: Result<Posted, NoAnswer>,
    /// In milliseconds.
    pub(super) took: u64,
}

impl Done {
    /// The settlement, as `deliveries/settle` takes it.
    pub(super) fn settlement(&self) -> Value {
        let mut settlement = self.tried.as_ref().map_or_else(|| json!({}), Tried::fields);
        settlement["delivery_id"] = self.delivery["delivery_id"].clone();
        settlement["lease"] = self.delivery["lease"].clone();
        settlement
    }
}

impl Tried {
    /// The fields of a settlement that describe the attempt.
    fn fields(&self) -> Value {
        match &self.answer {
            Ok(Posted { status, response: None }) => json!({ "status_code": status, "duration_ms": self.took }),
            Ok(Posted { status, response }) => {
                json!({ "status_code": status, "duration_ms": self.took, "response": response })
            }
            Err(why) => json!({ "error": why.name(), "duration_ms": self.took }),
        }
    }

    /// The HTTP status, or the reason for a missing answer.
    pub(super) fn outcome(&self) -> String {
        match &self.answer {
            Ok(posted) => posted.status.to_string(),
            Err(why) => why.name().to_owned(),
        }
    }

    /// The beginning of the body, unless the status is 2xx.
    pub(super) fn response(&self) -> Option<&str> {
        self.answer.as_ref().ok()?.response.as_deref()
    }
}
