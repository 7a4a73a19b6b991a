//! The template agrees with the code and meets operational requirements.

mod data;
mod generated;
mod limits;
mod names;
mod permissions;
mod watching;

use serde_json::{Map, Value};

pub(crate) use tests::text;
pub(crate) use watching::METRICS;

/// The required parameters.
pub(crate) const LEAST: [(&str, &str); 2] = [("MailFrom", "mail@example.com"), ("MailIdentity", "example.com")];
/// The optional parameters that make every condition in the template true.
pub(crate) const ALL: [(&str, &str); 11] = [
    ("MailFrom", "mail@example.com"),
    ("MailIdentity", "example.com"),
    ("DomainName", "api.example.com"),
    ("CertificateArn", "arn:aws:acm:eu-central-1:123456789012:certificate/1"),
    ("HostedZoneId", "Z1"),
    ("TrustedOrigins", "https://app.example.com,https://admin.example.com"),
    ("AlarmTopicArn", "arn:aws:sns:eu-central-1:123456789012:alarms"),
    ("EncryptionKeyArn", KEY),
    ("Tracing", "true"),
    ("EgressSubnetIds", "subnet-0a1b2c3d,subnet-4e5f6a7b"),
    ("EgressSecurityGroupIds", "sg-0a1b2c3d"),
];
const KEY: &str = "arn:aws:kms:eu-central-1:123456789012:key/1";

/// The template as deployed with `parameters`, with all references resolved.
pub(crate) fn template(parameters: &[(&str, &str)]) -> Value {
    local::template(parameters).expect("every reference resolves")
}

/// The resources of a type, with their logical ids.
pub(crate) fn resources<'a>(template: &'a Value, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let resources = template["Resources"].as_object().expect("resources").iter();
    resources.filter(move |(_, resource)| resource["Type"] == kind).map(|(name, resource)| (name.as_str(), resource))
}

/// The functions, by the name of their crate.
pub(crate) fn functions(template: &Value) -> impl Iterator<Item = (&str, &Value)> {
    resources(template, "AWS::Serverless::Function")
        .map(|(_, function)| (text(&function["Metadata"]["BuildProperties"]["Binary"]), &function["Properties"]))
}

pub(crate) fn variables(function: &Value) -> &Map<String, Value> {
    function["Environment"]["Variables"].as_object().expect("variables")
}

/// The ARNs of the queues that Lambda polls for a function.
fn queues(function: &Value) -> impl Iterator<Item = &str> {
    let events = function["Events"].as_object().into_iter().flat_map(Map::values);
    events.filter(|event| event["Type"] == "SQS").map(|event| text(&event["Properties"]["Queue"]))
}

/// The strings in a list, or a single string.
fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map_or_else(|| vec![text(value)], |list| list.iter().map(text).collect())
}

/// The part of the string after the last `separator`.
pub(crate) fn last(text: &str, separator: char) -> &str {
    text.rsplit(separator).next().unwrap_or_default()
}
