//! The examples on the pages run unchanged and print the quoted output.
//!
//! Every block that is marked `bash` is an example. The blocks of a page run in one shell, top to bottom, against
//! `cargo local`.

use std::{process::Stdio, time::Duration};

use local::{Options, Stack};
use pulldown_cmark::{CodeBlockKind, Event, Tag, TextMergeStream};
use serde_json::{Map, Value, json};
use tests::unused_port;
use tokio::{process::Command, time::timeout};

use super::{page, parser};

/// The time limit for a page, sufficient on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn the_api() {
    run("docs/api.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_events() {
    run("docs/job-events.md").await;
}

async fn run(path: &str) {
    for tool in ["bash", "curl", "python3"] {
        let found = Command::new(tool).arg("--version").stdout(Stdio::null()).status().await;
        assert!(found.is_ok_and(|status| status.success()), "the examples on the pages need {tool}: install it");
    }
    let (script, answers) = examples(&page(path));
    let stack = Stack::start(Options::default()).await.expect("the service starts");
    let script = elsewhere(script, &stack);
    let folder = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    std::fs::create_dir(&folder).expect("a folder");
    let shell = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        // The folder in which `mktemp` creates files.
        .env("TMPDIR", &folder)
        .env("no_proxy", "*")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Stops the receivers that a page starts together with its shell, even after a failure.
        .process_group(0)
        .spawn()
        .expect("a shell");
    let end = format!("kill -- -{} 2> /dev/null", shell.id().expect("it runs"));
    let ended = timeout(PATIENCE, shell.wait_with_output()).await;
    Command::new("bash").args(["-c", &end]).status().await.expect("a shell");
    std::fs::remove_dir_all(&folder).expect("the removal succeeds");
    let output = ended.unwrap_or_else(|_| unreachable!("{path} did not end in {PATIENCE:?}")).expect("it ends");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{path} failed with {}:\n{said}\n{errors}", output.status);
    for answer in answers {
        answer.is_in(&said).unwrap_or_else(|missing| {
            unreachable!("{path} shows output that was not printed: {missing}\nThe output was:\n{said}")
        });
    }
    stack.stop().await;
}

/// The output of an example, as quoted on its page.
pub(super) enum Answer {
    Json(Value),
    /// A request, with its headers and its body.
    Request(String),
}

/// The runnable blocks of a page, as one script, and the output that the page shows.
pub(super) fn examples(page: &str) -> (String, Vec<Answer>) {
    let (mut script, mut answers, mut block) = (String::new(), Vec::new(), None);
    // In a list, the parser splits a block into lines.
    for event in TextMergeStream::new(parser(page)) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => block = Some(language),
            Event::Text(text) => match block.take().as_deref() {
                Some("bash") => script.push_str(&text),
                Some("json") if !script.is_empty() => {
                    let values = serde_json::Deserializer::from_str(&text).into_iter();
                    answers.extend(values.map(|value| Answer::Json(value.expect("JSON"))));
                }
                Some("text") if !script.is_empty() => answers.push(Answer::Request(text.into_string())),
                _ => {}
            },
            _ => {}
        }
    }
    assert!(!script.is_empty(), "the page has no examples");
    (script, answers)
}

/// The script with the addresses of this stack, and with a free port that nothing listens on.
fn elsewhere(mut script: String, stack: &Stack) -> String {
    let addresses = [("9000", stack.api()), ("8025", stack.mail()), ("9110", stack.inbox()), ("9324", stack.sqs())];
    for (usual, here) in addresses {
        script = script.replace(&format!("http://127.0.0.1:{usual}"), here);
    }
    script.replace("9100", &unused_port().to_string())
}

impl Answer {
    /// The part of the quoted output that the examples did not print, if any.
    fn is_in(&self, printed: &str) -> Result<(), String> {
        let found = match self {
            Self::Json(answer) => printed.lines().any(|line| is_like(line, answer)),
            Self::Request(request) => {
                let head = head(request);
                let body = request.split_once("\n\n").map_or("", |(_, body)| body).replace('\n', "");
                let body = serde_json::from_str(&body).expect("JSON");
                let lines: Vec<_> = printed.lines().collect();
                let same = |(start, _): (usize, _)| self::head(&lines[start..].join("\n")) == head;
                lines.iter().enumerate().any(same) && lines.iter().any(|line| is_like(line, &body))
            }
        };
        let missing = match self {
            Self::Json(answer) => answer.to_string(),
            Self::Request(request) => request.clone(),
        };
        if found { Ok(()) } else { Err(missing) }
    }
}

fn is_like(line: &str, answer: &Value) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|printed| shape(&printed) == shape(answer))
}

/// The value without its strings, because most strings differ between runs.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => json!("text"),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (name.clone(), shape(value))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The names of a request's headers, up to the blank line.
fn head(request: &str) -> Vec<&str> {
    request.lines().take_while(|line| !line.is_empty()).map(|line| line.split(':').next().unwrap_or_default()).collect()
}
