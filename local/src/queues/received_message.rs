//! A message in the form in which receive calls return it, with the attributes that the caller wants.

use std::collections::HashMap;

use rustack_sqs_model::{
    input::ReceiveMessageInput,
    types::{self, MessageAttributeValue},
};

use super::{receipt::Receipt, store::StoredMessage};

/// The attributes that a receive call asks for.
pub(super) struct RequestedAttributes<'a>(&'a ReceiveMessageInput);

impl<'a> RequestedAttributes<'a> {
    pub(super) fn by(input: &'a ReceiveMessageInput) -> Self {
        Self(input)
    }

    pub(super) fn show(&self, entry: &StoredMessage, receipt: Receipt, account: &str) -> types::Message {
        let message = &entry.message;
        let system = [
            ("SenderId", Some(account.to_owned())),
            ("SentTimestamp", Some(message.sent.to_string())),
            ("ApproximateReceiveCount", Some(entry.receives.to_string())),
            ("ApproximateFirstReceiveTimestamp", entry.first_received.map(|time| time.to_string())),
            ("MessageGroupId", message.group.as_deref().map(str::to_owned)),
            ("DeadLetterQueueSourceArn", entry.source.as_deref().map(str::to_owned)),
        ];
        let system = system.into_iter().filter(|(name, _)| self.wants(name));
        types::Message {
            message_id: Some(message.id.clone()),
            receipt_handle: Some(receipt.handle()),
            body: Some(message.body.clone()),
            md5_of_body: Some(entry.md5_of_body.clone()),
            md5_of_message_attributes: entry.md5_of_attributes.clone(),
            message_attributes: self.own(&message.attributes),
            attributes: system.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
        }
    }

    /// Whether the caller wants this attribute of the system. There are two parameters for these, an old and a new one.
    fn wants(&self, attribute: &str) -> bool {
        let mut names = self.0.attribute_names.iter().chain(&self.0.message_system_attribute_names);
        names.any(|name| name == "All" || name == attribute)
    }

    /// Returns the sender's attributes that the caller wants.
    fn own(&self, attributes: &HashMap<String, MessageAttributeValue>) -> HashMap<String, MessageAttributeValue> {
        let names = &self.0.message_attribute_names;
        let wants = |attribute: &str| names.iter().any(|name| name == "All" || name == ".*" || name == attribute);
        let wanted = attributes.iter().filter(|(name, _)| wants(name));
        wanted.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}
