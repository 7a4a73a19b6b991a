//! The stored bodies of deliveries, compressed if that makes them smaller. A body that does not fit into an item is
//! divided among several, which are written before the state.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use lz4_flex::block;
use tokio::sync::OnceCell;

use super::{
    items::SHARED_AT,
    table::{DeliveryLog, ItemKey, PAYLOAD, Row, details_partition, key_of, shared_partition},
};
use crate::{
    aws::dynamo::{Attribute, Item, ItemReader, attributes, number, text},
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Body, Delivery, DeliveryId, Destination, DestinationId, Payload},
        destination::{EndpointUrl, SigningSecret},
        event::TraceParent,
    },
};

/// The compression dictionary: text that nearly every body contains. It must never change, because stored bodies depend
/// on it.
const DICTIONARY: &[u8] = br#"{"event":"job.failed","event":"job.completed","job_id":"","nonce":null,"workflow":"","deployment_id":"","status":"failed","status":"completed","result":null,"error":null,"mapped_stack":null,"result":{"error":null,"mapped_stack":null}"#;

attributes! { pub(super)
    // A plain body, and a compressed body preceded by its uncompressed length.
    RAW = "payload", LZ4 = "payload_lz4",
    CALLBACK_URL = "callback_url", CALLBACK_SECRET = "callback_secret", TRACE = "trace",
    // The number of items among which the body is divided, if there are several, and a part of it. The names differ
    // from those of a whole body, so that an earlier version does not take a part for the whole.
    PARTS = "parts", RAW_PART = "payload_part", LZ4_PART = "payload_lz4_part",
}
/// The attributes of a payload in every item that stores one.
pub(super) const ATTRIBUTES: [Attribute; 5] = [RAW, LZ4, CALLBACK_URL, CALLBACK_SECRET, TRACE];

/// A body in its stored form.
pub(super) struct Packed<'a> {
    name: Attribute,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// Packs `body` for an item that is `more` bytes larger than usual. It stays uncompressed if the item fits into a
    /// kilobyte, the minimum that DynamoDB charges for.
    pub(super) fn new(body: &'a Body, more: usize) -> Self {
        if body.len() > MAX_SMALL_BYTES.saturating_sub(more) {
            let bytes = body.compressed(compress);
            if bytes.len() < body.len() {
                return Self { name: LZ4, bytes };
            }
        }
        Self { name: RAW, bytes: body }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the attributes of `payload`, which has this body, to `item`.
    pub(super) fn put(self, item: &mut Item, payload: &Payload) {
        item.extend([self.name.with(AttributeValue::B(Blob::new(self.bytes)))]);
        item.extend(payload.trace.as_ref().map(|trace| TRACE.with(text(trace.as_str()))));
        if let Some((url, secret)) = payload.destination.callback() {
            item.extend([CALLBACK_URL.with(text(url.as_str())), CALLBACK_SECRET.with(text(secret.reveal()))]);
        }
    }
}

/// Compresses a body. The result begins with the length of the body.
fn compress(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&length[..], &block::compress_with_dict(body, DICTIONARY)].concat()
}

/// Whether a process has stored the payload that an event's deliveries share, once it has tried.
#[derive(Default)]
pub struct Shared(OnceCell<bool>);

impl DeliveryLog {
    /// Builds the rows with the payload of a delivery that did not succeed immediately.
    #[must_use]
    pub fn payload_rows(&self, tenant: &TenantId, id: &DeliveryId, payload: &Payload, now: Timestamp) -> Vec<Row> {
        self.rows(details_partition(tenant, id), payload, now).map(Row).collect()
    }

    /// Stores the payload that the deliveries of an event share, of which `delivery` is one, unless this process has
    /// already tried. Returns whether it was stored.
    pub async fn share(
        &self,
        Shared(stored): &Shared,
        tenant: &TenantId,
        delivery: &Delivery,
        payload: &Payload,
        now: Timestamp,
    ) -> bool {
        *stored.get_or_init(async || self.put_shared(tenant, delivery, payload, now).await.is_ok()).await
    }

    async fn put_shared(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        payload: &Payload,
        now: Timestamp,
    ) -> Result<()> {
        let rows = self.rows(shared_partition(tenant, delivery), payload, now).map(|mut item| {
            item.extend([SHARED_AT.with(number(now.as_millisecond()))]);
            Row(item)
        });
        self.put_all(rows).await
    }

    fn rows(&self, partition: String, payload: &Payload, now: Timestamp) -> impl Iterator<Item = Item> {
        let Packed { name, bytes } = Packed::new(&payload.body, 0);
        let parts = bytes.len().div_ceil(PART_BYTES).max(1);
        let name = match parts {
            1 => name,
            _ if name == RAW => RAW_PART,
            _ => LZ4_PART,
        };
        (0..parts).map(move |part| {
            let mut item = self.item([partition.clone(), part_key(part)], [], now);
            let bytes = bytes.chunks(PART_BYTES).nth(part).unwrap_or_default();
            match part {
                0 => Packed { name, bytes }.put(&mut item, payload),
                _ => item.extend([name.with(AttributeValue::B(Blob::new(bytes)))]),
            }
            if part == 0 && parts > 1 {
                item.extend([PARTS.with(number(parts.try_into().unwrap_or(i64::MAX)))]);
            }
            item
        })
    }

