//! `fanfare verify`: asks the service why a request that a receiver got does not verify.

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    path::Path,
};

use api::verification::{Finding, KeyForm, MAX_BODY, Scheme, Valid, Verification, Verify as Call, WhichSecret};
use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    args::Verify,
    calls::Api,
    failure::Failure,
    ids,
    terminal::{cell, print_json, print_line, print_note},
};

/// The maximum size of the headers, in bytes: a little more than the service accepts.
const MAX_HEADERS_BYTES: usize = 64 * 1024;
/// Before lines that belong to the one above.
const INDENTATION: &str = "    ";

pub(crate) async fn run(api: &Api, verify: Verify, is_json: bool) -> Result<(), Failure> {
    let Verify { request, headers, header, body, computed, received_at, endpoint } = verify;
    let (headers, body) = match (headers, header.is_empty()) {
        (Some(file), _) => (text(read(Some(&file), MAX_HEADERS_BYTES)?), read(body.as_deref(), MAX_BODY)?),
        (None, false) => (header.join("\n"), read(body.as_deref(), MAX_BODY)?),
        (None, true) if body.is_some() => {
            return Err(Failure::usage("The headers are missing.").hint("Add --headers FILE, or --header for each."));
        }
        (None, true) => split(&read(request.as_deref(), MAX_HEADERS_BYTES + MAX_BODY)?)?,
    };
    let id = ids::endpoint_or_only(api, endpoint.as_deref()).await?;
    let call = Call { computed, received_at, ..Call::new(id, headers, STANDARD.encode(body)) };
    let found = api.call(&call).await?;
    if is_json {
        print_json(&found)?;
    } else {
        show(&found, call.computed.is_some())?;
    }
    if found.verified { Ok(()) } else { Err(Failure::local("The request is not verified.").reported()) }
}

/// Reads a file or standard input, up to this number of bytes.
fn read(file: Option<&Path>, most: usize) -> Result<Vec<u8>, Failure> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    match file.filter(|file| *file != Path::new("-")) {
        Some(path) => {
            let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
            read.map_err(|error| Failure::of_file(path, &error))?;
        }
        None => {
            if io::stdin().is_terminal() {
                print_note("Reading the request from the terminal, up to Ctrl-D.");
            }
            io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
        }
    }
    match bytes.len() > most {
        true => Err(Failure::local(format!("The request is larger than {most} bytes."))),
        false => Ok(bytes),
    }
}

/// Splits a request at the first empty line.
fn split(request: &[u8]) -> Result<(String, Vec<u8>), Failure> {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"].map(|end| {
        let at = request.windows(end.len()).position(|window| window == end);
        at.map(|at| (at, at + end.len()))
    });
    let end = ends.into_iter().flatten().min();
    let parts = end.and_then(|(end, start)| Some((request.get(..end)?, request.get(start..)?)));
    let (headers, body) = parts.ok_or_else(|| {
        Failure::usage("The request has no empty line after its headers.")
            .hint("Pass headers and body apart, with --headers and --body.")
    })?;
    Ok((text(headers.to_vec()), body.to_vec()))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn show(found: &Verification, has_computed: bool) -> Result<(), Failure> {
    print_line(if found.verified { "Verified." } else { "Not verified." })?;
    for valid in &found.valid {
        print_line(&format!("{INDENTATION}{}", described(valid)))?;
    }
    for cause in &found.causes {
        show_finding(cause)?;
    }
    if found.verified && !has_computed {
        print_note(
            "hint: If your code rejects this request, its mistake is elsewhere: pass the signature that it computed, with --computed.",
        );
    }
    for remark in &found.remarks {
        print_line(&format!("Note: {}", cell(&remark.message)))?;
    }
    Ok(())
}

/// Describes a valid signature.
fn described(Valid { scheme, secret, key }: &Valid) -> String {
    let header = match *scheme == Scheme::Body {
        true => "x-webhook-signature",
        false => "webhook-signature",
    };
    let secret = if *secret == WhichSecret::Previous { "previous secret" } else { "current secret" };
    let key = if *key == KeyForm::Decoded { "decoded from base64" } else { "as text" };
    format!("{header} is valid, with the {secret} {key}")
}

fn show_finding(found: &Finding) -> Result<(), Failure> {
    print_line(&format!("{}: {}", cell(&found.cause), cell(&found.message)))?;
    if let (Some(at), Some(sent), Some(seen)) = (found.at, &found.sent, &found.seen) {
        print_line(&format!("{INDENTATION}from byte {at}"))?;
        print_line(&format!("{INDENTATION}sent: {}", cell(sent)))?;
        print_line(&format!("{INDENTATION}seen: {}", cell(seen)))?;
    }
    if let Some(id) = &found.delivery_id {
        print_line(&format!("{INDENTATION}delivery: {}", cell(id)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_split_at_its_first_empty_line() {
        for (request, headers, body) in [
            ("a: b\r\n\r\n{}\n\n", "a: b", "{}\n\n"),
            ("a: b\nc: d\n\n{\r\n\r\n}", "a: b\nc: d", "{\r\n\r\n}"),
            ("a: b\n\n", "a: b", ""),
        ] {
            let split = split(request.as_bytes()).expect(request);
            assert_eq!(split, (headers.to_owned(), body.as_bytes().to_vec()));
        }
        assert!(split(b"a: b\n{}").is_err());
    }
}
