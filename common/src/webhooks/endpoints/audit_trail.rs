//! Endpoints in the audit log: their changed fields, without secrets.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    changes::{EndpointChange, NewEndpoint},
    headers,
    item::*,
    table::record,
};
use crate::{
    audit::{self, Target, TargetKind, change, hidden, initial},
    aws::dynamo::{Attribute, Item},
    id::EndpointId,
    patch::Patch,
    webhooks::destination::EndpointUrl,
};

/// The attributes that [`changes`] and [`target`] read, beside the options.
pub(super) const AUDITED: [Attribute; 8] =
    [URL, KIND, HEADERS, HEADER_NAMES, ACTIVE, SIGNING_SECRET, PREVIOUS_SECRET_EXPIRES_AT, REVISION];

/// An endpoint as an audit log target. The URL is shown without its query, which may contain a secret.
pub(super) fn target(id: EndpointId, url: Option<&str>) -> Target {
    audit::target(TargetKind::Endpoint, id, url.map(shown))
}

fn shown(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = BTreeSet::from_iter(names).into_iter().collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The fields of a new endpoint.
pub(super) fn fields(new: &NewEndpoint) -> Vec<audit::Change> {
    let url = new.method.url().map(|url| initial("url", shown(url.as_str())));
    let headers = list(new.headers.names()).map(|names| initial("headers", names));
    url.into_iter().chain([initial("active", new.active)]).chain(new.options.audited()).chain(headers).collect()
}

/// The fields of the endpoint in `item` that `wanted` changes; empty if the endpoint already has these values.
pub(super) fn changes(item: &Item, wanted: &EndpointChange) -> Vec<audit::Change> {
    let stored = record(item);
    let names = |attribute: Attribute| {
        let names = item.get(attribute.name()).and_then(|names| names.as_ss().ok());
        names.and_then(|names| list(names.iter().map(String::as_str)))
    };
    let mut changes = Vec::new();
    let was_active = stored.optional_boolean(ACTIVE);
    if let Some(active) = wanted.active.filter(|active| Some(*active) != was_active) {
        changes.push(change("active", was_active.map(|active| active.to_string()), Some(active.to_string())));
    }
    changes.extend(wanted.options.audited(&stored));
    // Secrets are compared here, and never shown.
    let new = wanted.url.as_ref().map(EndpointUrl::as_str);
    if let Some((new, old)) = new.zip(stored.optional_text(URL)).filter(|(new, old)| new != old) {
        let [old, new] = [old, new].map(shown);
        changes.push(if old == new { hidden("url") } else { change("url", Some(old), Some(new)) });
    }
    let new = match &wanted.headers {
        Patch::Set(new) => Some(headers::attributes(new)),
        Patch::Clear => Some(Vec::new()),
        Patch::Keep => None,
    };
    if let Some(new) = new {
        let value = |attribute| new.iter().find(|(name, _)| *name == attribute).map(|(_, value)| value);
        if value(HEADERS) != item.get(HEADERS.name()) {
            let (old, new) = (names(HEADER_NAMES), value(HEADER_NAMES).and_then(|names| names.as_ss().ok()));
            let new = new.and_then(|names| list(names.iter().map(String::as_str)));
            changes.push(if old == new { hidden("headers") } else { change("headers", old, new) });
        }
    }
    let secret = wanted.signing_secret.as_ref().map(|secret| AttributeValue::S(secret.reveal().to_owned()));
    if secret.is_some() && secret.as_ref() != item.get(SIGNING_SECRET.name()) {
        changes.push(hidden("signing_secret"));
    } else if wanted.overlap.is_some() && stored.optional_time(PREVIOUS_SECRET_EXPIRES_AT).is_some() {
        changes.push(hidden("previous_secret"));
    }
    changes
}
