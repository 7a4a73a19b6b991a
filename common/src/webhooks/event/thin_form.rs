//! The thin form of a job event: the event without the results of its job.

pub use api::webhooks::PayloadForm;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

/// The members of a job event. Those that stay are copied byte for byte.
#[derive(Deserialize, Serialize)]
struct JobEventMembers<'a> {
    #[serde(borrow)]
    event: &'a RawValue,
    job_id: &'a RawValue,
    nonce: &'a RawValue,
    workflow: &'a RawValue,
    deployment_id: &'a RawValue,
    status: &'a RawValue,
    #[serde(serialize_with = "null")]
    result: IgnoredAny,
    #[serde(serialize_with = "null")]
    error: IgnoredAny,
    #[serde(serialize_with = "null")]
    mapped_stack: IgnoredAny,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "Serde passes a reference")]
fn null<S: serde::Serializer>(_: &IgnoredAny, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_unit()
}

/// Returns the thin form of a delivery's body, or `None` if it is not about a job.
pub(in crate::webhooks) fn thin(body: &[u8]) -> Option<Vec<u8>> {
    serde_json::to_vec(&serde_json::from_slice::<JobEventMembers<'_>>(body).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::event::EventName;

    #[test]
    fn the_thin_form_has_every_member_and_no_results() {
        let members = r#""event":"job.failed","job_id":"\u00e9/1","nonce":1.50,"workflow":"w","deployment_id":null"#;
        let body =
            format!(r#"{{{members},"status":"failed","result":[1],"error":{{"message":"x"}},"mapped_stack":"at"}}"#);
        let expected = format!(r#"{{{members},"status":"failed","result":null,"error":null,"mapped_stack":null}}"#);
        assert_eq!(thin(body.as_bytes()), Some(expected.into_bytes()));
    }

    #[test]
    fn a_sample_is_thin_and_a_notice_has_no_thin_form() {
        let sample = EventName::Test.sample().as_bytes();
        assert_eq!(thin(sample).as_deref(), Some(sample));
        assert_eq!(thin(EventName::EndpointFailing.sample().as_bytes()), None);
    }
}
