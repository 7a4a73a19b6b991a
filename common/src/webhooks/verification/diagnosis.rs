//! Names the causes, given what is known about a request and what its signatures were made with.

use std::time::Duration;

use api::verification::{Cause, Finding, Scheme, Valid, Verification, WhichSecret};

use super::{
    facts::{Facts, Logged, SentDelivery},
    finding::{finding, of_bodies, unexplained},
    keys::{Derivation, Owner},
    received_request::{Computed, ReceivedRequest},
    search::{GivenSignature, Search, SignatureSource},
    signature::{self, Encoding, Given},
    values::{Values, seconds_of},
};
use crate::timestamp::Timestamp;

/// The maximum difference between a timestamp and the receiver's clock that libraries accept.
const TOLERANCE: Duration = Duration::from_mins(5);

/// Diagnoses a request. `now` is this service's time.
pub(super) fn diagnose(
    seen: &ReceivedRequest,
    facts: &Facts,
    values: &Values,
    search: &Search<'_>,
    now: Timestamp,
) -> Verification {
    let mut causes = values.causes.clone();
    let (mut remarks, mut valid) = (Vec::new(), Vec::new());
    missing(seen, values, &mut causes, &mut remarks);
    for scheme in [Scheme::Standard, Scheme::Body] {
        of_header(scheme, facts, seen, values, search, &mut valid, &mut causes);
    }
    of_time(seen, values, &valid, now, &mut causes, &mut remarks);
    of_log(facts, values, &mut remarks);
    if !valid.is_empty() && valid.iter().all(|valid| valid.secret == WhichSecret::Previous) {
        let message = "Only the secret from before the latest rotation matches. Change the receiver's secret.";
        remarks.push(finding(Cause::PreviousSecretUsed, message));
    }
    if let Some(Computed(computed)) = &seen.computed {
        of_computed(computed, values, search, facts, &mut causes);
    }
    if search.is_cut_off {
        let message = "The body is large, so not every explanation was tried. A smaller delivery shows more.";
        remarks.push(finding(Cause::NotAllTried, message));
    }
    if valid.is_empty() && causes.is_empty() {
        causes.push(unexplained("No signature was seen. Give the headers as the receiver got them."));
    }
    let mut once: Vec<Finding> = Vec::new();
    for cause in causes.into_iter().map(|cause| recognized(cause, &seen.body.0, facts)) {
        if !once.contains(&cause) {
            once.push(cause);
        }
    }
    Verification { verified: once.is_empty(), valid, causes: once, remarks }
}

/// Says more about a wrong body, if it is the other form of the event, or that of another delivery.
fn recognized(found: Finding, seen: &[u8], facts: &Facts) -> Finding {
    if found.cause != Cause::BodyChanged && found.cause != Cause::BodyReserialized {
        return found;
    }
    if let Logged::Found(sent) = &facts.logged
        && sent.bodies.iter().skip(1).any(|body| *body == seen)
    {
        let message = "The body is another form of the event than the one that was sent: full instead of thin, or the \
                       reverse. The signature covers the bytes that were sent.";
        return Finding { cause: Cause::BodyForm.into(), message: message.to_owned(), ..found };
    }
    let is_of = |sent: &&SentDelivery| sent.bodies.iter().any(|body| *body == seen);
    match facts.nearby.iter().find(is_of) {
        Some(sent) => Finding {
            cause: Cause::BodyOfAnother.into(),
            message: "The body is that of another delivery.".to_owned(),
            delivery_id: Some(sent.id.to_string().into()),
            ..found
        },
        None => found,
    }
}

/// Whether the diagnosis needs to look at other deliveries.
pub(super) fn is_unexplained(found: &Verification) -> bool {
    let open = [Cause::Unexplained, Cause::UnknownSecret, Cause::BodyChanged, Cause::SignatureOfAnother];
    found.causes.iter().any(|finding| open.iter().any(|cause| finding.cause == *cause))
}

/// Reports the headers that were not seen. A receiver may verify `x-webhook-signature` alone.
fn missing(seen: &ReceivedRequest, values: &Values, causes: &mut Vec<Finding>, remarks: &mut Vec<Finding>) {
    let missing = values.missing();
    let names: Vec<_> = missing.iter().map(|name| format!("`{name}`")).collect();
    let Some((last, others)) = names.split_last() else { return };
    let (names, verb) =
        if others.is_empty() { (last.clone(), "was") } else { (format!("{} and {last}", others.join(", ")), "were") };
    let hint = match (missing.len(), &values.body_signature) {
        (3, Some(_)) => {
            let message = format!("{names} {verb} not seen. Libraries of Standard Webhooks need them.");
            return remarks.push(finding(Cause::HeadersMissing, message));
        }
        (3, None) if seen.headers.are_unread() => {
            let message = format!(
                "{names} could not be read from the text. Give one header per line, as in `name: value`, or JSON, as of \
                 `JSON.stringify` or `json.dumps`."
            );
            return causes.push(finding(Cause::HeadersMissing, message));
        }
        (3, None) => " If your code printed an empty object, it is a `Headers` object or a `Map`: pass on its entries.",
        _ => "",
    };
    causes.push(finding(Cause::HeadersMissing, format!("{names} {verb} not seen.{hint}")));
}

