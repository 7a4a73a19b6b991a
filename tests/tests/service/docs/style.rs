//! Everything that people read follows docs/style.md: docs, strings in the code, comments, the template and test names.

use std::fs;

use super::{links::files, root};

/// Banned words, in lower case, with their replacements.
const WORDS: [(&str, &str); 18] = [
    ("nobody", "name the actor, or say it without a negation: \"Not signed in\""),
    ("somebody", "name the actor: the owner, the caller, a client"),
    ("whoever", "name the actor: the owner, the caller, a client"),
    ("all the same", "\"anyway\""),
    ("for good", "\"permanently\""),
    ("in the place of", "\"instead of\""),
    ("under way", "\"in progress\""),
    ("put off", "\"postponed\""),
    ("puts off", "\"postpones\""),
    ("putting off", "\"postponing\""),
    ("anybody", "name the actor: a stranger, any caller"),
    ("everybody", "name the actors: all members, all callers"),
    ("for ever", "\"forever\""),
    ("so many", "\"this many\", or the number's name"),
    ("mails", "\"emails\""),
    ("comes again", "\"is redelivered\" or \"is repeated\""),
    ("also where", "\"even if\""),
    ("also when", "\"even when\""),
];

/// Words that may begin only questions.
const OPENINGS: [&[&str]; 7] =
    [&["What"], &["Who"], &["How", "so"], &["How", "many"], &["How", "long"], &["How", "often"], &["How", "far"]];

/// Words that are banned from test names, in addition to those banned from prose.
const IN_NAMES: [&str; 2] = ["told", "tells"];

const LONGEST_TEST_NAME: usize = 60;

/// Files that may use a word, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 1] =
    [("common/src/webhooks/job_failures/quota.rs", "mails", "stored items have this name")];

/// Separates two passages in a file.
const BREAK: u8 = 0;

/// The prose in a file, on the same lines as in the file. Everything else is blank.
fn prose(path: &str, source: &str) -> Option<String> {
    let (name, extension) = path.rsplit_once('.').unwrap_or((path, ""));
    let comments = |marker| {
        let lines = source.lines().map(|line| line.trim_start().strip_prefix(marker).unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    };
    let text = match extension {
        "md" => source.to_owned(),
        "yaml" => source.replace("#", " "),
        "rs" => rust(source, !path.split('/').any(|folder| folder == "tests")),
        "toml" | "py" => comments("#"),
        "mjs" => comments("//"),
        _ if name.starts_with(".ci/") => comments("#"),
        _ => return None,
    };
    Some(without_code(&text))
}

/// The comments in a Rust file, and the string literals before its unit tests.
fn rust(source: &str, has_texts: bool) -> String {
    let bytes = source.as_bytes();
    let tests = source.find("#[cfg(test)]\nmod tests").unwrap_or(source.len());
    let mut prose: Vec<u8> = bytes.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }).collect();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let raw = 1 + rest[1..].iter().take_while(|byte| **byte == b'#').count();
        let (open, text, close) = match rest {
            [b'/', b'/', ..] => {
                let marker = rest.iter().take_while(|byte| b"/!".contains(byte)).count();
                (marker, rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()) - marker, 0)
            }
            [b'"', ..] => {
                let (mut end, mut is_escaped) = (1, false);
                while rest[end] != b'"' || is_escaped {
                    is_escaped = rest[end] == b'\\' && !is_escaped;
                    end += 1;
                }
                (1, end - 1, 1)
            }
            [b'r', ..] if rest.get(raw) == Some(&b'"') && (at == 0 || !is_of_word(bytes[at - 1].into())) => {
                let close = format!("\"{}", "#".repeat(raw - 1));
                let text = source[at + raw + 1..].find(&close).expect("a literal ends");
                (raw + 1, text, raw)
            }
            [b'\'', b'\\', ..] => (0, 0, 4),
            [b'\'', b'"' | b'`', b'\'', ..] => (0, 0, 3),
            _ => (0, 0, 1),
        };
        if rest[0] == b'/' && text > 0 || open > 0 && close > 0 && has_texts && at < tests {
            let (from, to) = (at + open, at + open + text);
            prose[from..to].copy_from_slice(&bytes[from..to]);
            if close > 0 {
                (prose[from - 1], prose[to]) = (BREAK, BREAK);
                for escape in from..to - usize::from(text > 0) {
                    match prose[escape..] {
                        [b'\\', b'n', ..] => prose[escape..escape + 2].fill(BREAK),
                        [b'\\', b'\n', ..] => prose[escape] = b' ',
                        [b'\\', ..] => prose[escape..escape + 2].fill(b' '),
                        _ => {}
                    }
                }
            }
        }
        at += open + text + close;
    }
    String::from_utf8(prose).expect("passages are copied whole")
}

