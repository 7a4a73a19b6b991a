//! The examples in docs/receiving.md for verifying a request, with headers that a stranger can send.

#[allow(unreachable_pub, reason = "the example is part of a receiver")]
mod verify;

use std::{collections::BTreeSet, process::Stdio};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::process::Command;

use super::{page, rows};

const SECRET: &str = "correct-horse-battery-staple";
const BODY: &str = r#"{"event":"job.completed","job_id":"j\u00fc"}"#;

/// Sets of headers, and whether each set is valid. Header characters are in ISO 8859-1.
fn requests() -> Vec<(Vec<(&'static str, String)>, bool)> {
    let (id, now) = ("msg_1854d20f452c5b4c1e350d7c7a00518b", common::timestamp::Timestamp::now().as_second());
    let webhook = Webhook::from_bytes(SECRET.into()).expect("a secret");
    let signed = |id: &str, time: i64| webhook.sign(id, time, BODY.as_bytes()).expect("a signature");
    let good = signed(id, now);
    let with = |id: &str, time: &str, signature: &str| {
        vec![
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", time.to_owned()),
            ("webhook-signature", signature.to_owned()),
        ]
    };
    let mut requests = vec![
        (with(id, &now.to_string(), &good), true),
        (with(id, &now.to_string(), &format!("{}{good}", "v1,abc= ".repeat(1_000))), true),
        (with(id, &now.to_string(), &format!("v1a,abc {good} v2,abc")), true),
        (with("", &now.to_string(), &signed("", now)), true),
        (with(id, &(now - 310).to_string(), &signed(id, now - 310)), false),
        (with(id, &(now + 310).to_string(), &signed(id, now + 310)), false),
        (with("msg_other", &now.to_string(), &good), false),
        (with("\u{e9}", &now.to_string(), &good), false),
        (with(&"x".repeat(60_000), &now.to_string(), &good), false),
    ];
    for time in [
        String::new(),
        "9".repeat(310),
        "9".repeat(5_000),
        "1".repeat(60_000),
        format!("{now}{}", "0".repeat(300)),
        i64::MAX.to_string(),
        i64::MIN.to_string(),
        format!("-{now}"),
        format!("{now}.5"),
        format!("{now} {now}"),
        "1e9".to_owned(),
        "nan".to_owned(),
        "inf".to_owned(),
        "0x7fffffff".to_owned(),
        "\u{b2}\u{b3}".to_owned(),
        "soon".to_owned(),
    ] {
        requests.push((with(id, &time, &good), false));
    }
    for signature in [
        "",
        "v1",
        "v1,",
        ",",
        " ",
        "v1,@@@@",
        "v1,\u{e9}",
        &good["v1,".len()..],
        &good.replace("v1,", "v2,"),
        &good.replace("v1,", "v1 "),
        &good[..good.len() - 1],
        &format!("{good}="),
        &format!("v1,{}", "A".repeat(60_000)),
        &"v1, ".repeat(10_000),
    ] {
        requests.push((with(id, &now.to_string(), signature), false));
    }
    for missing in 0..3 {
        let mut headers = with(id, &now.to_string(), &good);
        headers.remove(missing);
        requests.push((headers, false));
    }
    requests
}

/// The first example on the page in this language.
fn example(language: &str) -> String {
    let page = page("docs/receiving.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).expect("an example");
    rest.split_once("```").expect("its end").0.to_owned()
}

/// The values that an example in another language returns for each of the requests.
async fn returned(program: &str, arguments: &[&str], script: &str) -> Option<Value> {
    let version = if program == "go" { "version" } else { "--version" };
    let found = Command::new(program).arg(version).stdout(Stdio::null()).status().await;
    if !found.is_ok_and(|status| status.success()) {
        return None;
    }
    let requests: Vec<Value> = requests()
        .into_iter()
        .map(|(headers, _)| headers.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect())
        .collect();
    let file = std::env::temp_dir().join(format!("{}.json", uuid::Uuid::now_v7()));
    std::fs::write(&file, json!({"secret": SECRET, "body": BODY, "requests": requests}).to_string()).expect("written");
    let mut command = Command::new(program);
    // Go refuses to run without a folder for its cache, and CI may have no home folder.
    command.args(arguments).arg(script).arg(&file).env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"));
    let output = command.output().await.expect("it runs");
    std::fs::remove_file(&file).expect("the removal succeeds");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn expected() -> Value {
    requests().into_iter().map(|(_, is_valid)| is_valid).collect()
}

#[tokio::test]
async fn the_python_example_returns_false_for_hostile_headers() {
    let script = example("python")
        + r#"
import json, sys
given = json.load(open(sys.argv[1]))
body = given["body"].encode()
print(json.dumps([verify(given["secret"], headers, body) for headers in given["requests"]]))
# As aiohttp has bytes that are not UTF-8.
for name in "webhook-id", "webhook-timestamp", "webhook-signature":
    assert not verify(given["secret"], given["requests"][0] | {name: "\udce9"}, body)
assert not verify(given["secret"], given["requests"][0] | {"webhook-timestamp": "\u0661\u0662\u0663"}, body)
"#;
    let returned = returned("python3", &["-c"], &script).await;
    assert_eq!(returned.expect("python3 is installed, as for the other examples"), expected());
}

#[tokio::test]
async fn the_node_example_returns_false_for_hostile_headers() {
    let script = example("js").replace("export function", "function")
        + r#"
import { readFileSync } from "node:fs";
const given = JSON.parse(readFileSync(process.argv[1]));
const body = Buffer.from(given.body);
const results = given.requests.map((headers) => verify(given.secret, headers, body));
const bytes = body.buffer.slice(body.byteOffset, body.byteOffset + body.length);
given.requests.forEach((headers, index) => {
  const others = [new Map(Object.entries(headers))];
  // `Headers` refuses values that are not in ISO 8859-1, and trims the others.
  try { others.push(new Headers(headers)); } catch {}
  for (const other of others) for (const content of [body, bytes, new Uint8Array(bytes), given.body]) {
    if (verify(given.secret, other, content) !== results[index]) throw new Error(JSON.stringify(headers).slice(0, 500));
  }
});
console.log(JSON.stringify(results));
"#;
    // Node.js is optional, because only browser tests require it.
    if let Some(returned) = returned("node", &["--input-type=module", "-e"], &script).await {
        assert_eq!(returned, expected());
    }
}

#[tokio::test]
async fn the_go_example_returns_false_for_hostile_headers() {
    let imports = "package main\n\nimport (\n\t\"encoding/json\"\n\t\"os\"\n)\n";
    let script = example("go").replace("package receiver\n", imports)
        + r#"
func main() {
	var given struct {
		Secret, Body string
		Requests     []map[string]string
	}
	file, err := os.ReadFile(os.Args[1])
	if err != nil || json.Unmarshal(file, &given) != nil {
		os.Exit(1)
	}
	results := []bool{}
	for _, request := range given.Requests {
		headers := http.Header{}
		for name, value := range request {
			headers.Set(name, value)
		}
		results = append(results, Verify(given.Secret, headers, []byte(given.Body)))
	}
	json.NewEncoder(os.Stdout).Encode(results)
}
"#;
    let folder = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    std::fs::create_dir(&folder).expect("a folder");
    let program = folder.join("main.go");
    std::fs::write(&program, script).expect("written");
    // Go is optional, because only CI requires it.
    let returned = returned("go", &["run"], program.to_str().expect("UTF-8")).await;
    std::fs::remove_dir_all(&folder).expect("the removal succeeds");
    if let Some(returned) = returned {
        assert_eq!(returned, expected());
    }
}

#[test]
fn the_rust_example_returns_false_for_hostile_headers() {
    assert_eq!(example("rust"), include_str!("receiving/verify.rs"));
    for (headers, is_valid) in requests() {
        let value = |text: String| {
            let bytes: Vec<_> = text.chars().map(|char| u8::try_from(char).expect("ISO 8859-1")).collect();
            HeaderValue::from_bytes(&bytes).expect("a value")
        };
        let headers: HeaderMap =
            headers.into_iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect();
        assert_eq!(verify::verify(SECRET, &headers, BODY.as_bytes()), is_valid, "{headers:.200?}");
    }
}

#[test]
fn the_cipher_suites_are_those_of_deliveries() {
    let page = page("docs/receiving.md");
    let listed: Vec<_> = rows(&page, &["version", "cipher suites"])
        .into_iter()
        .flat_map(|row| super::codes(row[1]).into_iter().map(|(suite, _)| suite).collect::<Vec<_>>())
        .collect();
    let tls = common::webhooks::post::tls(rustls::RootCertStore::empty()).expect("versions");
    let provider = tls.crypto_provider();
    let suites: Vec<_> = provider.cipher_suites.iter().map(|suite| format!("{:?}", suite.suite())).collect();
    assert_eq!(listed, suites);
    let groups: Vec<_> = provider.kx_groups.iter().map(|group| format!("{:?}", group.name())).collect();
    assert_eq!(groups, ["X25519", "secp256r1", "secp384r1"]);
    // The page lists them in one sentence.
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    let schemes: BTreeSet<_> = schemes.iter().map(|scheme| format!("{scheme:?}")).collect();
    let named = [
        "ECDSA_NISTP256_SHA256",
        "ECDSA_NISTP384_SHA384",
        "ED25519",
        "RSA_PKCS1_SHA256",
        "RSA_PKCS1_SHA384",
        "RSA_PKCS1_SHA512",
        "RSA_PSS_SHA256",
        "RSA_PSS_SHA384",
        "RSA_PSS_SHA512",
    ];
    assert_eq!(schemes, named.map(str::to_owned).into());
}
