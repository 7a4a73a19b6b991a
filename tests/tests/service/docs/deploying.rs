//! docs/deploying.md names the tools that its commands need, and its commands do not leave files in a clone.

use std::collections::BTreeSet;

use serde_json::Value;

use super::page;
use crate::template::{ALL, template};

const PAGE: &str = "docs/deploying.md";

/// The lines in all examples.
fn commands(source: &str) -> impl Iterator<Item = &str> {
    source.split("```").skip(1).step_by(2).flat_map(str::lines).map(str::trim)
}

#[test]
fn the_folders_of_the_tools_are_ignored_by_git() {
    let (source, ignored) = (page(PAGE), page(".gitignore"));
    let made: BTreeSet<_> = commands(&source).filter_map(|line| line.strip_prefix("python3 -m venv ")).collect();
    let made: Vec<_> = made.iter().filter_map(|rest| rest.split(' ').next()).collect();
    assert!(!made.is_empty());
    for folder in made {
        assert!(ignored.lines().any(|line| line == format!("/{folder}")), "{folder} would appear in git status");
    }
}

#[test]
fn the_tools_include_the_aws_cli_in_the_needed_version() {
    let source = page(PAGE);
    assert!(commands(&source).any(|line| line.starts_with("aws logs tail ")), "version 1 lacks this command");
    let tools = source.split("\n## ").find(|section| section.starts_with("Two commands\n")).expect("a section");
    assert!(tools.contains("(`aws`)") && tools.contains("`aws` has to be [version 2]"), "{tools}");
}

#[test]
fn the_permissions_cover_every_service_in_the_template() {
    let source = page(PAGE);
    let (_, policy) = source.split_once("```json\n").expect("a policy");
    let policy: Value = serde_json::from_str(policy.split("```").next().unwrap_or_default()).expect("JSON");
    let allowed: BTreeSet<_> = policy["Action"].as_array().expect("actions").iter().map(tests::text).collect();
    let resources = template(&ALL)["Resources"].clone();
    // DynamoDB and Lambda check that the identity may use the key and see the network that it names.
    for (property, prefix) in [("KMSMasterKeyId", "kms"), ("VpcConfig", "ec2")] {
        let is_named = resources.to_string().contains(&format!("\"{property}\":"));
        assert!(is_named && allowed.contains(&*format!("{prefix}:*")), "{prefix} is missing in {allowed:?}");
    }
    let kinds = resources.as_object().expect("resources").values().map(|resource| tests::text(&resource["Type"]));
    let services: BTreeSet<_> = kinds.map(|kind| kind.split("::").nth(1).unwrap_or_default().to_lowercase()).collect();
    for service in services {
        // AWS SAM creates functions, an API and schedules.
        let prefixes = match &*service {
            "serverless" => vec!["lambda", "apigateway", "events", "iam"],
            "apigatewayv2" => vec!["apigateway"],
            service => vec![service],
        };
        for prefix in prefixes {
            assert!(allowed.contains(&*format!("{prefix}:*")), "{prefix} is missing in {allowed:?}");
        }
    }
}

#[test]
fn the_teardown_ends_the_protection_of_the_stack() {
    let source = page(PAGE);
    assert!(source.contains("update-termination-protection --enable-termination-protection"));
    let (_, teardown) = source.split_once("\n## Teardown\n").expect("a section");
    let at = |command: &str| teardown.find(command).expect(command);
    let end =
        "\naws cloudformation update-termination-protection --no-enable-termination-protection --stack-name $STACK\n";
    assert!(at(end) < at("\naws cloudformation delete-stack "));
}

/// `aws acm wait` fails after five minutes, and a stack with a certificate that is not valid yet is rolled back.
#[test]
fn the_domain_is_deployed_only_with_a_valid_certificate() {
    let source = page(PAGE);
    let (_, after) = source.split_once("aws acm wait certificate-validated").expect("a command");
    let (wait, deploy) = after.split_once('\n').expect("another command");
    assert!(wait.contains(" &&") && deploy.trim_start().starts_with("aws cloudformation deploy"), "{wait}");
}

#[test]
fn the_commands_set_parameters_of_the_template() {
    let source = page(PAGE).replace("\\\n", " ");
    let template = page("template.yaml");
    let lines = commands(&source).filter_map(|line| line.split_once("--parameter-overrides ")).map(|(_, rest)| rest);
    let names: BTreeSet<_> = lines.flat_map(str::split_whitespace).filter_map(|word| word.split_once('=')).collect();
    assert!(names.iter().any(|(name, _)| *name == "CertificateArn"), "{names:?}");
    for (name, _) in names {
        assert!(template.contains(&format!("\n  {name}:\n    Description:")), "{name} is not a parameter");
    }
}