/// Removes fenced blocks and code spans from `text`.
fn without_code(text: &str) -> String {
    let (mut kept, mut is_fenced, mut is_code) = (String::with_capacity(text.len()), false, false);
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        is_code &= !line.trim().is_empty();
        if !is_fenced && !is_fence {
            for character in line.chars() {
                is_code = (is_code ^ (character == '`')) && character != char::from(BREAK);
                kept.push(if is_code { '`' } else { character });
            }
        }
        kept.push('\n');
    }
    kept
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The words in `text`, with their positions.
fn words(text: &str) -> Vec<(usize, &str)> {
    let words = text.split(|character| !is_of_word(character)).filter(|word| !word.is_empty());
    words.map(|word| (word.as_ptr().addr() - text.as_ptr().addr(), word)).collect()
}

/// Whether the sentence that begins here ends with a question mark.
fn is_question(text: &str) -> bool {
    let ends = |at: usize| text[at + 1..].chars().next().is_none_or(|next| !is_of_word(next) && next != '.');
    let end = text.match_indices(['.', '!', '?', char::from(BREAK)]).find(|(at, _)| ends(*at));
    let paragraph = text.find("\n\n").unwrap_or(text.len());
    end.is_some_and(|(at, sign)| sign == "?" && at < paragraph)
}

/// The violations of docs/style.md in a file, each with its line and a remedy.
fn faults(path: &str, source: &str) -> Vec<String> {
    let Some(text) = prose(path, source) else { return Vec::new() };
    let words = words(&text);
    let mut faults = Vec::new();
    for (number, (at, word)) in words.iter().enumerate() {
        let mut refuse = |found: &str, remedy: &str| {
            let is_excepted = |(file, word, _): &(&str, &str, &str)| *file == path && found.contains(word);
            if !EXCEPTIONS.iter().any(is_excepted) {
                let line = 1 + text[..*at].matches('\n').count();
                faults.push(format!("{path}:{line}: \"{found}\": {remedy}"));
            }
        };
        let lower = word.to_lowercase();
        let follows = |phrase: &[&str]| {
            let mut own = phrase.iter().zip(number..);
            own.all(|(own, at)| words.get(at).is_some_and(|(_, word)| own.eq_ignore_ascii_case(word)))
        };
        for (phrase, remedy) in WORDS {
            if phrase.starts_with(&lower) && follows(&phrase.split(' ').collect::<Vec<_>>()) {
                refuse(phrase, &format!("write {remedy}"));
            }
        }
        for opening in OPENINGS {
            if opening[0] == *word && follows(opening) && !is_question(&text[*at..]) {
                refuse(word, "begin with a noun, or end the question with \"?\"");
            }
        }
    }
    faults
}

/// The test names in a Rust file that are too long or contain a banned word, with their lines.
fn bad_names(path: &str, source: &str) -> Vec<String> {
    let (mut is_test, mut bad) = (false, Vec::new());
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        if let Some((_, name)) = line.split_once("fn ").filter(|_| is_test && !line.starts_with('#')) {
            let name = &name[..name.find('(').unwrap_or(name.len())];
            let line = number + 1;
            let is_refused = |word: &&str| IN_NAMES.contains(word) || WORDS.iter().any(|(phrase, _)| phrase == word);
            if let Some(word) = name.split('_').find(is_refused) {
                bad.push(format!("{path}:{line}: `{name}`: avoid \"{word}\", as docs/style.md says"));
            }
            if name.len() > LONGEST_TEST_NAME {
                bad.push(format!("{path}:{line}: `{name}` has {} characters: write subject and behavior in at most {LONGEST_TEST_NAME}", name.len()));
            }
            is_test = false;
        }
    }
    bad
}

#[test]
fn texts_and_test_names_keep_to_the_style() {
    let (mut found, mut count) = (Vec::new(), 0);
    for path in files() {
        let path = path.to_str().expect("UTF-8");
        let Ok(source) = fs::read_to_string(root().join(path)) else { continue };
        found.extend(faults(path, &source));
        if path.ends_with(".rs") {
            found.extend(bad_names(path, &source));
            count += 1;
        }
    }
    assert!(count > 400, "the sources are found");
    found.sort();
    assert!(found.is_empty(), "{} passages are not in the style of docs/style.md:\n{}", found.len(), found.join("\n"));
}

