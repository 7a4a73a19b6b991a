//! Compares the signatures of a request with those of known mistakes, from the most to the least likely one.
//!
//! A comparison is of whole signatures, and its result contains neither a signature nor a key, so a caller cannot learn
//! either of them byte by byte. The number of signatures is bounded by that of a delivery, so a call tests few guesses. The
//! number of bytes that are hashed is bounded, too, whatever the size of the body and the number of endpoints, and large
//! bodies are not written in other forms.

use std::{borrow::Cow, cell::OnceCell};

use api::verification::{Cause, Finding, KeyForm, Scheme, WhichSecret};
use sha2::{Digest, Sha256};

use super::{
    body::difference,
    facts::{Facts, Logged, Secrets},
    finding::{finding, of_bodies},
    keys::{self, Derivation, HmacKey, Owner},
    message::{SignedMessage, Twist, composed, restored, rewritten},
    received_request::{Computed, ReceivedRequest},
    signature::{self, Given},
    values::{Values, seconds_of},
};
use crate::webhooks::destination::hmac;

/// The maximum number of bytes that are hashed for a request.
const MAX_HASHED_BYTES: usize = 64 << 20;
/// The number of bytes that an HMAC hashes in addition to its message.
const HMAC_OVERHEAD_BYTES: usize = 256;
/// The size of the largest body that is written in other forms.
const MAX_REWRITTEN_BYTES: usize = 256 * 1024;
/// The maximum number of signatures in `webhook-signature`: of two secrets, each in two forms.
const ENTRIES: usize = 4;
/// The number of attempts whose times are tried.
const ATTEMPTS: usize = 10;

/// A signature to explain.
pub(super) struct GivenSignature {
    source: SignatureSource,
    pub(super) given: Given,
    /// The key and the message that give this signature.
    pub(super) explained: Option<Explanation>,
}

/// Where a signature was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureSource {
    Header(Scheme),
    Computed,
}

/// The key and the message of a signature.
pub(super) struct Explanation {
    pub(super) owner: Owner,
    pub(super) form: Derivation,
    pub(super) scheme: Scheme,
    pub(super) causes: Vec<Finding>,
    pub(super) is_right: bool,
}

/// The signatures of a request, with their explanations so far.
pub(super) struct Search<'a> {
    targets: Vec<GivenSignature>,
    /// The number of bytes that may still be hashed.
    left: usize,
    pub(super) is_cut_off: bool,
    seen: &'a [u8],
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.targets.iter().all(|target| target.explained.is_some())
    }

    /// Compares the signatures that are not explained yet with those of all messages with all keys.
    fn try_all<'m>(&mut self, keys: &[HmacKey], messages: impl IntoIterator<Item = SignedMessage<'m>>) {
        'all: for message in messages {
            if self.is_over() {
                break;
            }
            let parts: Vec<&[u8]> = message.parts.iter().map(|part| &**part).collect();
            let twisted = OnceCell::new();
            for key in keys {
                let cost = message.len() + HMAC_OVERHEAD_BYTES;
                let Some(left) = self.left.checked_sub(cost) else {
                    self.is_cut_off = true;
                    break 'all;
                };
                self.left = left;
                let tag = hmac(&key.bytes, &parts);
                for target in self.targets.iter_mut().filter(|target| target.explained.is_none()) {
                    if signature::is_same(&tag, &target.given.tag) {
                        let twisted = twisted.get_or_init(|| of_twist(&message, self.seen));
                        target.explained = Some(explanation(key, &message, target, twisted.clone()));
                    }
                }
            }
        }
        self.drop_others();
    }

    /// One entry of `webhook-signature` is enough, so the others need no explanation.
    fn drop_others(&mut self) {
        let of_header = |target: &GivenSignature| target.source == SignatureSource::Header(Scheme::Standard);
        if self.targets.iter().any(|target| of_header(target) && target.explained.is_some()) {
            self.targets.retain(|target| !of_header(target) || target.explained.is_some());
        }
    }

    /// Compares the remaining signatures with hashes that are no HMAC.
    fn try_hashes(&mut self, keys: &[HmacKey]) {
        let body = self.seen;
        for key in keys {
            let secret = key.bytes.as_slice();
            for parts in [&[body][..], &[secret, body], &[body, secret]] {
                let Some(left) = self.left.checked_sub(body.len() + HMAC_OVERHEAD_BYTES).filter(|_| !self.is_over())
                else {
                    return;
                };
                self.left = left;
                let tag = parts.iter().fold(Sha256::new(), Digest::chain_update).finalize();
                for target in self.targets.iter_mut().filter(|target| signature::is_same(&tag, &target.given.tag)) {
                    let message =
                        "The signature is a plain SHA-256 hash. Compute an HMAC-SHA256 with the secret as its key.";
                    target.explained = Some(Explanation {
                        owner: key.owner,
                        form: key.form,
                        scheme: Scheme::Body,
                        causes: vec![finding(Cause::Algorithm, message)],
                        is_right: false,
                    });
                }
            }
        }
    }

    pub(super) fn of(&self, source: SignatureSource) -> impl Iterator<Item = &GivenSignature> {
        self.targets.iter().filter(move |target| target.source == source)
    }
}

