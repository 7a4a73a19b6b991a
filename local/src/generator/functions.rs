//! The functions with routes, their limits, and the roles and log groups of all functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};
use common::config::Env;
use serde::Deserialize;
use serde_json::Value;

use super::{
    alarms::{self, Watch},
    events, rows,
    text::{camel, indented, list},
};
use crate::{
    functions::{Handler, function_names},
    template,
};

const ROWS: &str = include_str!("../../../template/functions.yaml");
const DASHBOARD: &str = include_str!("../../../template/dashboard.json");
/// The value in the dashboard that stands for each function in turn.
const EACH: &str = "\"EACH FUNCTION\"";

/// The parameter that limits the requests to each route, except where a row names a different one.
const DEFAULT_LIMIT: &str = "RequestsPerSecond";

/// The row of a function. `template/functions.yaml` describes the members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionRow {
    function: String,
    limit: Option<String>,
    #[serde(default)]
    limits: BTreeMap<String, String>,
    memory: Option<u32>,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    events: BTreeMap<String, String>,
    #[serde(default)]
    calls: Vec<Calls>,
}

/// Calls to AWS that a function may make.
#[derive(Deserialize)]
#[serde(untagged)]
enum Calls {
    /// The name of calls that several functions make.
    Shared(Shared),
    /// The operations on resources.
    Own(BTreeMap<String, String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shared {
    Caller,
    Mail,
}

/// The calls that identify a caller by key or session.
const CALLER: [(&str, &str); 3] = [
    ("ApiKeysTable UsersTable", "BatchGetItem"),
    ("ApiKeysTable TokensTable UsersTable", "GetItem"),
    ("ApiKeysTable TokensTable", "UpdateItem"),
];

const FUNCTION: &str = "\
NAMEFunction:
  Type: AWS::Serverless::Function
  Metadata: {BuildMethod: rust-cargolambda, BuildProperties: {Binary: FUNCTION}}
  Properties:
    Role: !GetAtt NAMERole.Arn
    LoggingConfig: {LogGroup: !Ref NAMELogs}
";

const ROLE: &str = "\
NAMERole:
  Type: AWS::IAM::Role
  Properties:
    ManagedPolicyArns:
POLICIES    AssumeRolePolicyDocument:
      Statement: {Effect: Allow, Action: sts:AssumeRole, Principal: {Service: lambda.amazonaws.com}}
    Policies:
      - PolicyName: FUNCTION
        PolicyDocument:
          Statement:
";

const LOGS: &str = "\
NAMELogs:
  Type: AWS::Logs::LogGroup
  Properties:
    LogGroupName: !Sub \"/aws/lambda/${AWS::StackName}/FUNCTION\"
    RetentionInDays: !Ref LogRetentionDays
";

/// SES asks for the permission on the address if it is verified as an identity of its own, even if its domain is verified,
/// too (<https://docs.aws.amazon.com/ses/latest/dg/creating-identities.html>).
const MAIL: &str = "\
- Effect: Allow
  Action: [ses:SendRawEmail]
  Resource:
    - !Sub \"arn:${AWS::Partition}:ses:${AWS::Region}:${AWS::AccountId}:identity/${MailIdentity}\"
    - !Sub \"arn:${AWS::Partition}:ses:${AWS::Region}:${AWS::AccountId}:identity/${MailFrom}\"
    - !Sub \"arn:${AWS::Partition}:ses:${AWS::Region}:${AWS::AccountId}:configuration-set/${MailConfigurationSet}\"
  Condition: {StringEquals: {ses:FromAddress: !Ref MailFrom}}
";

/// The functions, in the order of their rows.
pub(super) struct Functions(Vec<GeneratedFunction>);

struct GeneratedFunction {
    row: FunctionRow,
    comment: String,
    /// The logical id without its suffix, such as `WebhooksCreate`.
    name: String,
    /// The variables that the function reads and that people did not write, with the names that they refer to.
    variables: BTreeMap<String, String>,
    /// The method and path of each route in the API, with the name of its event.
    routes: Vec<(String, String, String)>,
    /// Whether deliveries leave from a VPC.
    is_in_vpc: bool,
    handler: Handler,
}

impl Functions {
    /// Starts each function, to learn its variables and routes. `written` is the template without its generated parts,
    /// and `names` are those that a variable can refer to.
    pub(super) fn read(written: &Value, names: &BTreeSet<String>) -> Result<Self> {
        Self::of(rows::read(ROWS, "functions")?, written, names)
    }

    fn of(rows: Vec<FunctionRow>, written: &Value, names: &BTreeSet<String>) -> Result<Self> {
        let named: BTreeSet<_> = rows.iter().map(|row| row.function.as_str()).collect();
        ensure!(named.len() == rows.len(), "template/functions.yaml has two rows for a function");
        for crate_name in function_names() {
            ensure!(named.contains(crate_name), "functions/{crate_name} has no row in template/functions.yaml");
        }
        let read = |row: FunctionRow| {
            let name = row.function.clone();
            GeneratedFunction::read(row, written, names)
                .with_context(|| format!("the function {name} of template/functions.yaml"))
        };
        let functions = Self(rows.into_iter().map(read).collect::<Result<_>>()?);
        functions.check_precedence()?;
        Ok(functions)
    }

    /// Checks that each route leads to its own function, whether API Gateway prefers the longest of the paths that match a
    /// request, as AWS documents, or a route for the method of the request, as observers report
    /// (<https://github.com/KensioSoftware/yulin/issues/299>).
    fn check_precedence(&self) -> Result<()> {
        let mapped = self.0.iter().flat_map(|function| function.routes.iter().map(move |route| (function, route)));
        for function in &self.0 {
            for route in function.handler.routes() {
                let takes = |(_, (method, path, _)): &(_, &(String, String, _))| {
                    (method == "ANY" || *method == route.method.as_str()) && is_below(route.path, path)
                };
                let length = |path: &str| path.trim_end_matches(REST).len();
                let takers = mapped.clone().filter(takes);
                let by_path = takers.clone().max_by_key(|(_, (_, path, _))| length(path));
                let by_method = takers.max_by_key(|(_, (method, path, _))| (method != "ANY", length(path)));
                for found in [by_path, by_method] {
                    let (found, _) = found.context("a route is not mapped")?;
                    ensure!(
                        found.name == function.name,
                        "API Gateway could send {} of {} to {}",
                        route.path,
                        function.row.function,
                        found.row.function
                    );
                }
            }
        }
        Ok(())
    }

    /// The functions with routes, and the roles and log groups of all functions.
    pub(super) fn resources(&self) -> String {
        let resources = self.0.iter().flat_map(|function| {
            let own = (!function.routes.is_empty()).then(|| function.resource());
            own.into_iter().chain([function.role(), function.filled(LOGS)])
        });
        resources.collect::<Vec<_>>().join("\n")
    }

    /// The settings of the routes that do not have the default limit.
    pub(super) fn limits(&self) -> String {
        let mut text = String::new();
        for function in &self.0 {
            for (method, path, _) in &function.routes {
                let limit = function.row.limit(method, path);
                if limit != DEFAULT_LIMIT {
                    text += &format!(
                        "{method} {path}:\n  DetailedMetricsEnabled: !If [HasDetailedMetrics, true, false]\n  \
                         ThrottlingBurstLimit: !Ref {limit}\n  ThrottlingRateLimit: !Ref {limit}\n"
                    );
                }
            }
        }
        text
    }

    /// The alarms about errors and throttling.
    pub(super) fn alarms(&self) -> Result<String> {
        let watches: Vec<Watch> = rows::read(ROWS, "alarms")?;
        alarms::of_functions(
            &watches,
            &self.0.iter().map(|function| function.row.function.as_str()).collect::<Vec<_>>(),
        )
    }

    /// The body of the dashboard, in which a line for `EACH FUNCTION` becomes a line for every function. Dots stand for
    /// the values of the line above.
    pub(super) fn dashboard(&self) -> String {
        let functions: Vec<_> = self.0.iter().map(|function| format!("\"${{{}Function}}\"", function.name)).collect();
        let functions = functions.join("],\n     [\".\", \".\", \".\", ");
        format!("DashboardBody: !Sub |\n{}", indented(&DASHBOARD.replace(EACH, &functions), 2))
    }

    /// The sample events of the functions with a route under `/v1`.
    pub(super) fn sample_events(&self) -> Result<BTreeMap<String, String>> {
        let routes = self.0.iter().flat_map(|function| {
            let routes = function.handler.routes().filter(|route| route.path.starts_with("/v1/"));
            routes.map(|route| (function.row.function.as_str(), route.path, route.credentials))
        });
        events::samples(routes)
    }

    /// The variables of a function that people wrote.
    pub(super) fn variables(&self, function: &str) -> Result<String> {
        let found = self.0.iter().find(|found| found.row.function == function);
        Ok(found.with_context(|| format!("no function is named {function}"))?.variables())
    }
}

impl FunctionRow {
    /// The parameter that limits the requests to a route. With a limit of its own, a `HEAD` route would let a caller
    /// exceed that of its `GET`.
    fn limit(&self, method: &str, path: &str) -> &str {
        let method = if method == "HEAD" { "GET" } else { method };
        let own = self.limits.get(&format!("{method} {path}")).or_else(|| self.limits.get(path));
        own.or(self.limit.as_ref()).map_or(DEFAULT_LIMIT, String::as_str)
    }

    /// The name of a route's event. It is part of the logical ids of what SAM makes of the event.
    fn event(&self, method: &str, path: &str) -> String {
        let last = path.split('/').rfind(|part| !part.starts_with('{')).unwrap_or_default();
        let page = self.events.get(path).cloned().unwrap_or_else(|| format!("{}Page", camel(last, '-')));
        let route = format!("{}Route", camel(last, '-'));
        match method {
            "ANY" => route,
            _ if self.any.iter().any(|any| any == path) => route + &camel(method, '-'),
            "GET" => page,
            "HEAD" => format!("{page}Head"),
            _ => format!("{}Form", page.trim_end_matches("Page")),
        }
    }

    /// The routes of the API that lead to the function: those of the paths in `any`, and its others.
    ///
    /// A path in `any` also has routes for the methods of the page for unknown paths, so that its requests do not get there:
    /// see [`Functions::check_precedence`].
    fn mapped(&self, routes: &[String]) -> Result<Vec<(String, String, String)>> {
        let routes = routes.iter().filter_map(|route| route.split_once(' '));
        for any in &self.any {
            ensure!(routes.clone().any(|(_, path)| is_below(path, any)), "no route is below {any}");
        }
        let any = self.any.iter().flat_map(|path| ["ANY", "GET", "HEAD"].map(|method| (method, path.as_str())));
        let others = routes.filter(|(_, path)| !self.any.iter().any(|any| is_below(path, any)));
        let mut mapped: Vec<_> =
            any.chain(others).map(|(method, path)| (method, path, self.event(method, path))).collect();
        if let [(_, _, event)] = &mut mapped[..] {
            "Route".clone_into(event);
        }
        let mut names = BTreeSet::new();
        for (method, path, event) in &mapped {
            ensure!(names.insert(event), "{method} {path} needs another name than {event}: add it to `events`");
        }
        for key in self.limits.keys().chain(self.events.keys()) {
            let is_route = |(method, path, _): &(&str, &str, String)| {
                path == key || *method != "HEAD" && *key == format!("{method} {path}")
            };
            ensure!(mapped.iter().any(is_route), "{key} is not a route");
        }
        Ok(mapped.into_iter().map(|(method, path, event)| (method.to_owned(), path.to_owned(), event)).collect())
    }
}

impl GeneratedFunction {
    fn read(row: FunctionRow, written: &Value, names: &BTreeSet<String>) -> Result<Self> {
        ensure!(function_names().any(|name| name == row.function), "functions/{} does not exist", row.function);
        let name = camel(&row.function, '-');
        let comment = rows::comment(ROWS, "function", &row.function);
        let (handler, read) = start(&row.function, written, names)?;
        let routes =
            handler.routes().flat_map(|route| route.methods().iter().map(|method| format!("{method} {}", route.path)));
        let routes = row.mapped(&routes.collect::<Vec<_>>())?;
        let own = written.pointer(&format!("/Resources/{name}Function/Properties"));
        ensure!(
            own.is_some() || !routes.is_empty(),
            "it has no routes, so template.yaml has to contain {name}Function"
        );
        ensure!(own.is_none() || routes.is_empty(), "it has routes, so template.yaml must not contain {name}Function");
        let by_hand = own.and_then(|own| own.pointer("/Environment/Variables")?.as_object());
        for variable in by_hand.into_iter().flat_map(|variables| variables.keys()) {
            ensure!(read.contains(variable), "it does not read {variable}, which template.yaml gives to it");
        }
        let given = read.into_iter().filter(|name| by_hand.is_none_or(|variables| !variables.contains_key(name)));
        let variables = given.map(|variable| (variable.clone(), referred(&variable))).collect();
        let is_in_vpc = own.is_some_and(|own| own.get("VpcConfig").is_some());
        Ok(Self { row, comment, name, variables, routes, is_in_vpc, handler })
    }

    /// Fills the names of the function into `text`.
    fn filled(&self, text: &str) -> String {
        text.replace("NAME", &self.name).replace("FUNCTION", &self.row.function)
    }

    fn resource(&self) -> String {
        let mut text = self.comment.clone() + &self.filled(FUNCTION);
        if let Some(memory) = self.row.memory {
            text += &format!("    MemorySize: {memory}\n");
        }
        text += "    Environment:\n      Variables:\n";
        text += &indented(&self.variables(), 8);
        text += "    Events:\n";
        for (method, path, event) in &self.routes {
            let path = if path.contains('{') { format!("\"{path}\"") } else { path.clone() };
            text += &format!(
                "      {event}:\n        Type: HttpApi\n        \
                 Properties: {{ApiId: !Ref HttpApi, Method: {method}, Path: {path}}}\n"
            );
        }
        text
    }

    fn variables(&self) -> String {
        self.variables.iter().map(|(variable, name)| format!("{variable}: !Ref {name}\n")).collect()
    }

    fn role(&self) -> String {
        let policies = [
            // A function without calls needs no key for tables and queues.
            ("HasEncryptionKey", "EncryptionKeyPolicy", !self.row.calls.is_empty()),
            ("IsTraced", "TracingPolicy", true),
            ("HasEgress", "EgressPolicy", self.is_in_vpc),
        ];
        let policies = policies
            .iter()
            .filter(|(.., is_needed)| *is_needed)
            .map(|(condition, policy, _)| format!("      - !If [{condition}, !Ref {policy}, !Ref AWS::NoValue]\n"));
        let mut statements = String::new();
        for calls in &self.row.calls {
            match calls {
                Calls::Shared(Shared::Mail) => statements += MAIL,
                Calls::Shared(Shared::Caller) => {
                    statements.extend(CALLER.map(|(resources, operations)| statement(resources, operations)));
                }
                Calls::Own(own) => {
                    statements.extend(own.iter().map(|(resources, operations)| statement(resources, operations)));
                }
            }
        }
        let logs = ["logs:CreateLogStream".to_owned(), "logs:PutLogEvents".to_owned()];
        statements += &allowed(&logs, &[format!("!GetAtt {}Logs.Arn", self.name)]);
        self.filled(ROLE).replace("POLICIES", &policies.collect::<String>()) + &indented(&statements, 12)
    }
}

/// The variable at the end of a path that stands for the rest of it.
const REST: &str = "{proxy+}";

fn is_below(path: &str, any: &str) -> bool {
    any.strip_suffix(REST).map_or(path == any, |start| path.starts_with(start))
}

/// Starts a function with the defaults of the parameters. Returns it with the variables that it reads.
fn start(function: &str, written: &Value, names: &BTreeSet<String>) -> Result<(Handler, BTreeSet<String>)> {
    let read = Arc::new(Mutex::new(BTreeSet::new()));
    let reading = Arc::clone(&read);
    let parameters = written.get("Parameters").cloned().unwrap_or_default();
    let env = Env::new(move |name| {
        // Lambda sets these.
        if name.starts_with("AWS_") {
            return (!name.starts_with("AWS_ENDPOINT_URL")).then(|| "x".to_owned());
        }
        reading.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        let default = parameters.get(referred(name)).and_then(|parameter| parameter.get("Default"));
        Some(default.map_or_else(|| "x".to_owned(), template::text))
    });
    let handler = Handler::start(function, &env);
    let read = read.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for variable in &read {
        let name = referred(variable);
        ensure!(names.contains(&name), "it reads {variable}, but template.yaml has no {name}");
    }
    Ok((handler?, read))
}

/// The parameter, table or queue that a variable refers to: `USERS_TABLE` is `UsersTable`, and `DELIVERIES_QUEUE_URL` is
/// `DeliveriesQueue`.
fn referred(variable: &str) -> String {
    let name = camel(variable, '_');
    name.strip_suffix("Url").filter(|queue| queue.ends_with("Queue")).map_or(name.clone(), str::to_owned)
}

/// A statement that permits `operations` on `resources`, each separated by spaces. A resource is a table, a queue, or an
/// index, such as `UsersTable/by-organization`.
fn statement(resources: &str, operations: &str) -> String {
    let service = if resources.ends_with("Queue") { "sqs" } else { "dynamodb" };
    let actions: Vec<_> = operations.split(' ').map(|operation| format!("{service}:{operation}")).collect();
    let arn = |resource: &str| match resource.split_once('/') {
        Some((table, index)) => format!("!Sub \"${{{table}.Arn}}/index/{index}\""),
        None => format!("!GetAtt {resource}.Arn"),
    };
    allowed(&actions, &resources.split(' ').map(arn).collect::<Vec<_>>())
}

fn allowed(actions: &[String], resources: &[String]) -> String {
    let resources = match resources {
        [resource] => format!("Resource: {resource}\n"),
        _ => list("Resource", resources),
    };
    format!("- Effect: Allow\n{}", indented(&(list("Action", actions) + &resources), 2))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(row: Value) -> Result<FunctionRow> {
        Ok(serde_json::from_value(row)?)
    }

    fn problem<T>(result: Result<T>) -> String {
        result.err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_named() -> Result<()> {
        let rows = || rows::read::<FunctionRow>(ROWS, "functions");
        let read = |rows| problem(Functions::of(rows, &json!({}), &BTreeSet::new()));
        let without = rows()?.into_iter().filter(|row| row.function != "docs").collect();
        assert_eq!(read(without), "functions/docs has no row in template/functions.yaml");
        let with = std::iter::once(row(json!({"function": "dogs"}))?).chain(rows()?).collect();
        assert_eq!(read(with), "the function dogs of template/functions.yaml: functions/dogs does not exist");
        let twice = std::iter::once(row(json!({"function": "docs"}))?).chain(rows()?).collect();
        assert_eq!(read(twice), "template/functions.yaml has two rows for a function");
        Ok(())
    }

    #[test]
    fn a_route_that_leads_to_another_function_is_named() -> Result<()> {
        let written = crate::template::parse(include_str!("../../../template.yaml"))?;
        let names = super::super::names(&written)?;
        let row = |function: &str, any: &[&str]| row(json!({"function": function, "any": any}));
        let read = |row| GeneratedFunction::read(row, &json!({"Parameters": written["Parameters"]}), &names);
        let organization = read(row("auth-organization", &["/api/auth/organization/{proxy+}"])?)?;
        let mut functions = Functions(vec![read(row("auth-cli", &["/api/auth/{proxy+}"])?)?, organization]);
        functions.check_precedence()?;
        let path = "/api/auth/organization/invite-member";
        let cli = functions.0.first_mut().context("a function")?;
        cli.routes.push(("ANY".to_owned(), path.to_owned(), "Event".to_owned()));
        let expected = "API Gateway could send /api/auth/organization/invite-member of auth-organization to auth-cli";
        assert_eq!(problem(functions.check_precedence()), expected);
        let organization = functions.0.last_mut().context("a function")?;
        organization.routes = vec![("GET".to_owned(), "/{proxy+}".to_owned(), "Event".to_owned())];
        let cli = functions.0.first_mut().context("a function")?;
        cli.routes = vec![("ANY".to_owned(), "/api/auth/{proxy+}".to_owned(), "Event".to_owned())];
        let expected = "API Gateway could send /api/auth/get-session of auth-cli to auth-organization";
        assert_eq!(problem(functions.check_precedence()), expected);
        Ok(())
    }

    #[test]
    fn a_variable_without_a_parameter_is_named() -> Result<()> {
        let bounces = row(json!({"function": "accounts-bounces"}))?;
        let problem = problem(GeneratedFunction::read(bounces, &json!({}), &BTreeSet::new()));
        assert_eq!(problem, "it reads TOKENS_TABLE, but template.yaml has no TokensTable");
        Ok(())
    }

    #[test]
    fn the_functions_of_an_alarm_are_checked() -> Result<()> {
        let watches: Vec<Watch> = rows::read(ROWS, "alarms")?;
        let functions: Vec<_> = function_names().collect();
        alarms::of_functions(&watches, &functions)?;
        let more: Vec<_> = functions.iter().copied().chain(["dogs"]).collect();
        assert!(problem(alarms::of_functions(&watches, &more)).contains(r#"watches {"dogs"}: add"#));
        let fewer: Vec<_> = functions.into_iter().filter(|name| *name != "docs").collect();
        assert!(problem(alarms::of_functions(&watches, &fewer)).contains("watches docs, which does not exist"));
        Ok(())
    }

    #[test]
    fn routes_have_events_and_limits() -> Result<()> {
        let routes = ["GET /", "HEAD /", "POST /", "GET /a/{id}", "HEAD /a/{id}", "POST /b/c"].map(str::to_owned);
        let page = row(json!({
            "function": "f", "limit": "A", "any": ["/b/{proxy+}"], "events": {"/": "HomePage"},
            "limits": {"GET /": "B", "/a/{id}": "C"},
        }))?;
        let mapped = page.mapped(&routes)?;
        let shown =
            mapped.iter().map(|(method, path, event)| format!("{method} {path} {event} {}", page.limit(method, path)));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "ANY /b/{proxy+} BRoute A",
                "GET /b/{proxy+} BRouteGet A",
                "HEAD /b/{proxy+} BRouteHead A",
                "GET / HomePage B",
                "HEAD / HomePageHead B",
                "POST / HomeForm A",
                "GET /a/{id} APage C",
                "HEAD /a/{id} APageHead C",
            ]
        );
        let single = row(json!({"function": "f"}))?.mapped(&["POST /v1/a/b".to_owned()])?;
        assert_eq!(single, [("POST".to_owned(), "/v1/a/b".to_owned(), "Route".to_owned())]);
        Ok(())
    }

    #[test]
    fn what_fits_no_route_is_named() -> Result<()> {
        let routes = ["POST /a/x", "POST /b/x"].map(str::to_owned);
        let mapped = |members: Value| -> Result<String> {
            let mut value = json!({"function": "f", "events": {"/b/x": "BPage"}});
            value.as_object_mut().context("an object")?.extend(members.as_object().context("an object")?.clone());
            Ok(problem(row(value)?.mapped(&routes)))
        };
        assert_eq!(mapped(json!({}))?, "");
        assert_eq!(mapped(json!({"events": {}}))?, "POST /b/x needs another name than XForm: add it to `events`");
        assert_eq!(mapped(json!({"any": ["/c/{proxy+}"]}))?, "no route is below /c/{proxy+}");
        assert_eq!(mapped(json!({"limits": {"POST /c": "A"}}))?, "POST /c is not a route");
        Ok(())
    }
}
