//! Reads `template.yaml` as CloudFormation does.

mod intrinsics;
mod local_addresses;
mod yaml;

use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

use anyhow::{Context, Result, anyhow};
use common::timestamp::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use intrinsics::Scope;
pub(crate) use intrinsics::text;
pub(crate) use local_addresses::{ACCOUNT, LocalAddresses, REGION, local_name};
pub(crate) use yaml::parse;

/// The template as JSON. It is embedded, so that the binary runs from any folder, and parsed only once per process,
/// because a test run starts hundreds of stacks.
static SOURCE: LazyLock<Result<Value>> = LazyLock::new(|| yaml::parse(include_str!("../../template.yaml")));

/// The template's contents, with all references resolved.
pub(crate) struct Template {
    /// The functions, by name.
    pub(crate) functions: BTreeMap<String, TemplateFunction>,
    /// The CORS configuration of the HTTP API, if it has one.
    pub(crate) cors: Option<CorsConfiguration>,
    /// The properties of each table, by name.
    pub(crate) tables: BTreeMap<String, Value>,
    /// The properties of each queue, by name.
    pub(crate) queues: BTreeMap<String, Value>,
}

/// A function's properties.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TemplateFunction {
    pub(crate) memory_size: i32,
    /// The time in seconds.
    timeout: u64,
    environment: Environment,
    #[serde(default)]
    events: BTreeMap<String, Event>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Environment {
    variables: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "Type", content = "Properties")]
enum Event {
    HttpApi(Route),
    #[serde(rename = "SQS")]
    Sqs(Mapping),
    Schedule(Schedule),
    /// Matching events on EventBridge's default bus.
    #[serde(rename = "EventBridgeRule")]
    Rule(Rule),
}

/// A schedule for EventBridge to invoke a function.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Schedule {
    schedule: String,
    /// The event, unless it is EventBridge's default.
    input: Option<String>,
}

/// The events that EventBridge sends to a function.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Rule {
    pattern: Pattern,
}

#[derive(Clone, Debug, Deserialize)]
struct Pattern {
    source: Vec<String>,
}

/// The requests that API Gateway sends to a function.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Route {
    /// The method, or `ANY` for all methods.
    pub(crate) method: String,
    /// The path, which may end in a greedy variable such as `{proxy+}`.
    pub(crate) path: String,
}

/// The other origins that may call the HTTP API from a browser, and the permitted methods and headers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct CorsConfiguration {
    pub(crate) allow_origins: Vec<String>,
    pub(crate) allow_credentials: bool,
    pub(crate) allow_methods: Vec<String>,
    pub(crate) allow_headers: Vec<String>,
    pub(crate) expose_headers: Vec<String>,
    /// The time in seconds.
    pub(crate) max_age: u32,
}

/// The queue that Lambda polls for a function, with the mapping's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Mapping {
    /// The ARN of the queue.
    pub(crate) queue: String,
    pub(crate) batch_size: i32,
    #[serde(default)]
    pub(crate) function_response_types: Vec<String>,
    pub(crate) scaling_config: ScalingConfig,
}

/// A mapping's limits.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ScalingConfig {
    pub(crate) maximum_concurrency: usize,
}

fn source() -> Result<&'static Value> {
    SOURCE.as_ref().map_err(|error| anyhow!("cannot read the template: {error:#}"))
}

impl Template {
    /// Loads the project's template as deployed at these addresses with `parameters`.
    pub(crate) fn load(parameters: &[(&str, &str)], addresses: LocalAddresses) -> Result<Self> {
        let root = source()?;
        let scope = Scope::new(root, parameters, addresses);
        let mut template =
            Self { functions: BTreeMap::new(), cors: None, tables: BTreeMap::new(), queues: BTreeMap::new() };
        let resources = root.get("Resources").and_then(Value::as_object).context("the template has no Resources")?;
        for (logical, resource) in resources {
            let kind = resource.get("Type").and_then(Value::as_str).unwrap_or_default();
            let properties = resource.get("Properties").unwrap_or(&Value::Null);
            let name = local_name(logical);
            match kind {
                "AWS::Serverless::Function" => {
                    let properties = with_globals(root, properties.clone());
                    let function = scope.evaluate(&properties).and_then(|value| Ok(serde_json::from_value(value)?));
                    template.functions.insert(name, function.with_context(|| logical.clone())?);
                }
                "AWS::Serverless::HttpApi" => {
                    let cors = properties.get("CorsConfiguration").unwrap_or(&Value::Null);
                    let cors = scope.evaluate(cors).and_then(|value| Ok(serde_json::from_value(value)?));
                    template.cors = cors.with_context(|| logical.clone())?;
                }
                "AWS::DynamoDB::Table" => {
                    template.tables.insert(name, scope.evaluate(properties).with_context(|| logical.clone())?);
                }
                "AWS::SQS::Queue" => {
                    template.queues.insert(name, scope.evaluate(properties).with_context(|| logical.clone())?);
                }
                // Other kinds of resources have no local counterpart.
                _ => {}
            }
        }
        Ok(template)
    }
}

