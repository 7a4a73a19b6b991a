//! docs/settings.md lists every variable and parameter, with the template's and the functions' defaults and ranges.

use std::collections::{BTreeMap, BTreeSet};

use common::{base_url::BaseUrl, config::Env, presentation::docs::Docs, webhooks::destination::DestinationPolicy};
use local::Handler;
use serde_json::{Value, json};

use super::{code, codes, page, rows};
use crate::template::{LEAST, functions, last, resources, template, text, variables};

const PAGE: &str = "docs/settings.md";
const VARIABLES: [&str; 5] = ["variable", "template parameter", "default", "range", "meaning"];
const PARAMETERS: [&str; 4] = ["parameter", "default", "range", "meaning"];

#[test]
fn every_variable_is_listed_with_its_parameter() {
    let source = page(PAGE);
    let mut listed = BTreeMap::new();
    for row in rows(&source, &VARIABLES) {
        assert_eq!(listed.insert(code(row[0]), code(row[1]).to_owned()), None, "{} is there twice", row[0]);
    }
    // In this template, the value of each parameter is its own name, so the value of a variable is the name of its
    // parameter.
    let least = template(&LEAST);
    let names: Vec<_> = least["Parameters"].as_object().expect("parameters").keys().map(String::as_str).collect();
    let template = template(&names.iter().map(|name| (*name, *name)).collect::<Vec<_>>());
    let mut given = BTreeMap::new();
    for (name, value) in functions(&template).flat_map(|(_, function)| variables(function)) {
        let value = text(value);
        if name == "MAIL_CONFIGURATION_SET" {
            assert_eq!(value, "mail-configuration-set");
            continue;
        }
        if !names.contains(&value) {
            assert_eq!(name.replace('_', ""), resource(&template, value).to_uppercase() + suffix(value), "{name}");
            continue;
        }
        assert_eq!(given.insert(name.as_str(), value.to_owned()).unwrap_or_else(|| value.to_owned()), value, "{name}");
    }
    assert_eq!(listed, given);
}

/// The suffix of the variable that names a resource.
fn suffix(value: &str) -> &str {
    if value.contains('/') { "URL" } else { "" }
}

/// The table with this local name, or the queue with this URL: `api-keys` is `ApiKeysTable`.
fn resource(template: &Value, value: &str) -> String {
    let (kind, suffix) =
        if value.contains('/') { ("AWS::SQS::Queue", "queue") } else { ("AWS::DynamoDB::Table", "table") };
    let wanted = format!("{}{suffix}", last(value, '/').replace('-', ""));
    let found = resources(template, kind).find(|(name, _)| name.to_lowercase() == wanted);
    found.unwrap_or_else(|| unreachable!("no resource is named {value}")).0.to_owned()
}

#[test]
fn every_parameter_is_listed_with_its_default_and_range() {
    let source = page(PAGE);
    // Parameter, default and range.
    let of_variables = rows(&source, &VARIABLES).into_iter().map(|row| [row[1], row[2], row[3]]);
    let others = rows(&source, &PARAMETERS).into_iter().map(|row| [row[0], row[1], row[2]]);
    let template = template(&LEAST);
    let parameters = template["Parameters"].as_object().expect("parameters");
    let mut listed = BTreeSet::new();
    for [name, default, range] in of_variables.chain(others) {
        let name = code(name);
        assert!(listed.insert(name), "{name} is listed twice");
        let parameter = parameters.get(name).unwrap_or_else(|| unreachable!("the template has no {name}"));
        assert_eq!(parameter.get("Default").map(text_of), self::default(default), "default of {name}");
        if let Some(allowed) = parameter.get("AllowedValues") {
            let allowed: Vec<_> = allowed.as_array().expect("a list").iter().map(text_of).collect();
            let named: Vec<_> = codes(range).into_iter().map(|(value, _)| value.to_owned()).collect();
            let ends = || numbers(range).iter().map(u64::to_string).collect::<Vec<_>>();
            let fits = if named.is_empty() {
                ends() == [allowed[0].clone(), allowed[allowed.len() - 1].clone()]
            } else {
                named == allowed
            };
            assert!(fits, "{name} must be one of {allowed:?}, not {range}");
        } else if parameter["Type"] == "Number" {
            // The template can be stricter than the function. In that case, the page says `A to B; in the template C at
            // least`.
            let (least, most) = match numbers(range)[..] {
                [_, high, least] if range.ends_with("at least") => (least, high),
                [low, _, most] if range.ends_with("at most") => (low, most),
                [low, high] => (low, high),
                _ => unreachable!("{name} has the range {range}"),
            };
            assert_eq!(
                (&parameter["MinValue"], &parameter["MaxValue"]),
                (&Value::from(least), &Value::from(most)),
                "range of {name}"
            );
        }
    }
    assert_eq!(listed, parameters.keys().map(String::as_str).collect());
}

