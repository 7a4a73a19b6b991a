//! Reads YAML with CloudFormation's short tags as JSON with the long forms: `!Ref Name` becomes `{"Ref": "Name"}`.

use anyhow::{Context, Result, bail};
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Value, json};

/// Parses the single document in `text`.
pub(crate) fn parse(text: &str) -> Result<Value> {
    let documents = Yaml::load_from_str(text)?;
    to_json(documents.first().context("the template is empty")?)
}

fn to_json(node: &Yaml<'_>) -> Result<Value> {
    Ok(match node {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => json!(value),
        Yaml::Value(Scalar::Integer(value)) => json!(value),
        Yaml::Value(Scalar::FloatingPoint(value)) => json!(value.into_inner()),
        Yaml::Value(Scalar::String(value)) => json!(value),
        Yaml::Sequence(items) => Value::Array(items.iter().map(to_json).collect::<Result<_>>()?),
        Yaml::Mapping(members) => {
            let member = |(name, value): (&Yaml<'_>, &Yaml<'_>)| {
                let name = name.as_str().with_context(|| format!("{name:?} cannot be a member's name"))?;
                Ok((name.to_owned(), to_json(value)?))
            };
            Value::Object(members.iter().map(member).collect::<Result<_>>()?)
        }
        Yaml::Tagged(tag, value) => long_form(&tag.suffix, to_json(value)?),
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => bail!("cannot read {node:?}"),
    })
}

fn long_form(tag: &str, value: Value) -> Value {
    match (tag, value) {
        ("Ref" | "Condition", value) => json!({ tag: value }),
        ("GetAtt", Value::String(path)) => {
            json!({ "Fn::GetAtt": path.splitn(2, '.').collect::<Vec<_>>() })
        }
        (tag, value) => json!({ format!("Fn::{tag}"): value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_long_forms() -> Result<()> {
        let parsed =
            parse("a: !Ref Table\nb: !GetAtt Queue.Arn\nc: !Join [\"\", [!Sub \"${A}\", x]]\nd: {e: 1, f: \"1\"}")?;
        assert_eq!(
            parsed,
            json!({
                "a": {"Ref": "Table"},
                "b": {"Fn::GetAtt": ["Queue", "Arn"]},
                "c": {"Fn::Join": ["", [{"Fn::Sub": "${A}"}, "x"]]},
                "d": {"e": 1, "f": "1"},
            })
        );
        Ok(())
    }
}