/// The mistake in a message, if there is one. Comparing two bodies is slow, so it is done once for all keys and signatures.
fn of_twist(message: &SignedMessage<'_>, seen: &[u8]) -> Option<Finding> {
    Some(match &message.twist {
        Twist::None => return None,
        Twist::Body(sent) => return of_bodies(sent, seen),
        Twist::Rewritten(body, how) => {
            let message =
                format!("The HMAC covers the body as written by {how}. Compute it over the bytes as received.");
            let Some(found) = difference(seen, body) else { return Some(finding(Cause::BodyReserialized, message)) };
            let cause = if found.cause == Cause::BodyChanged { Cause::BodyReserialized } else { found.cause };
            let (at, sent, seen) = (Some(found.at), Some(found.sent), Some(found.seen));
            Finding { at, sent, seen, ..finding(cause, message) }
        }
        Twist::Id(id) => {
            let message = "The signature was made for the id of another delivery.";
            Finding { delivery_id: Some(id.to_string().into()), ..finding(Cause::IdOfAnother, message) }
        }
        Twist::Time(seconds) => {
            let message =
                format!("The signature was made for the timestamp {seconds}, that of another attempt or form.");
            finding(Cause::TimestampOfAnother, message)
        }
        Twist::Delivery(id) => {
            let message = "The signature is that of another delivery.";
            Finding { delivery_id: Some(id.to_string().into()), ..finding(Cause::SignatureOfAnother, message) }
        }
        Twist::BodyOf(id) => {
            let message = "The signature was made for the body of another delivery.";
            Finding { delivery_id: Some(id.to_string().into()), ..finding(Cause::BodyOfAnother, message) }
        }
        Twist::Composed(cause, message) => finding(*cause, *message),
    })
}

/// Explains a signature that equals that of `key` and `message`. `twisted` is the mistake in the message.
fn explanation(
    key: &HmacKey,
    message: &SignedMessage<'_>,
    target: &GivenSignature,
    twisted: Option<Finding>,
) -> Explanation {
    let mut causes: Vec<Finding> = Vec::new();
    match (key.owner, key.form) {
        (Owner::Other(id), _) => {
            let message = format!("The secret of the endpoint {id} was used. Use this endpoint's secret.");
            causes.push(Finding {
                webhook_endpoint_id: Some(id.to_string().into()),
                ..finding(Cause::OtherEndpoint, message)
            });
        }
        (Owner::Callback(id), _) => {
            let message = "The request is the callback of a job. It is signed with the job's `callback_secret`.";
            causes.push(Finding { delivery_id: Some(id.to_string().into()), ..finding(Cause::OtherEndpoint, message) });
        }
        (Owner::Own(_), Derivation::Wrong(cause, message)) => causes.push(finding(cause, message)),
        (Owner::Own(_), Derivation::Right(KeyForm::Decoded)) if message.scheme == Scheme::Body => {
            let message =
                "`x-webhook-signature` uses the text of the secret as its key, and the decoded secret was used.";
            causes.push(finding(Cause::SecretDecoded, message));
        }
        (Owner::Own(_), Derivation::Right(_)) => {}
    }
    causes.extend(twisted);
    let is_crossed = matches!(target.source, SignatureSource::Header(scheme) if scheme != message.scheme);
    if is_crossed && causes.is_empty() {
        let message = match message.scheme {
            Scheme::Body => {
                "`webhook-signature` has a signature of the body alone. It covers the id and the timestamp, too."
            }
            Scheme::Standard => {
                "`x-webhook-signature` has a signature of `webhook-signature`. It covers the body alone."
            }
        };
        causes.push(finding(Cause::SignedContent, message));
    }
    let is_right = causes.is_empty();
    Explanation { owner: key.owner, form: key.form, scheme: message.scheme, causes, is_right }
}

