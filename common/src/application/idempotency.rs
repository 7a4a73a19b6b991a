//! Idempotent calls: a client that did not get the response repeats the call with the same `idempotency-key`, and gets
//! the first call's response.
//!
//! The response is stored in the same transaction as the writes of the call, so a crash leaves both or neither, and
//! only one of several concurrent calls takes effect. Only successes are remembered, because a rejected call changes
//! nothing. A call without a key has no extra cost.

use std::fmt;

use aws_sdk_dynamodb::Client;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::{
    aws::{
        dynamo::{Item, ItemReader, attributes, item, number, text},
        failure,
        transaction::Marker,
    },
    error::{Conflict, Error, Result},
    id::TenantId,
    issue::Problem,
    timestamp::Timestamp,
    webhooks::endpoints::item::{DELETE_AT, TENANT_ID, WEBHOOK_ENDPOINT_ID},
};

/// The idempotency key of a call, with the hash of the call's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    key: InputHash,
    fields: InputHash,
}

/// A SHA-256 hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputHash([u8; 32]);

crate::from_env! {
    /// The remembered calls. They are in the endpoint table, because a response may contain an endpoint's secret.
    #[derive(Clone)]
    pub struct RememberedCalls {
        dynamodb: Client,
        table: String = "WEBHOOK_ENDPOINTS_TABLE",
    }
}

/// A call. If it has an idempotency key, it takes effect only once.
#[must_use]
pub struct Once<'a> {
    calls: &'a RememberedCalls,
    tenant: &'a TenantId,
    route: &'static str,
    key: Option<IdempotencyKey>,
    now: Timestamp,
}

/// The response to a call. It may contain a secret, so it has no `Debug`.
pub enum CallResponse<T> {
    /// The call was made for the first time.
    New(T),
    /// The call was repeated; this is the stored response.
    Known(Box<RawValue>),
}

/// The sort key prefix of remembered calls. It sorts before every endpoint's id.
const ONCE: &str = "#once#";
/// The number of seconds that a call is remembered.
const LIFETIME_SECONDS: i64 = 24 * 60 * 60;
attributes! { FIELDS = "fields", ANSWER = "answer", }

impl IdempotencyKey {
    /// Parses the key in a header. `fields` is the hash of the call's fields.
    pub fn parse(header: &[u8], fields: InputHash) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::from_iter(Problem::length(header.len(), 1, 255));
        if !header.iter().all(u8::is_ascii_graphic) {
            problems.push(Problem::format("Must be visible ASCII characters"));
        }
        if problems.is_empty() { Ok(Self { key: InputHash::of(header), fields }) } else { Err(problems) }
    }
}

impl InputHash {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for InputHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl RememberedCalls {
    /// A call to `route` by the organization `tenant`.
    pub fn once<'a>(
        &'a self,
        tenant: &'a TenantId,
        route: &'static str,
        key: Option<IdempotencyKey>,
        now: Timestamp,
    ) -> Once<'a> {
        Once { calls: self, tenant, route, key, now }
    }
}

impl Once<'_> {
    /// Builds the item that stores the response, for the transaction of the call. Returns `None` if the call has no
    /// key.
    ///
    /// # Errors
    /// The response cannot be serialized.
    pub fn marker(&self, answer: &impl Serialize) -> Result<Option<Marker>> {
        let Some(key) = self.key else { return Ok(None) };
        let answer = serde_json::to_string(answer).map_err(Error::internal("writing an answer"))?;
        let mut item = self.stored_key(key);
        item.extend([FIELDS.with(text(key.fields)), ANSWER.with(text(answer))]);
        item.extend([DELETE_AT.with(number(self.now.as_second() + LIFETIME_SECONDS + 1))]);
        // TTL may delete an item days late.
        let is_new = WEBHOOK_ENDPOINT_ID.is_absent().or(DELETE_AT.is_at_most(number(self.now.as_second())));
        Ok(Some(Marker { table: self.calls.table.clone(), item, is_new }))
    }

    /// Returns the stored response if the call was made before, or else runs `act` and returns its response.
    ///
    /// # Errors
    /// The key was used with different fields, or `act` failed.
    pub async fn answer<T>(&self, act: impl Future<Output = Result<T>>) -> Result<CallResponse<T>> {
        if let Some(answer) = self.known().await? {
            return Ok(CallResponse::Known(answer));
        }
        let error = match act.await {
            Ok(answer) => return Ok(CallResponse::New(answer)),
            Err(error) => error,
        };
        // A concurrent call may have been first, or this transaction succeeded and only its response was lost.
        match self.known().await {
            Ok(known) => known.map(CallResponse::Known).ok_or(error),
            Err(unknown) => {
                crate::log!("request.undetermined", route = self.route, ?error);
                Err(unknown)
            }
        }
    }

    async fn known(&self) -> Result<Option<Box<RawValue>>> {
        let Some(key) = self.key else { return Ok(None) };
        let get = self.calls.dynamodb.get_item().table_name(&self.calls.table).set_key(Some(self.stored_key(key)));
        let found = Box::pin(get.consistent_read(true).send()).await.map_err(failure("reading a remembered call"))?;
        let Some(item) = found.item else { return Ok(None) };
        let record = ItemReader::new("remembered call", &item);
        if record.number(DELETE_AT)? <= self.now.as_second() {
            return Ok(None);
        }
        if record.text(FIELDS)? != key.fields.to_string() {
            return Err(Error::Conflict(Conflict::IdempotencyKeyReused));
        }
        let answer = RawValue::from_string(record.text(ANSWER)?.to_owned());
        answer.map(Some).map_err(Error::internal("reading a remembered answer"))
    }

    fn stored_key(&self, key: IdempotencyKey) -> Item {
        let sort_key = format!("{ONCE}{}#{}", self.route, key.key);
        item([(TENANT_ID, text(self.tenant)), (WEBHOOK_ENDPOINT_ID, text(sort_key))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::IssueCode;

    #[test]
    fn a_key_is_1_to_255_visible_ascii_characters() {
        let parse = |header: &[u8]| IdempotencyKey::parse(header, InputHash::of(b"fields"));
        for good in [b"a".as_slice(), b"!~", &[b'x'; 255]] {
            assert_eq!(parse(good), Ok(IdempotencyKey { key: InputHash::of(good), fields: InputHash::of(b"fields") }));
        }
        for (bad, codes) in [
            (b"".as_slice(), vec![IssueCode::TooSmall]),
            (&[b'x'; 256], vec![IssueCode::TooBig]),
            (&[b' '; 256], vec![IssueCode::TooBig, IssueCode::InvalidFormat]),
            (b"a b", vec![IssueCode::InvalidFormat]),
            (b"\t", vec![IssueCode::InvalidFormat]),
            ("ß".as_bytes(), vec![IssueCode::InvalidFormat]),
        ] {
            let problems = parse(bad).expect_err("a bad key");
            assert_eq!(problems.into_iter().map(|problem| problem.code).collect::<Vec<_>>(), codes, "{bad:?}");
        }
    }
}
