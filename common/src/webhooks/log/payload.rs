//! The stored bodies of deliveries, compressed if that makes them smaller.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use bytes::Bytes;
use lz4_flex::block;

use crate::{
    aws::dynamo::{Attribute, Item, Record, attributes, text},
    error::{Error, Result},
    webhooks::{
        delivery::{Destination, DestinationId, Payload},
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
}
/// The attributes of a payload in every item that stores one.
pub(super) const ATTRIBUTES: [Attribute; 5] = [RAW, LZ4, CALLBACK_URL, CALLBACK_SECRET, TRACE];

/// A body in its stored form.
pub(super) struct Packed {
    name: Attribute,
    bytes: Vec<u8>,
}

impl Packed {
    /// Packs `body` for an item that is `more` bytes larger than usual. It stays uncompressed if the item fits into a
    /// kilobyte, the minimum that DynamoDB charges for.
    pub(super) fn new(body: &Bytes, more: usize) -> Self {
        if body.len() > SMALL.saturating_sub(more) {
            let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
            let mut bytes = length.to_vec();
            bytes.extend(block::compress_with_dict(body, DICTIONARY));
            if bytes.len() < body.len() {
                return Self { name: LZ4, bytes };
            }
        }
        Self { name: RAW, bytes: body.to_vec() }
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

/// The largest body that fits into a kilobyte with the other attributes of a delivery that succeeds immediately.
const SMALL: usize = 640;

/// More than the length of any stored body, so that a broken item cannot take much memory.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The stored size of the body in `item`.
pub(super) fn stored_bytes(item: &Item) -> usize {
    [RAW, LZ4].into_iter().find_map(|name| bytes(item, name)).map_or(0, <[u8]>::len)
}

/// Reads the payload in `item`, if any, of a delivery to `destination`.
pub(super) fn read(destination: DestinationId, item: &Item) -> Result<Option<Payload>> {
    let Some(body) = body(item)? else { return Ok(None) };
    let record = Record::new("payload", item);
    let destination = match destination {
        DestinationId::Endpoint(id) => Destination::Endpoint(id),
        DestinationId::Callback => Destination::Callback {
            url: record.checked(CALLBACK_URL, EndpointUrl::parse)?,
            secret: record.checked(CALLBACK_SECRET, SigningSecret::parse)?,
        },
    };
    Ok(Some(Payload { destination, body, trace: record.optional_text(TRACE).and_then(TraceParent::parse) }))
}

fn body(item: &Item) -> Result<Option<Bytes>> {
    if let Some(body) = bytes(item, RAW) {
        return Ok(Some(Bytes::copy_from_slice(body)));
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

    fn stored(bytes: Vec<u8>) -> (Item, Bytes) {
        let (mut item, body) = (Item::new(), Bytes::from(bytes));
        let destination = Destination::Endpoint("01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id"));
        Packed::new(&body, 0).put(&mut item, &Payload { destination, body: body.clone(), trace: None });
        (item, body)
    }

    #[test]
    fn a_large_body_is_compressed() {
        let text = r#"{"event":"job.completed","job_id":"j","nonce":null,"workflow":"import","deployment_id":"d","status":"completed","result":{"rows":[1,2,3],"text":""#.to_owned() + &"a sentence, and another one. ".repeat(30) + r#""},"error":null,"mapped_stack":null}"#;
        let (item, body) = stored(text.into_bytes());
        assert!(item["payload_lz4"].as_b().expect("bytes").as_ref().len() < body.len() / 4);
        assert_eq!(super::body(&item).expect("it is unpacked"), Some(body));
    }

    proptest! {
        #[test]
        fn every_body_is_restored(bytes in prop::collection::vec(any::<u8>(), 0..2000), times in 1_usize..5) {
            let (item, body) = stored(bytes.repeat(times));
            prop_assert_eq!(super::body(&item).expect("it is unpacked"), Some(body));
        }

        #[test]
        fn no_stored_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let item = Item::from([("payload_lz4".to_owned(), AttributeValue::B(Blob::new(bytes)))]);
            let _read = super::body(&item);
        }
    }
}