/// Reports the signatures in a header.
fn of_header(
    scheme: Scheme,
    facts: &Facts,
    seen: &ReceivedRequest,
    values: &Values,
    search: &Search<'_>,
    valid: &mut Vec<Valid>,
    causes: &mut Vec<Finding>,
) {
    let value = match scheme {
        Scheme::Standard => &values.signature,
        Scheme::Body => &values.body_signature,
    };
    let Some(value) = value.as_deref().filter(|value| !value.is_empty()) else { return };
    let targets: Vec<_> = search.of(SignatureSource::Header(scheme)).collect();
    let explained: Vec<_> = targets.iter().filter_map(|target| target.explained.as_ref()).collect();
    if !targets.is_empty() {
        causes.extend(misshapen(scheme, value, &targets));
    }
    for found in &explained {
        causes.extend(found.causes.iter().cloned());
        if let (true, Owner::Own(secret), Derivation::Right(key)) = (found.is_right, found.owner, found.form) {
            match overdue(secret, facts, values) {
                Some(cause) => causes.push(cause),
                None => valid.push(Valid { scheme: scheme.into(), secret: secret.into(), key: key.into() }),
            }
        }
    }
    // Both headers have the same cause, which is reported once.
    if explained.is_empty() && (scheme == Scheme::Standard || values.signature.is_none() || !valid.is_empty()) {
        causes.extend(without_explanation(scheme, value, &targets, facts, seen, search));
    }
}

/// The cause if the previous secret was used after its overlap.
fn overdue(secret: WhichSecret, facts: &Facts, values: &Values) -> Option<Finding> {
    let previous = facts.own.previous.as_ref().filter(|_| secret == WhichSecret::Previous)?;
    let is_over = values.at >= previous.expires_at.as_second();
    let message = format!(
        "The secret from before the rotation was used. Nothing is signed with it since {}.",
        previous.expires_at.readable()
    );
    is_over.then(|| finding(Cause::PreviousSecret, message))
}

/// The cause, if a header does not have the form in which it is sent.
fn misshapen(scheme: Scheme, value: &str, targets: &[&GivenSignature]) -> Option<Finding> {
    let is_right = match scheme {
        Scheme::Standard => signature::is_standard(value),
        Scheme::Body => signature::is_lower_hex(value),
    };
    let (name, prefix, encoding) = match scheme {
        Scheme::Standard => ("webhook-signature", "v1,", Encoding::Base64),
        Scheme::Body => ("x-webhook-signature", "", Encoding::Hex),
    };
    if is_right {
        return None;
    }
    let first = &targets.first()?.given;
    Some(if scheme == Scheme::Standard && signature::is_standard(&signature::with_plus_signs(value)) {
        let message = "The plus signs in `webhook-signature` became spaces, as if it were part of a form or a query.";
        finding(Cause::SignatureEncoding, message)
    } else if first.encoding != encoding {
        let message =
            format!("The signature in `{name}` is not in the encoding in which it is sent, {}.", named(encoding));
        finding(Cause::SignatureEncoding, message)
    } else if first.prefix != prefix {
        let message = match scheme {
            Scheme::Standard => "A signature in `webhook-signature` begins with `v1,`, and was seen without it.",
            Scheme::Body => "`x-webhook-signature` has no prefix, and was seen with one.",
        };
        finding(Cause::SignaturePrefix, message)
    } else {
        let message = format!("`{name}` was not seen as it is sent: spaces separate its entries.");
        finding(Cause::SignatureEntries, message)
    })
}

fn named(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Base64 => "base64",
        Encoding::OtherBase64 => "base64 with other characters or without padding",
        Encoding::Hex => "hex in lower case",
        Encoding::UpperHex => "hex in upper case",
        Encoding::HexInBase64 => "base64 of its hex",
    }
}