/// Lines from earlier versions, each with its file and the banned word.
const REFUSED: [(&str, &str, &str); 19] = [
    ("README.md", "Receivers that hang, fail or take long hold up nobody else, however many", "nobody"),
    (
        "README.md",
        "| [docs/operating.md](docs/operating.md) | whoever is on call: alarms, failed deliveries |",
        "whoever",
    ),
    ("docs/reliability.md", "## What is promised\n\nFor every event in the queue, is it so?", "What"),
    ("template.yaml", "    Description: Seconds that whoever takes a delivery from a pull endpoint has.", "whoever"),
    ("template.yaml", "  # At least five, so that one failed request in a quiet night wakes nobody.", "nobody"),
    ("common/src/accounts/deleted_organizations.rs", "/// Deletes an organization for good, when", "for good"),
    (
        "common/src/webhooks/post/pool.rs",
        "// the dial is beyond the limit, and may go ahead all the\n// same.",
        "all the same",
    ),
    ("cli/src/config.rs", "/// A new file, in the place of what a process may have left.", "in the place of"),
    ("cli/src/listen.rs", r#"note("What comes while this does not run waits for three days.");"#, "What"),
    ("cli/src/listen.rs", r#"note(&format!("Ending: {} under way. Ctrl-C again ends at once.", left));"#, "under way"),
    ("tests/simulation/check/allowance.rs", "/// Attempts may be put off, so that others need not wait.", "put off"),
    ("tests/tests/service/events/audience.rs", "//! Who gets an event.", "Who"),
    ("tests/benches/isolation/run.rs", "/// How many events have not been handled yet.", "How"),
    ("tests/simulation/check/allowance.rs", "/// How long an attempt waits for a process: a batch.", "How"),
    ("tests/simulation/script.rs", "/// All calls to a service fail for so many milliseconds.", "so many"),
    ("tests/src/rough.rs", "/// It answers `100 Continue` for ever.", "for ever"),
    ("tests/src/world/people.rs", "//! Accounts, sessions, keys and mails.", "mails"),
    ("tests/tests/service/accounts/sign_in.rs", "// Anybody can send this header.", "anybody"),
    ("tests/tests/service/deliveries/pull.rs", "// It waits once, also when a message comes twice.", "also when"),
];

const ACCEPTED: [(&str, &str); 8] = [
    ("README.md", "## What is it?\n\nWho may call it, and when? Run `nobody`.\n\n```sh\nsudo -u nobody true\n```"),
    (
        "cli/src/main.rs",
        r#"// The user `nobody`, under way2.
        let quoted = '"'; // for a good reason
        Failure::NotSignedIn(format!("Not signed in to {}. Run `fanfare login`.", origin))"#,
    ),
    ("cli/src/main.rs", "let nobody = whoever(somebody);"),
    ("cli/src/main.rs", "fn f<'a>() {}\n#[cfg(test)]\nmod tests {\n    const TEXT: &str = \"nobody\";\n}"),
    ("tests/src/lib.rs", r#"assert_eq!(name, "nobody");"#),
    ("common/src/lib.rs", "const TEXT: &str = r#\"Say \"which\" program\"#;"),
    ("docs/api.md", "Each call keeps its place, also for"),
    ("local/src/data.bin", "nobody"),
];

#[test]
fn sentences_of_earlier_versions_are_refused_with_their_line() {
    for (path, source, word) in REFUSED {
        let found = faults(path, &format!("\n{source}\n"));
        assert!(found.len() == 1 && found[0].starts_with(&format!("{path}:2: \"{word}\": ")), "{source}: {found:?}");
    }
}

#[test]
fn questions_code_and_plain_sentences_are_accepted() {
    for (path, source) in ACCEPTED {
        assert_eq!(faults(path, source), [""; 0], "{source}");
    }
}

#[test]
fn a_long_test_name_or_one_with_a_refused_word_is_refused() {
    let test = |name: &str| format!("#[tokio::test(flavor = \"multi_thread\")]\n#[ignore]\nasync fn {name}() {{}}\n");
    assert_eq!(bad_names("a.rs", &test(&"x".repeat(60))), [""; 0]);
    assert!(bad_names("a.rs", &test(&"x".repeat(61)))[0].starts_with("a.rs:3: "));
    assert_eq!(bad_names("a.rs", &format!("fn {}() {{}}", "x".repeat(61))), [""; 0]);
    for (name, word) in [("a_failed_job_is_told_once", "told"), ("an_outage_wakes_nobody", "nobody")] {
        assert!(bad_names("a.rs", &test(name))[0].contains(&format!("avoid \"{word}\"")));
    }
}