    /// Completes the first item of a payload with the parts of its body in others. Without one of them, which an
    /// erasure has deleted, the item has no body.
    pub(super) async fn whole(&self, mut first: Item) -> Result<Item> {
        let keys = other_parts(&first);
        if keys.is_empty() {
            return Ok(first);
        }
        let found = self.get_all(keys.clone()).await?;
        for (part, whole) in [(RAW_PART, RAW), (LZ4_PART, LZ4)] {
            let rest = keys.iter().map(|key| bytes(found.get(key)?, part));
            let all: Option<Vec<_>> = std::iter::once(bytes(&first, part)).chain(rest).collect();
            let all = all.map(|all| whole.with(AttributeValue::B(Blob::new(all.concat()))));
            first.extend(all);
        }
        Ok(first)
    }
}

/// The keys of the items with the other parts of a payload, given its first item.
pub(super) fn other_parts(first: &Item) -> Vec<ItemKey> {
    let [partition, _] = key_of(first);
    let parts = ItemReader::new("payload", first).optional_integer(PARTS).unwrap_or(1).min(MAX_PARTS);
    (1..parts).map(|part| [partition.clone(), part_key(part)]).collect()
}

/// The sort key prefix of the parts after the first.
pub(super) const OTHER_PARTS: &str = "payload.";

/// The sort key of a part of a payload.
fn part_key(part: usize) -> String {
    if part == 0 { PAYLOAD.to_owned() } else { format!("{OTHER_PARTS}{part}") }
}

/// Whether a sort key is that of a payload, or of a part of one.
pub(super) fn is_part(key: &str) -> bool {
    key.strip_prefix(PAYLOAD).is_some_and(|part| part.is_empty() || part.starts_with('.'))
}

/// The largest part of a body in an item. DynamoDB accepts items of up to 400 KB. The rest is for the keys, and for a
/// callback's URL and secret.
const PART_BYTES: usize = 384 * 1024;
/// More parts than any body has.
const MAX_PARTS: usize = 16;

/// The largest body that fits into a kilobyte with the other attributes of a delivery that succeeds immediately.
const MAX_SMALL_BYTES: usize = 640;

/// More than the length of any stored body, so that a broken item cannot take much memory. The body of a message of
/// 1 MiB can be slightly larger, because it has all nine members.
const MAX_BODY_BYTES: usize = 2 << 20;

/// The stored size of the body in `item`. A body that is divided among items is larger than any that is kept.
pub(super) fn stored_bytes(item: &Item) -> usize {
    if item.contains_key(PARTS.name()) {
        return usize::MAX;
    }
    [RAW, LZ4].into_iter().find_map(|name| bytes(item, name)).map_or(0, <[u8]>::len)
}

/// Reads the payload in `item`, if any, of a delivery. One that is unreadable counts as missing.
pub(super) fn read(tenant: &TenantId, id: &DeliveryId, item: &Item) -> Option<Payload> {
    stored(id.destination, item).unwrap_or_else(|error| {
        crate::log!("payload.unreadable", %tenant, delivery_id = %id, ?error);
        None
    })
}

fn stored(destination: DestinationId, item: &Item) -> Result<Option<Payload>> {
    let Some(body) = body(item)? else { return Ok(None) };
    let record = ItemReader::new("payload", item);
    let destination = match destination {
        DestinationId::Endpoint(id) => Destination::Endpoint(id),
        DestinationId::Callback => Destination::Callback {
            url: record.checked(CALLBACK_URL, EndpointUrl::parse)?,
            secret: record.checked(CALLBACK_SECRET, SigningSecret::parse)?,
        },
    };
    Ok(Some(Payload { destination, body, trace: record.optional_text(TRACE).and_then(TraceParent::parse) }))
}

fn body(item: &Item) -> Result<Option<Body>> {
    if let Some(body) = bytes(item, RAW) {
        return Ok(Some(body.to_vec().into()));
    }
    let Some(packed) = bytes(item, LZ4) else { return Ok(None) };
    let broken = || Error::Internal("the stored payload cannot be unpacked".to_owned());
    let (length, packed) = packed.split_first_chunk().ok_or_else(broken)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_BODY_BYTES {
        return Err(broken());
    }
    block::decompress_with_dict(packed, length, DICTIONARY).map(|body| Some(body.into())).map_err(|_error| broken())
}

fn bytes(item: &Item, attribute: Attribute) -> Option<&[u8]> {
    item.get(attribute.name())?.as_b().ok().map(AsRef::as_ref)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored(bytes: Vec<u8>) -> (Item, Body) {
        let (mut item, body) = (Item::new(), Body::from(bytes));
        let destination = Destination::Endpoint("01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id"));
        Packed::new(&body, 0).put(&mut item, &Payload { destination, body: body.clone(), trace: None });
        (item, body)
    }

    #[test]
    fn a_large_body_is_compressed() {
        let text = r#"{"event":"job.completed","job_id":"j","nonce":null,"workflow":"import","deployment_id":"d","status":"completed","result":{"rows":[1,2,3],"text":""#.to_owned() + &"a sentence, and another one. ".repeat(30) + r#""},"error":null,"mapped_stack":null}"#;
        let (item, body) = stored(text.into_bytes());
        assert!(item["payload_lz4"].as_b().expect("bytes").as_ref().len() < body.len() / 4);
        assert_eq!(*super::body(&item).expect("it is unpacked").expect("a body"), *body);
    }

    proptest! {
        #[test]
        fn every_body_is_restored(bytes in prop::collection::vec(any::<u8>(), 0..2000), times in 1_usize..5) {
            let (item, body) = stored(bytes.repeat(times));
            let unpacked = super::body(&item).expect("it is unpacked").expect("a body");
            prop_assert_eq!(&*unpacked, &*body);
        }

        #[test]
        fn no_stored_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let item = Item::from([("payload_lz4".to_owned(), AttributeValue::B(Blob::new(bytes)))]);
            let _read = super::body(&item);
        }
    }
}
