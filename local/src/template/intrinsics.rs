//! Evaluates CloudFormation's intrinsic functions, such as `Ref` and `Fn::Sub`.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use super::local_addresses::{ACCOUNT, LocalAddresses, REGION, local_name};

/// The names that intrinsic functions in a template can refer to.
pub(crate) struct Scope {
    resources: HashMap<String, String>,
    parameters: HashMap<String, String>,
    conditions: Map<String, Value>,
    addresses: LocalAddresses,
}

impl Scope {
    /// Returns the scope of the template `root`. `overrides` replace the defaults of its parameters.
    pub(crate) fn new(root: &Value, overrides: &[(&str, &str)], addresses: LocalAddresses) -> Self {
        let section = |name: &str| root.get(name).and_then(Value::as_object);
        let mut parameters: HashMap<_, _> = section("Parameters")
            .into_iter()
            .flatten()
            .filter_map(|(name, parameter)| Some((name.clone(), text(parameter.get("Default")?))))
            .collect();
        parameters.extend(overrides.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        let resources = section("Resources")
            .into_iter()
            .flatten()
            .filter_map(|(name, resource)| Some((name.clone(), resource.get("Type")?.as_str()?.to_owned())))
            .collect();
        Self { resources, parameters, conditions: section("Conditions").cloned().unwrap_or_default(), addresses }
    }

    /// Replaces every intrinsic function in `value` with its result.
    pub(crate) fn evaluate(&self, value: &Value) -> Result<Value> {
        match value {
            Value::Object(members) => match members.iter().next() {
                Some((name, argument)) if members.len() == 1 && is_intrinsic(name, argument) => {
                    self.intrinsic(name, argument).with_context(|| format!("in {value}"))
                }
                _ => {
                    let evaluated = members.iter().map(|(name, value)| Ok((name.clone(), self.evaluate(value)?)));
                    // Null stands for `AWS::NoValue`, which removes the member. CloudFormation uses no other nulls.
                    let kept = evaluated.filter(|member| !matches!(member, Ok((_, Value::Null))));
                    Ok(Value::Object(kept.collect::<Result<_>>()?))
                }
            },
            Value::Array(items) => {
                let evaluated = items.iter().map(|item| self.evaluate(item));
                let kept = evaluated.filter(|item| !matches!(item, Ok(Value::Null)));
                Ok(Value::Array(kept.collect::<Result<_>>()?))
            }
            scalar => Ok(scalar.clone()),
        }
    }

    fn intrinsic(&self, name: &str, argument: &Value) -> Result<Value> {
        match name {
            "Ref" => self.reference(argument.as_str().context("Ref needs a name")?),
            "Condition" => Ok(json!(self.condition(argument)?)),
            "Fn::GetAtt" => match list(argument)? {
                [Value::String(resource), Value::String(attribute)] => self.attribute(resource, attribute),
                _ => bail!("Fn::GetAtt needs a resource and an attribute"),
            },
            "Fn::Sub" => match argument {
                Value::String(pattern) => self.substitute(pattern, &Map::new()),
                Value::Array(_) => match list(argument)? {
                    [Value::String(pattern), Value::Object(names)] => self.substitute(pattern, names),
                    _ => bail!("Fn::Sub needs a string, or a string and a mapping"),
                },
                _ => bail!("Fn::Sub needs a string, or a string and a mapping"),
            },
            "Fn::Join" => match list(argument)? {
                [Value::String(separator), items] => {
                    let items = self.evaluate(items)?;
                    let texts: Vec<_> = list(&items)?.iter().map(text).collect();
                    Ok(json!(texts.join(separator)))
                }
                _ => bail!("Fn::Join needs a separator and a list"),
            },
            "Fn::If" => match list(argument)? {
                [Value::String(name), then, otherwise] => {
                    self.evaluate(if self.named_condition(name)? { then } else { otherwise })
                }
                _ => bail!("Fn::If needs a condition and two values"),
            },
            "Fn::Equals" => match list(argument)? {
                [left, right] => Ok(json!(text(&self.evaluate(left)?) == text(&self.evaluate(right)?))),
                _ => bail!("Fn::Equals needs two values"),
            },
            "Fn::Not" => match list(argument)? {
                [condition] => Ok(json!(!self.condition(condition)?)),
                _ => bail!("Fn::Not needs a list of one condition"),
            },
            "Fn::And" => {
                let conditions = list(argument)?.iter().map(|condition| self.condition(condition));
                Ok(json!(conditions.collect::<Result<Vec<_>>>()?.into_iter().all(|holds| holds)))
            }
            "Fn::Split" => match list(argument)? {
                [Value::String(separator), joined] => {
                    Ok(text(&self.evaluate(joined)?).split(separator.as_str()).map(|part| json!(part)).collect())
                }
                _ => bail!("Fn::Split needs a separator and a string"),
            },
            other => bail!("{other} is a function that the local runner does not support"),
        }
    }

    fn condition(&self, value: &Value) -> Result<bool> {
        match value {
            Value::String(name) => self.named_condition(name),
            other => self.evaluate(other)?.as_bool().with_context(|| format!("{other} is not a condition")),
        }
    }

    pub(crate) fn named_condition(&self, name: &str) -> Result<bool> {
        self.condition(self.conditions.get(name).with_context(|| format!("there is no condition {name}"))?)
    }

    fn reference(&self, name: &str) -> Result<Value> {
        if let Some(value) = self.parameters.get(name) {
            return Ok(json!(value));
        }
        Ok(match name {
            "AWS::NoValue" => Value::Null,
            "AWS::Region" => json!(REGION),
            "AWS::AccountId" => json!(ACCOUNT),
            "AWS::Partition" => json!("aws"),
            "AWS::URLSuffix" => json!("amazonaws.com"),
            "AWS::StackName" => json!("local"),
            name => match self.kind(name)? {
                "AWS::SQS::Queue" => json!(format!("{}/{ACCOUNT}/{}", self.addresses.sqs, local_name(name))),
                _ => json!(local_name(name)),
            },
        })
    }

    fn attribute(&self, resource: &str, attribute: &str) -> Result<Value> {
        let name = local_name(resource);
        Ok(json!(match (self.kind(resource)?, attribute) {
            ("AWS::SQS::Queue", "Arn") => format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"),
            ("AWS::SQS::Queue", "QueueName") => name,
            ("AWS::DynamoDB::Table", "Arn") => format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"),
            ("AWS::Serverless::Function", "Arn") => format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"),
            ("AWS::Serverless::HttpApi", "ApiEndpoint") => self.addresses.api.clone(),
            ("AWS::IAM::Role", "Arn") => format!("arn:aws:iam::{ACCOUNT}:role/{name}"),
            ("AWS::Logs::LogGroup", "Arn") => format!("arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*"),
            ("AWS::ApiGatewayV2::DomainName", "RegionalDomainName" | "RegionalHostedZoneId") => attribute.to_owned(),
            (kind, attribute) => bail!("{kind} has no {attribute} here"),
        }))
    }

    fn kind(&self, name: &str) -> Result<&str> {
        let kind = self.resources.get(name);
        kind.map(String::as_str)
            .with_context(|| format!("there is no parameter or resource {name}, or no value for it"))
    }

    fn substitute(&self, pattern: &str, names: &Map<String, Value>) -> Result<Value> {
        let mut result = String::new();
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').context("unclosed ${")?;
            result.push_str(before);
            if let Some(literal) = name.strip_prefix('!') {
                result.push_str(&format!("${{{literal}}}"));
            } else if let Some(value) = names.get(name) {
                result.push_str(&text(&self.evaluate(value)?));
            } else if let Some((resource, attribute)) = name.split_once('.') {
                result.push_str(&text(&self.attribute(resource, attribute)?));
            } else {
                result.push_str(&text(&self.reference(name)?));
            }
            rest = after;
        }
        result.push_str(rest);
        Ok(json!(result))
    }
}