/// The causes that are known although a header's signatures have no explanation.
fn without_explanation(
    scheme: Scheme,
    value: &str,
    targets: &[&GivenSignature],
    facts: &Facts,
    seen: &ReceivedRequest,
    search: &Search<'_>,
) -> Vec<Finding> {
    if let Some(cause) = targets.iter().find_map(|target| algorithm(&target.given)) {
        return vec![cause];
    }
    if targets.is_empty() && value.split([' ', ',']).all(|part| part.starts_with('v')) {
        let message =
            "The header has versions without signatures. Split it at spaces first, and each entry at its comma.";
        return vec![finding(Cause::SignatureEntries, message)];
    }
    if targets.is_empty() {
        let message = "The header has no whole signature. It may have been cut off or replaced.";
        return vec![finding(Cause::SignatureEncoding, message)];
    }
    let is_right = |target: &GivenSignature| target.explained.as_ref().is_some_and(|found| found.is_right);
    if scheme == Scheme::Standard && search.of(SignatureSource::Header(Scheme::Body)).any(is_right) {
        let message = "The secret and the body are right, because `x-webhook-signature` is valid. `webhook-id`, \
                       `webhook-timestamp` or `webhook-signature` is from another request.";
        return vec![finding(Cause::SignatureOfAnother, message)];
    }
    if scheme == Scheme::Body && search.of(SignatureSource::Header(Scheme::Standard)).any(is_right) {
        return vec![finding(Cause::SignatureOfAnother, "`x-webhook-signature` is from another request.")];
    }
    let sent = match &facts.logged {
        Logged::Found(sent) => sent,
        Logged::NotSought | Logged::Absent => {
            return vec![unexplained(
                "The signature is not that of this body, with any known secret. The secret or the body is another one, and \
                 the log has no delivery to compare with.",
            )];
        }
    };
    let differing = sent.bodies.iter().all(|body| *body != seen.body.0);
    let differing = sent.bodies.first().filter(|_| differing).and_then(|sent| of_bodies(sent, &seen.body.0));
    let message = "The signature was made with none of the secrets of this endpoint and of the organization's others.";
    let unknown = finding(Cause::UnknownSecret, message);
    let about = |found: Finding| Finding { delivery_id: Some(sent.id.to_string().into()), ..found };
    differing.map(about).into_iter().chain([unknown]).collect()
}

/// The cause, if the length of a signature is not that of SHA-256.
fn algorithm(given: &Given) -> Option<Finding> {
    let name = match given.tag.len() {
        32 => return None,
        16 => "MD5",
        20 => "SHA-1",
        28 => "SHA-224",
        48 => "SHA-384",
        _ => "SHA-512",
    };
    let message = format!("The signature has the length of {name}. Deliveries are signed with HMAC-SHA256.");
    Some(finding(Cause::Algorithm, message))
}

/// Reports the timestamp.
fn of_time(
    seen: &ReceivedRequest,
    values: &Values,
    valid: &[Valid],
    now: Timestamp,
    causes: &mut Vec<Finding>,
    remarks: &mut Vec<Finding>,
) {
    let Some(text) = values.time.as_deref().filter(|text| !text.is_empty()) else { return };
    let Some(sent) = values.seconds() else {
        let message = format!(
            "`webhook-timestamp` was not seen as it is sent, in Unix seconds{}.",
            if seconds_of(text).is_some() { ": it was converted" } else { "" }
        );
        // The signature was made for a timestamp in the right form, which is no other cause.
        causes.retain(|found| found.cause != Cause::TimestampOfAnother);
        return causes.push(finding(Cause::TimestampMalformed, message));
    };
    let tolerance = i64::try_from(TOLERANCE.as_secs()).unwrap_or(i64::MAX);
    let off = seen.received_at.unwrap_or(now).as_second().saturating_sub(sent);
    let found = |cause, message: String| Finding { seconds: Some(off), ..finding(cause, message) };
    let way = if off > 0 { "after" } else { "before" };
    if seen.received_at.is_some() && off.abs() > tolerance {
        let message = format!(
            "The receiver's clock shows {} {way} `webhook-timestamp`, and libraries accept five minutes.{}",
            duration(off.abs()),
            if is_of_a_zone(off) { " This may be a time zone: compare Unix seconds, or times in UTC." } else { "" }
        );
        causes.push(found(Cause::TimestampTolerance, message));
    } else if off < -tolerance {
        let message = format!("`webhook-timestamp` is {} in the future.", duration(off.abs()));
        causes.push(found(Cause::TimestampTolerance, message));
    } else if off > tolerance && !valid.is_empty() {
        let message = format!(
            "The request is {} old. Libraries accept one for five minutes; give the receiver's time to check it.",
            duration(off)
        );
        remarks.push(found(Cause::TimestampUnchecked, message));
    }
}

/// Whether a difference is a multiple of half an hour of up to 14 hours, give or take two minutes.
fn is_of_a_zone(seconds: i64) -> bool {
    let off = seconds.abs();
    (1800 - 120..=14 * 3600 + 120).contains(&off) && (off + 120) % 1800 <= 240
}