/// Returns the template with all references resolved, as if it were deployed with `parameters`, without the resources
/// and outputs whose condition is false.
///
/// # Errors
/// The template cannot be read, or contains a reference that cannot be resolved.
pub fn evaluated(parameters: &[(&str, &str)]) -> Result<Value> {
    let mut root = source()?.clone();
    let scope = Scope::new(source()?, parameters, LocalAddresses::example());
    for section in ["Resources", "Outputs"] {
        let section = root.get_mut(section).and_then(Value::as_object_mut).with_context(|| section.to_owned())?;
        let mut standing = Map::new();
        for (name, entry) in std::mem::take(section) {
            let condition = entry.get("Condition").and_then(Value::as_str);
            if condition.map_or(Ok(true), |condition| scope.named_condition(condition))? {
                standing.insert(name.clone(), scope.evaluate(&entry).context(name)?);
            }
        }
        *section = standing;
    }
    Ok(root)
}

impl TemplateFunction {
    /// Returns the maximum duration of an invocation.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Returns the environment variables from the template.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.environment.variables.iter().map(|(name, value)| (name.clone(), text(value)))
    }

    pub(crate) fn routes(&self) -> impl Iterator<Item = &Route> {
        self.events.values().filter_map(|event| if let Event::HttpApi(route) = event { Some(route) } else { None })
    }

    pub(crate) fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.events.values().filter_map(|event| if let Event::Sqs(mapping) = event { Some(mapping) } else { None })
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.events.values().filter_map(|event| if let Event::Rule(rule) = event { Some(rule) } else { None })
    }

    pub(crate) fn schedules(&self) -> impl Iterator<Item = &Schedule> {
        self.events
            .values()
            .filter_map(|event| if let Event::Schedule(schedule) = event { Some(schedule) } else { None })
    }
}

impl Rule {
    /// Whether the rule is for events from `source`, such as `aws.ses`.
    pub(crate) fn is_for(&self, source: &str) -> bool {
        self.pattern.source.iter().any(|name| name == source)
    }
}

impl Schedule {
    /// Returns the time between two invocations.
    pub(crate) fn period(&self) -> Result<Duration> {
        // The template contains only this kind of schedule.
        let minutes = self.schedule.strip_prefix("rate(").and_then(|rest| rest.split_once(" minute")?.0.parse().ok());
        let minutes: u64 = minutes.with_context(|| format!("the schedule {} is not supported", self.schedule))?;
        Ok(Duration::from_mins(minutes))
    }

    /// Returns the event for an invocation now.
    pub(crate) fn event(&self) -> Result<Value> {
        match &self.input {
            Some(input) => serde_json::from_str(input).context("the input of a schedule is not JSON"),
            None => Ok(json!({"source": "aws.events", "detail-type": "Scheduled Event", "time": Timestamp::now()})),
        }
    }
}

impl Mapping {
    /// Returns the queue's name: the last part of its ARN.
    pub(crate) fn queue_name(&self) -> &str {
        self.queue.rsplit(':').next().unwrap_or_default()
    }

    /// Whether the function reports failed records. If not, Lambda ignores its response.
    pub(crate) fn reports_item_failures(&self) -> bool {
        self.function_response_types.iter().any(|kind| kind == "ReportBatchItemFailures")
    }
}

/// Merges the properties of a function with those in SAM's `Globals` section.
fn with_globals(root: &Value, properties: Value) -> Value {
    merged(root.pointer("/Globals/Function").cloned().unwrap_or_default(), properties)
}

/// Merges two values as SAM does: maps member by member. Of other values, the function's own one wins. (SAM joins lists;
/// the only global list is `Architectures`, which no function has.)
fn merged(global: Value, own: Value) -> Value {
    match (global, own) {
        (Value::Object(mut global), Value::Object(own)) => {
            for (name, value) in own {
                let value = match global.remove(&name) {
                    Some(former) => merged(former, value),
                    None => value,
                };
                global.insert(name, value);
            }
            Value::Object(global)
        }
        (_, own) => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_read() -> Result<()> {
        let template = Template::load(&[("MailFrom", "mail@example.com")], LocalAddresses::example())?;
        let folders = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../functions"))?.count();
        assert_eq!(template.functions.len(), folders);
        assert_eq!(template.tables.len(), 8);
        let queues: Vec<_> = template.queues.keys().map(String::as_str).collect();
        assert_eq!(
            queues,
            [
                "deliveries",
                "deliveries-dead",
                "hanging-deliveries",
                "hanging-deliveries-dead",
                "job-events",
                "job-events-dead",
                "slow-deliveries",
                "slow-deliveries-dead"
            ]
        );

        let deliver = template.functions.get("webhooks-deliver").context("webhooks-deliver")?;
        let polled: Vec<_> = deliver.mappings().map(Mapping::queue_name).collect();
        assert_eq!(polled, ["deliveries", "hanging-deliveries", "job-events", "slow-deliveries"]);
        let variables: BTreeMap<_, _> = deliver.variables().collect();
        assert_eq!(variables.get("DELIVERY_TIMEOUT").map(String::as_str), Some("15"));
        assert_eq!(variables.get("METRICS_NAMESPACE").map(String::as_str), Some("Webhooks/local"), "a global variable");
        assert_eq!(variables.get("WEBHOOK_ENDPOINTS_TABLE").map(String::as_str), Some("webhook-endpoints"));
        Ok(())
    }
}