/// Formats `value` as CloudFormation does inside a string.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a member is an intrinsic function. `Condition` is also an ordinary member of policy statements; its value
/// there is not a name.
fn is_intrinsic(name: &str, argument: &Value) -> bool {
    name == "Ref" || name.starts_with("Fn::") || name == "Condition" && argument.is_string()
}

fn list(value: &Value) -> Result<&[Value]> {
    value.as_array().map(Vec::as_slice).with_context(|| format!("{value} is not a list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(value: &Value) -> Result<Value> {
        let root = json!({
            "Parameters": {"Stage": {"Default": "test"}, "Limit": {"Default": 5}, "From": {}},
            "Conditions": {
                "IsTest": {"Fn::Equals": [{"Ref": "Stage"}, "test"]},
                "IsReal": {"Fn::Not": [{"Condition": "IsTest"}]},
            },
            "Resources": {
                "DeadQueue": {"Type": "AWS::SQS::Queue"},
                "ApiKeysTable": {"Type": "AWS::DynamoDB::Table"},
            },
        });
        Scope::new(&root, &[("From", "a@b.c")], LocalAddresses::example()).evaluate(value)
    }

    #[test]
    fn references() -> Result<()> {
        assert_eq!(evaluate(&json!({"Ref": "Limit"}))?, json!("5"));
        assert_eq!(evaluate(&json!({"Ref": "From"}))?, json!("a@b.c"));
        assert_eq!(evaluate(&json!({"Ref": "ApiKeysTable"}))?, json!("api-keys"));
        assert_eq!(evaluate(&json!({"Ref": "DeadQueue"}))?, json!("http://127.0.0.1:9324/123456789012/dead"));
        let arn = json!("arn:aws:sqs:eu-central-1:123456789012:dead");
        assert_eq!(evaluate(&json!({"Fn::GetAtt": ["DeadQueue", "Arn"]}))?, arn);
        assert!(evaluate(&json!({"Ref": "Nothing"})).is_err());
        Ok(())
    }

    #[test]
    fn texts() -> Result<()> {
        let sub = json!({"Fn::Sub": ["${Stage}-${x}-${!y}-${DeadQueue.QueueName}", {"x": {"Ref": "Limit"}}]});
        assert_eq!(evaluate(&sub)?, json!("test-5-${y}-dead"));
        assert_eq!(evaluate(&json!({"Fn::Join": ["/", ["a", {"Ref": "Stage"}]]}))?, json!("a/test"));
        assert_eq!(evaluate(&json!({"Fn::Split": [".", "a.b"]}))?, json!(["a", "b"]));
        Ok(())
    }

    #[test]
    fn conditions() -> Result<()> {
        assert_eq!(evaluate(&json!({"Fn::If": ["IsTest", 1, 2]}))?, json!(1));
        assert_eq!(evaluate(&json!({"Fn::If": ["IsReal", 1, 2]}))?, json!(2));
        assert_eq!(evaluate(&json!({"Fn::And": [{"Condition": "IsTest"}, {"Condition": "IsTest"}]}))?, json!(true));
        assert_eq!(evaluate(&json!({"Fn::And": [{"Condition": "IsTest"}, {"Condition": "IsReal"}]}))?, json!(false));
        let gone = json!({"a": {"Fn::If": ["IsReal", 1, {"Ref": "AWS::NoValue"}]}, "b": [{"Ref": "AWS::NoValue"}, 1]});
        assert_eq!(evaluate(&gone)?, json!({"b": [1]}));
        let statement = json!({"Condition": {"StringEquals": {"a": "b"}}});
        assert_eq!(evaluate(&statement)?, statement);
        Ok(())
    }
}
