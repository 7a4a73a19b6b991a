//! The template leaves a tenth of every AWS quota unused, so further routes can be deployed.
//!
//! CloudFormation counts the resources that SAM generates from the template: an HTTP API has a stage, and each event of
//! a function is a permission, an event source mapping or a rule.

use common::webhooks::event::MAX_MESSAGE_BYTES;
use serde_json::{Map, Value};

use super::{ALL, resources, template, text};

/// Quotas that cannot be raised, except for the routes (as of 2026): CloudFormation's per template, Lambda's for the
/// policy of a function, and API Gateway's per HTTP API.
const RESOURCES: usize = 500;
const OUTPUTS: usize = 200;
const PARAMETERS: usize = 200;
const TEMPLATE_BYTES: usize = 1_000_000;
const POLICY_BYTES: usize = 20_480;
const ROUTES: usize = 300;

/// A statement in a function's policy, without the method and the path. The names come from docs/deploying.md.
const STATEMENT: &str = concat!(
    r#"{"Sid":"webhooks-FunctionPermission-AbCdEfGhIjKl","Effect":"Allow","Principal":{"Service":"apigateway.amazonaws.com"},"#,
    r#""Action":"lambda:InvokeFunction","Resource":"arn:aws:lambda:ap-southeast-1:123456789012:function:webhooks-","#,
    r#""Condition":{"ArnLike":{"AWS:SourceArn":"arn:aws:execute-api:ap-southeast-1:123456789012:abcdefghij/*/"}}},"#,
);

fn is_below(quota: usize, used: usize, name: &str) {
    assert!(used * 10 <= quota * 9, "{name}: {used} of {quota}");
}

/// The events of each function, with its logical id.
fn events(template: &Value) -> Vec<(&str, &Map<String, Value>)> {
    let functions = resources(template, "AWS::Serverless::Function");
    functions.filter_map(|(name, function)| Some((name, function["Properties"]["Events"].as_object()?))).collect()
}

#[test]
fn a_tenth_of_every_quota_of_the_deployment_is_left() {
    let template = template(&ALL);
    let resources_of = |event: &Value| match text(&event["Type"]) {
        "HttpApi" | "SQS" => 1,
        "EventBridgeRule" | "Schedule" => 2,
        other => panic!("count the resources of the event {other}"),
    };
    let of_events: usize = events(&template).iter().flat_map(|(_, events)| events.values()).map(resources_of).sum();
    let stages = resources(&template, "AWS::Serverless::HttpApi").count();
    let written = template["Resources"].as_object().expect("resources").len();
    is_below(RESOURCES, written + stages + of_events, "resources");
    is_below(OUTPUTS, template["Outputs"].as_object().expect("outputs").len(), "outputs");
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml")).expect("a template");
    // SAM's output is a fifth larger.
    is_below(TEMPLATE_BYTES, source.len() * 6 / 5, "bytes");
    let parameters = source.split("\nParameters:\n").nth(1).and_then(|rest| rest.split("\nRules:").next());
    let parameters = parameters.expect("parameters").lines();
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':');
    is_below(PARAMETERS, parameters.filter(is_name).count(), "parameters");
}

#[test]
fn a_tenth_of_each_quota_of_routes_is_left() {
    let template = template(&ALL);
    let mut routes = 0;
    for (name, events) in events(&template) {
        let of_api = || events.iter().filter(|(_, event)| event["Type"] == "HttpApi");
        let statement = |(event, value): (&String, &Value)| {
            let route = &value["Properties"];
            let (method, path) = (text(&route["Method"]), text(&route["Path"]));
            STATEMENT.len() + 2 * name.len() + event.len() + method.len() + path.len()
        };
        is_below(POLICY_BYTES, of_api().map(statement).sum(), &format!("bytes of the policy of {name}"));
        routes += of_api().count();
    }
    is_below(ROUTES, routes, "routes");
}

/// The routes with limits of their own in version 0.1.0.
const RELEASED: [&str; 28] = [
    "ANY /api/auth/organization/{proxy+}",
    "ANY /api/auth/{proxy+}",
    "GET /",
    "GET /api/auth/verify-email",
    "GET /console/account",
    "GET /console/keys",
    "GET /console/settings",
    "GET /console/team",
    "GET /invite",
    "GET /reset-password",
    "GET /signin",
    "GET /verify-email",
    "POST /api/auth/delete-user",
    "POST /api/auth/verify-email",
    "POST /console/account",
    "POST /console/keys",
    "POST /console/settings",
    "POST /console/team",
    "POST /invite",
    "POST /reset-password",
    "POST /signin",
    "POST /v1/auth/acceptInviteAndSignup",
    "POST /v1/auth/cliLoginApprove",
    "POST /v1/auth/cliLoginCreate",
    "POST /v1/auth/requestPasswordReset",
    "POST /v1/auth/signupAndCreateOrg",
    "POST /v1/deliveries/receive",
    "POST /verify-email",
];

/// API Gateway keeps the limits of a route that a deployment removes, and then rejects the deployment:
/// <https://github.com/aws/serverless-application-model/issues/1939>.
#[test]
fn an_update_removes_no_route_with_limits() {
    let template = template(&ALL);
    let limits = template["Resources"]["HttpApi"]["Properties"]["RouteSettings"].as_object().expect("limits");
    let removed: Vec<_> = RELEASED.iter().filter(|route| !limits.contains_key(**route)).collect();
    assert!(removed.is_empty(), "{removed:?}");
    let routes: Vec<_> = events(&template)
        .into_iter()
        .flat_map(|(_, events)| events.values())
        .filter(|event| event["Type"] == "HttpApi")
        .map(|event| format!("{} {}", text(&event["Properties"]["Method"]), text(&event["Properties"]["Path"])))
        .collect();
    let unknown: Vec<_> = limits.keys().filter(|route| !routes.contains(route)).collect();
    assert!(unknown.is_empty(), "API Gateway rejects limits of routes that do not exist: {unknown:?}");
}

/// A retry is a message to the function that sends it. Lambda stops more than 16 in a row, unless the function allows it.
#[test]
fn lambda_does_not_stop_a_row_of_retries() {
    let template = template(&ALL);
    let fed = |events: &Map<String, Value>| events.values().any(|event| event["Type"] == "SQS");
    let fed: Vec<_> = events(&template).into_iter().filter(|(_, events)| fed(events)).map(|(name, _)| name).collect();
    assert!(!fed.is_empty());
    for name in fed {
        assert_eq!(template["Resources"][name]["Properties"]["RecursiveLoop"], "Allow", "{name}");
    }
}

#[test]
fn the_template_limits_messages_like_the_function() {
    let queue = &template(&ALL)["Resources"]["JobEventsQueue"]["Properties"];
    assert_eq!(queue["MaximumMessageSize"], MAX_MESSAGE_BYTES);
}
