//! Each line that the service logs is declared in `common::telemetry::line::LINES`, with its fields.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use common::telemetry::line::LINES;
use syn::{
    Ident, LitStr, Token, braced, bracketed,
    ext::IdentExt,
    parenthesized,
    parse::{ParseStream, Parser},
    token,
};

/// The macros of `tracing`. The service uses only `log!`.
const TRACING: [&str; 12] = [
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "event",
    "span",
    "trace_span",
    "debug_span",
    "info_span",
    "warn_span",
    "error_span",
];

/// A call to `log!` or to a macro of `tracing`.
struct Call {
    file: PathBuf,
    name: String,
    /// The string literals of the call, in order: the name of a line, or a message.
    texts: Vec<String>,
    fields: BTreeSet<String>,
}

/// The calls in the files of a folder.
fn calls(folder: &str) -> Vec<Call> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut folders, mut calls) = (vec![root.join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let file = entry.expect("an entry").path();
            if file.is_dir() {
                folders.push(file);
            } else if file.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&file).expect("UTF-8");
                let path = file.strip_prefix(&root).expect("it is inside").to_owned();
                let read = |input: ParseStream<'_>| find(input, &path, &mut calls);
                read.parse_str(&text).expect("tokens");
            }
        }
    }
    calls
}

/// Finds calls among tokens, including those in the arguments of other macros.
fn find(input: ParseStream<'_>, file: &Path, calls: &mut Vec<Call>) -> syn::Result<()> {
    while !input.is_empty() {
        let inside;
        if input.peek(Ident::peek_any) && input.peek2(Token![!]) && input.peek3(token::Paren) {
            let name = input.call(Ident::parse_any)?.to_string();
            input.parse::<Token![!]>()?;
            parenthesized!(inside in input);
            if name == "log" || TRACING.contains(&name.as_str()) {
                let mut call = Call { file: file.to_owned(), name, texts: Vec::new(), fields: BTreeSet::new() };
                arguments(&inside.fork(), &mut call)?;
                calls.push(call);
            }
        } else if input.peek(token::Brace) {
            braced!(inside in input);
        } else if input.peek(token::Paren) {
            parenthesized!(inside in input);
        } else if input.peek(token::Bracket) {
            bracketed!(inside in input);
        } else {
            skip(input)?;
            continue;
        }
        find(&inside, file, calls)?;
    }
    Ok(())
}

/// Reads the strings and the fields of a call.
fn arguments(input: ParseStream<'_>, call: &mut Call) -> syn::Result<()> {
    while !input.is_empty() {
        while input.peek(Token![%]) || input.peek(Token![?]) {
            skip(input)?;
        }
        if input.peek(LitStr) {
            call.texts.push(input.parse::<LitStr>()?.value());
        } else if input.peek(Ident::peek_any) && (input.peek2(Token![=]) || input.peek2(Token![,]) || is_last(input)) {
            call.fields.insert(input.call(Ident::parse_any)?.to_string());
        }
        while !input.is_empty() && !input.peek(Token![,]) {
            skip(input)?;
        }
        if !input.is_empty() {
            skip(input)?;
        }
    }
    Ok(())
}

/// Whether exactly one token is left.
fn is_last(input: ParseStream<'_>) -> bool {
    input.cursor().token_tree().is_some_and(|(_, rest)| rest.eof())
}

fn skip(input: ParseStream<'_>) -> syn::Result<()> {
    input.step(|cursor| Ok(((), cursor.token_tree().map_or(*cursor, |(_, rest)| rest))))
}

/// `subject.event`, in lower case.
fn is_dotted(name: &str) -> bool {
    let parts: Vec<_> = name.split('.').collect();
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    parts.len() == 2 && parts.iter().all(is_word)
}

#[test]
fn names_of_log_lines_are_dotted_and_different() {
    let names: BTreeSet<_> = LINES.iter().map(|line| line.name).collect();
    assert_eq!(names.len(), LINES.len());
    for line in LINES {
        assert!(is_dotted(line.name), "{}", line.name);
        assert!(line.about.ends_with('.'), "{} needs a sentence", line.name);
    }
    for name in ["delivery failed", "attempt", "an email was not sent", "Delivery.failed", "delivery.failed: {error}"] {
        assert!(!is_dotted(name), "{name}");
    }
}

#[test]
fn the_service_logs_only_listed_lines_with_their_fields() {
    let mut unused: BTreeMap<_, _> = LINES.iter().map(|line| (line.name, line)).collect();
    let listed = unused.clone();
    for Call { file, name, texts, fields } in calls("common/src").into_iter().chain(calls("functions")) {
        // These files are the list itself and the metrics, which are not log lines.
        if file.starts_with("common/src/telemetry") && name != "log" {
            continue;
        }
        assert_eq!(name, "log", "{}: {texts:?} is not written by `log!`", file.display());
        let line = texts.first().and_then(|text| listed.get(text.as_str()));
        let line = line.unwrap_or_else(|| unreachable!("{}: {texts:?} is not in the list", file.display()));
        let declared = line.fields.iter().map(|field| (*field).to_owned()).collect();
        assert_eq!(fields, declared, "{}: the fields of {}", file.display(), line.name);
        unused.remove(line.name);
    }
    assert_eq!(unused.keys().collect::<Vec<_>>(), Vec::<&&str>::new(), "the service never writes these");
}

/// The local stack logs additional lines, which are not meant for operators.
#[test]
fn the_local_stack_logs_dotted_names() {
    let calls = calls("local/src");
    assert!(calls.len() > 5, "the calls are found");
    for Call { file, texts, .. } in calls {
        let message = texts.last().unwrap_or_else(|| unreachable!("{}: a line without a name", file.display()));
        assert!(is_dotted(message), "{}: {message:?} is not a dotted name", file.display());
    }
}