/// Compares the signatures with those of known mistakes, from the most to the least likely one.
pub(super) fn search<'s>(seen: &'s ReceivedRequest, facts: &Facts, values: &Values) -> Search<'s> {
    let given = |source: SignatureSource, text: Option<&str>, most: usize| {
        let all = text.map(|text| signature::read(text, most)).unwrap_or_default();
        all.into_iter().map(move |given| GivenSignature { source, given, explained: None }).collect::<Vec<_>>()
    };
    let targets = [
        given(SignatureSource::Header(Scheme::Standard), values.signature.as_deref(), ENTRIES),
        given(SignatureSource::Header(Scheme::Body), values.body_signature.as_deref(), 1),
        given(SignatureSource::Computed, seen.computed.as_ref().map(|Computed(text)| text.as_str()), 1),
    ];
    let body = seen.body.0.as_slice();
    let mut search = Search {
        targets: targets.into_iter().flatten().collect(),
        left: MAX_HASHED_BYTES,
        is_cut_off: false,
        seen: body,
    };
    let (id, time) = (values.id.as_deref().unwrap_or_default(), values.time.as_deref().unwrap_or_default());
    let (current, own) = (Owner::Own(WhichSecret::Current), own_keys(facts));
    let as_seen = || both(id, time, body.into(), Twist::None);
    let logged = match &facts.logged {
        Logged::Found(sent) => Some(sent),
        Logged::NotSought | Logged::Absent => None,
    };
    let bodies = || logged.into_iter().flat_map(|sent| &sent.bodies).map(|body| &**body).filter(|sent| *sent != body);
    let as_sent = || bodies().flat_map(|sent| both(id, time, sent.into(), Twist::Body(sent.into())));
    search.try_all(&own, as_seen());
    search.try_all(&own, as_sent());
    if search.is_over() {
        return search;
    }
    // If the log does not have the body, the seen one may lead to it.
    let may_restore = logged.is_none_or(|sent| sent.bodies.is_empty()) && body.len() <= MAX_REWRITTEN_BYTES;
    let restored = if may_restore { restored(body) } else { Vec::new() };
    search.try_all(&own, restored.iter().flat_map(|sent| both(id, time, sent.into(), Twist::Body(sent.into()))));
    let attempts = logged.into_iter().flat_map(|sent| sent.at.iter().rev().take(ATTEMPTS)).map(|at| at.as_second());
    let times: Vec<i64> = attempts.chain(seconds_of(time)).filter(|seconds| seconds.to_string() != time).collect();
    let bodies_at = || std::iter::once(body).chain(bodies());
    let at_times = times.iter().flat_map(|seconds| {
        bodies_at().map(|body| SignedMessage::standard(id, &seconds.to_string(), body.into(), Twist::Time(*seconds)))
    });
    search.try_all(&own, at_times);
    search.try_all(&own, composed(id, time, body));
    if body.len() <= MAX_REWRITTEN_BYTES && !search.is_over() {
        let rewritten = rewritten(body);
        let rewritten =
            rewritten.iter().flat_map(|(body, how)| both(id, time, body.into(), Twist::Rewritten(body.into(), how)));
        search.try_all(&own, rewritten);
    }
    search.is_cut_off |= body.len() > MAX_REWRITTEN_BYTES && !search.is_over();
    let mut wrong = keys::wrong(&facts.own.current, current);
    wrong.extend(keys::none(current));
    let previous = facts.own.previous.as_ref();
    wrong.extend(previous.into_iter().flat_map(|old| keys::wrong(&old.secret, Owner::Own(WhichSecret::Previous))));
    search.try_all(&wrong, as_seen().into_iter().chain(as_sent()));
    if let Some((sent, secret)) = logged.and_then(|sent| Some((sent, sent.callback.as_ref()?))) {
        search.try_all(&keys::right(secret, Owner::Callback(sent.id)), as_seen().into_iter().chain(as_sent()));
    }
    let others = facts.others.iter().flat_map(|(id, secrets)| keys_of(secrets, Owner::Other(*id), Owner::Other(*id)));
    search.try_all(&others.collect::<Vec<_>>(), as_seen().into_iter().chain(as_sent()));
    search.try_hashes(&own);
    search
}

impl Search<'_> {
    /// Compares the signatures that are not explained yet with those of other deliveries.
    pub(super) fn try_others(&mut self, facts: &Facts, values: &Values) {
        let body = self.seen;
        let (id, time) = (values.id.as_deref().unwrap_or_default(), values.time.as_deref().unwrap_or_default());
        let messages = facts.nearby.iter().flat_map(|other| {
            let other_id = other.id.webhook_id.to_string();
            let bodies = || other.bodies.iter().map(|body| Cow::Borrowed(&**body));
            let with_id = [SignedMessage::standard(&other_id, time, body.into(), Twist::Id(other.id))];
            let with_body = bodies().map(|body| SignedMessage::standard(id, time, body, Twist::BodyOf(other.id)));
            let times = other.at.iter().rev().take(ATTEMPTS).map(|at| at.as_second().to_string());
            let whole = times.flat_map(|time| {
                bodies()
                    .map(|body| SignedMessage::standard(&other_id, &time, body, Twist::Delivery(other.id)))
                    .collect::<Vec<_>>()
            });
            with_id.into_iter().chain(with_body).chain(whole).collect::<Vec<_>>()
        });
        self.try_all(&own_keys(facts), messages);
    }
}

/// A message of each scheme.
fn both<'m>(id: &str, time: &str, body: Cow<'m, [u8]>, twist: Twist<'m>) -> [SignedMessage<'m>; 2] {
    [SignedMessage::standard(id, time, body.clone(), twist.clone()), SignedMessage::body(body, twist)]
}

/// The keys of the endpoint's secrets.
fn own_keys(facts: &Facts) -> Vec<HmacKey> {
    keys_of(&facts.own, Owner::Own(WhichSecret::Current), Owner::Own(WhichSecret::Previous))
}

fn keys_of(secrets: &Secrets, current: Owner, previous: Owner) -> Vec<HmacKey> {
    let old = secrets.previous.as_ref().map(|secret| keys::right(&secret.secret, previous));
    keys::right(&secrets.current, current).into_iter().chain(old.into_iter().flatten()).collect()
}