fn duration(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} seconds"),
        120..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Reports what the log lacks.
fn of_log(facts: &Facts, values: &Values, remarks: &mut Vec<Finding>) {
    match &facts.logged {
        Logged::Found(sent) if sent.bodies.is_empty() => {
            let message = "The log no longer has the body of this delivery, so the bytes could not be compared.";
            remarks.push(Finding {
                delivery_id: Some(sent.id.to_string().into()),
                ..finding(Cause::PayloadNotKept, message)
            });
        }
        Logged::Absent => remarks.push(finding(
            Cause::NotInLog,
            "The log has no delivery with this `webhook-id`. It may have expired, or belong to another organization.",
        )),
        Logged::NotSought if values.id.as_deref().is_some_and(|id| !id.is_empty()) => remarks.push(finding(
            Cause::NotInLog,
            "`webhook-id` does not have the form of a delivery's id, so it was not looked up in the log.",
        )),
        Logged::Found(_) | Logged::NotSought => {}
    }
}

/// Reports the signature that the receiver computed.
fn of_computed(computed: &str, values: &Values, search: &Search<'_>, facts: &Facts, causes: &mut Vec<Finding>) {
    let mut targets = search.of(SignatureSource::Computed);
    let Some(target) = targets.next() else {
        let message = "The computed signature is not 32 bytes in base64 or hex.";
        return causes.push(finding(Cause::SignatureEncoding, message));
    };
    let Some(found) = &target.explained else {
        return causes.push(algorithm(&target.given).unwrap_or_else(|| {
            unexplained("The computed signature is not that of this request with a known secret, or a known mistake.")
        }));
    };
    causes.extend(found.causes.iter().cloned());
    let overdue = match found.owner {
        Owner::Own(secret) => overdue(secret, facts, values),
        Owner::Other(_) | Owner::Callback(_) => None,
    };
    if let Some(cause) = overdue {
        return causes.push(cause);
    }
    let given = &target.given;
    let mut of_header = search.of(SignatureSource::Header(found.scheme)).peekable();
    let is_of_header = of_header.peek().is_none() || of_header.any(|other| other.given.tag == given.tag);
    if found.owner == Owner::Own(WhichSecret::Previous) && !is_of_header {
        let message = "The computed signature was made with the secret from before the rotation, and the header's with the \
                       current one. Change the receiver's secret.";
        return causes.push(finding(Cause::PreviousSecret, message));
    }
    if !found.is_right {
        return;
    }
    let standard = values.signature.as_deref().unwrap_or_default();
    let own =
        format!("`{}`", if found.scheme == Scheme::Standard { "webhook-signature" } else { "x-webhook-signature" });
    let cause = match found.scheme {
        Scheme::Body if !standard.is_empty() => finding(
            Cause::SignedContent,
            format!(
                "The computed signature is that of `x-webhook-signature`{}. `webhook-signature` covers \
                 `{{webhook-id}}.{{webhook-timestamp}}.{{body}}` instead.",
                match given.prefix.is_empty() {
                    true => ", and right if your code compares it with that header",
                    false => " with a prefix: if your code compares it with that header, remove the prefix",
                }
            ),
        ),
        Scheme::Body if given.encoding != Encoding::Hex => encoding(&own, given, Encoding::Hex),
        Scheme::Body if !given.prefix.is_empty() => {
            finding(Cause::SignaturePrefix, format!("The computed signature is right, but {own} has no prefix."))
        }
        Scheme::Standard if given.encoding != Encoding::Base64 => encoding(&own, given, Encoding::Base64),
        Scheme::Standard | Scheme::Body if computed != computed.trim() => finding(
            Cause::SignatureEncoding,
            "The computed signature is right, but has a line break or a space around it, as some encoders of base64 add.",
        ),
        Scheme::Standard if given.prefix != "v1," => finding(
            Cause::SignaturePrefix,
            "The computed signature is right for code that splits `webhook-signature` at spaces and removes `v1,` from each \
             entry. It differs from the whole header.",
        ),
        Scheme::Standard if standard != computed => finding(
            Cause::SignatureEntries,
            "The computed signature is right for code that splits `webhook-signature` at spaces and compares it with each \
             entry. It differs from the whole header.",
        ),
        Scheme::Standard | Scheme::Body => return,
    };
    causes.push(cause);
}

fn encoding(header: &str, given: &Given, right: Encoding) -> Finding {
    let (own, right) = (named(given.encoding), named(right));
    let message = format!("The computed signature is right, but in {own}. {header} has it in {right}.");
    finding(Cause::SignatureEncoding, message)
}