/// A default on the page: `None` if there is none, or empty if the page describes the default in words.
fn default(cell: &str) -> Option<String> {
    match codes(cell)[..] {
        [(value, "")] => Some(value.to_owned()),
        _ if cell == "must be given" => None,
        _ if cell.parse::<u64>().is_ok() => Some(cell.to_owned()),
        _ => Some(String::new()),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The numbers in `text`.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[test]
fn functions_accept_the_ends_of_ranges_and_nothing_beyond() {
    let source = page(PAGE);
    for row in rows(&source, &VARIABLES) {
        let (name, range) = (code(row[0]), row[3]);
        match numbers(range)[..] {
            [most, low, high] if range.starts_with("up to") => {
                let list = |value: u64, count: u64| {
                    vec![value.to_string(); usize::try_from(count).expect("it fits")].join(",")
                };
                starts(name, "");
                starts(name, &list(low, most));
                starts(name, &list(high, most));
                refused(name, &list(low, most + 1), "");
                refused(name, &list(high + 1, 1), &format!("from {low} to {high}"));
            }
            [low, high, ..] => {
                starts(name, &low.to_string());
                starts(name, &high.to_string());
                if let Some(below) = low.checked_sub(1) {
                    refused(name, &below.to_string(), &format!("from {low} to {high}"));
                }
                refused(name, &(high + 1).to_string(), &format!("from {low} to {high}"));
            }
            _ => {}
        }
        match name {
            // Only SES can tell whether a sender is valid.
            "MAIL_FROM" => {}
            // The header of an email cannot contain this value.
            "SERVICE_NAME" => refused(name, "a \"b\"", ""),
            _ => refused(name, "?", ""),
        }
    }
}

/// A deployment with such a value would replace functions by ones that do not start.
#[test]
fn the_template_refuses_what_functions_refuse() {
    let template = template(&LEAST);
    let allows = |parameter: &str, value: &str| {
        let pattern = &template["Parameters"][parameter]["AllowedPattern"];
        jsonschema::is_valid(&json!({"pattern": pattern}), &json!(value))
    };
    let twenty = ["86400"; 20].join(",");
    for good in ["", "0", "5,300", "9999", "79999", "80000", "86399", &twenty] {
        assert!(allows("RetrySchedule", good), "{good}");
        starts("RETRY_SCHEDULE", good);
    }
    for bad in ["86401", "86410", "86500", "87000", "90000", "5,99999", "100000", "5,", &format!("{twenty},0")] {
        assert!(!allows("RetrySchedule", bad), "{bad}");
    }
    for (parameter, variable) in [("BaseUrl", "BASE_URL"), ("TrustedOrigins", "TRUSTED_ORIGINS")] {
        assert!(allows(parameter, "") && allows(parameter, "http://localhost:9000"), "{parameter}");
        for bad in ["https://*.example.com", "https://a@example.com", "https://example.com?a", "https://example.com/a"]
        {
            assert!(!allows(parameter, bad), "{bad}");
            refused(variable, bad, "");
        }
    }
}

#[test]
fn patterns_allow_only_what_the_parsers_accept() {
    let of_urls = "http:// https:// / a a.example.com 1 .1 .a 256 0x7f 1.2.3.4 1.2.3.256 08.1.1.1 [::1] : :0 :443 :65535 \
                   :65536 ? # @ * , \\ % - ä";
    let of_ranges = "10.0.0.0 1.2.3 256.0.0.0 08.0.0.0 1:2:3:4:5:6:7 :: : fd00 fffff . /0 /32 /33 /128 /129 /08 / ,";
    type Parser = fn(&Env) -> bool;
    let base_url: Parser = |env| BaseUrl::from_env(env).is_ok();
    let origins: Parser = |env| env.list::<BaseUrl>("TRUSTED_ORIGINS").is_ok();
    let docs: Parser = |env| Docs::from_env(env).is_ok();
    let ranges: Parser = |env| DestinationPolicy::from_env(env).is_ok();
    let cases: [(&str, &str, Parser, &str); 4] = [
        ("BaseUrl", of_urls, base_url, "https://api.example.com/ http://10.1.2.3:9000"),
        ("TrustedOrigins", of_urls, origins, "https://a_b.example.com http://127.0.0.1:3000,https://x:65535"),
        ("DocsUrl", of_urls, docs, "/ /openapi.json https://example.com http://example.com:8080/a?b=/#c"),
        ("AllowedDestinations", of_ranges, ranges, "10.0.0.0/8 ::1/128,0.0.0.0/0 fd00::/8 1::2:0:3/64"),
    ];
    let template = template(&LEAST);
    for (parameter, parts, accepts, good) in cases {
        let pattern = &template["Parameters"][parameter]["AllowedPattern"];
        let pattern = jsonschema::validator_for(&json!({ "pattern": pattern })).expect("a pattern");
        let allows = |value: &str| pattern.is_valid(&json!(value));
        assert!(allows("") && good.split(' ').all(allows), "{parameter}: {good}");
        let mut values = vec![String::new()];
        for _ in 0..4 {
            // A value that begins like no allowed one does not become allowed.
            let longer = values.iter().flat_map(|value| parts.split(' ').map(move |part| format!("{value}{part}")));
            values = longer.filter(|value| value.starts_with(['h', '/', '1', '0', ':', 'f'])).collect();
            for value in values.iter().filter(|value| allows(value)) {
                let given = value.clone();
                let env = Env::new(move |name| {
                    Some(if name == "ALLOW_HTTP_DESTINATIONS" { "true".to_owned() } else { given.clone() })
                });
                assert!(accepts(&env), "{parameter} allows {value}");
            }
        }
    }
}

fn starts(variable: &str, value: &str) {
    for (function, started) in start(variable, value) {
        started.unwrap_or_else(|error| unreachable!("{function} does not start with {variable}={value}: {error:#}"));
    }
}

fn refused(variable: &str, value: &str, problem: &str) {
    for (function, started) in start(variable, value) {
        let error = started.err().unwrap_or_else(|| unreachable!("{function} starts with {variable}={value}"));
        let error = format!("{error:#}");
        assert!(error.contains(variable) && error.contains(problem), "{function}, {variable}={value}: {error}");
    }
}

/// Starts every function that uses this variable, with this value and the template's values for all other variables.
fn start(variable: &str, value: &str) -> Vec<(String, anyhow::Result<Handler>)> {
    let template = template(&LEAST);
    let users = functions(&template).filter(|(_, function)| variables(function).contains_key(variable));
    let started = users.map(|(name, function)| {
        let mut variables = variables(function).clone();
        variables.insert(variable.to_owned(), value.into());
        let env = Env::new(move |name| match name {
            "AWS_REGION" | "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("x".to_owned()),
            name => Some(text(variables.get(name)?).to_owned()),
        });
        (name.to_owned(), Handler::start(name, &env))
    });
    started.collect()
}
