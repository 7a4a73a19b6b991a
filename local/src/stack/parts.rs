//! The parts of a stack, each built from the template: settings, clients, functions, routes, pollers and schedules.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use anyhow::{Context, Result};
use axum::{Router, http::header, routing::get};
use bytes::Bytes;
use common::{aws::clients::Aws, base_url::BaseUrl, config::Env};
use serde_json::Value;
use tokio::time::MissedTickBehavior;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    functions::Function,
    gateway::{Cors, Gateway},
    mail,
    openapi::{Session, document, published},
    outbox::Outbox,
    poller::Poller,
    requests::RequestCounts,
    template::{ACCOUNT, LocalAddresses, REGION, Schedule, Template},
};

/// The path of the OpenAPI description. Deployments do not serve it.
const DESCRIPTION: &str = "/openapi.json";

/// The location of the tables and the queues.
#[derive(Debug, Clone)]
pub enum Data {
    /// In memory, until the stack stops.
    Memory,
    /// In database files in this directory.
    Directory(PathBuf),
}

/// The template parameters for this machine. Plain http and loopback destinations are allowed, because developers run
/// receivers there.
pub(crate) fn parameters<'a>(api: &'a str, trusted_origins: &'a str) -> [(&'static str, &'a str); 6] {
    [
        ("BaseUrl", api),
        ("TrustedOrigins", trusted_origins),
        ("MailFrom", "mail@example.com"),
        ("MailIdentity", "example.com"),
        ("AllowHttpDestinations", "true"),
        ("AllowedDestinations", "127.0.0.0/8,::1/128"),
    ]
}

/// Returns the API's origin under its other name, and the developer's `TRUSTED_ORIGINS`. They are set as a template
/// parameter, so that functions and CORS agree on them.
pub(super) fn trusted_origins(api: &str, more: String) -> Result<String> {
    let localhost = api.replace("127.0.0.1", "localhost");
    let more = Env::new(move |_| Some(more.clone())).list::<BaseUrl>("TRUSTED_ORIGINS")?;
    let origins = std::iter::once(localhost.as_str()).chain(more.iter().map(BaseUrl::as_str));
    Ok(origins.collect::<Vec<_>>().join(","))
}

/// Returns the variables that Lambda itself sets, with the addresses of the embedded services.
pub(crate) fn lambda_variables(dynamodb: &str, sqs: &str, ses: &str) -> HashMap<String, String> {
    let variables = [
        ("AWS_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb),
        ("AWS_ENDPOINT_URL_SQS", sqs),
        ("AWS_ENDPOINT_URL_SES", ses),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Returns the files for the tables and the queues. Creates them first, because SQLite does not report why it cannot
/// open a file.
pub(super) fn files(data: &Data) -> Result<[Option<PathBuf>; 2]> {
    let Data::Directory(directory) = data else { return Ok([None, None]) };
    let unusable = |path: &Path| format!("cannot write to {}: make it writable, or add --memory", path.display());
    fs::create_dir_all(directory).with_context(|| unusable(directory))?;
    let files = ["dynamodb.sqlite", "sqs.sqlite"].map(|name| directory.join(name));
    for file in &files {
        fs::OpenOptions::new().append(true).create(true).open(file).with_context(|| unusable(file))?;
    }
    Ok(files.map(Some))
}

pub(super) fn clients(
    lambda: HashMap<String, String>,
    requests: &Arc<RequestCounts>,
) -> Result<(aws_sdk_dynamodb::Client, aws_sdk_sqs::Client)> {
    let env = Env::new(move |name| lambda.get(name).cloned()).over(requests.client());
    let aws = Aws::new(&env)?;
    Ok((aws.dynamodb(), aws.sqs()))
}

/// Returns the API's routes and description.
pub(super) fn api_router(template: &Template, functions: &BTreeMap<String, Arc<Function>>) -> Result<Router> {
    let cors = template.cors.as_ref().map(Cors::new).transpose()?;
    let gateway = Gateway { account: ACCOUNT.to_owned(), routes: routes(template, functions), cors };
    // Built on the first request, and shared by all later ones.
    let described = functions.clone();
    let description =
        Arc::new(LazyLock::new(move || Bytes::from(published(&described, Session::OverHttp).to_string())));
    let describe = get(async move || ([(header::CONTENT_TYPE, "application/json")], Bytes::clone(&description)));
    Ok(gateway.router().route(DESCRIPTION, describe))
}

/// Returns the API's OpenAPI 3.1 description, as in `docs/openapi.json`. No service has to be running.
///
/// # Errors
/// The template and the functions do not match.
pub fn openapi() -> Result<Value> {
    Ok(published(&described()?, Session::OverHttps))
}

/// Returns the description for tests, in which objects have no other members.
///
/// # Errors
/// The template and the functions do not match.
pub fn exact_openapi() -> Result<Value> {
    Ok(document(&described()?))
}

/// The functions, without the services that they need to run.
fn described() -> Result<BTreeMap<String, Arc<Function>>> {
    let nowhere = "http://127.0.0.1:0";
    let template = Template::load(&parameters(nowhere, ""), LocalAddresses::new(nowhere, nowhere))?;
    let lambda = lambda_variables(nowhere, nowhere, nowhere);
    functions(&template, &HashMap::new(), &lambda, &Arc::default())
}

pub(super) fn functions(
    template: &Template,
    overrides: &HashMap<String, String>,
    lambda: &HashMap<String, String>,
    requests: &Arc<RequestCounts>,
) -> Result<BTreeMap<String, Arc<Function>>> {
    let arn_prefix = format!("arn:aws:lambda:{REGION}:{ACCOUNT}");
    let functions = template.functions.iter().map(|(name, properties)| {
        let function = Function::new(name, properties, &arn_prefix, overrides, lambda, requests)?;
        Ok((name.clone(), Arc::new(function)))
    });
    functions.collect()
}

fn routes(
    template: &Template,
    functions: &BTreeMap<String, Arc<Function>>,
) -> Vec<(crate::template::Route, Arc<Function>)> {
    let mapped = template.functions.values().zip(functions.values());
    mapped
        .flat_map(|(properties, function)| properties.routes().map(|route| (route.clone(), Arc::clone(function))))
        .collect()
}

pub(super) fn pollers(
    template: &Template,
    functions: &BTreeMap<String, Arc<Function>>,
    queues: &BTreeMap<String, String>,
    client: &aws_sdk_sqs::Client,
) -> Result<BTreeMap<String, Arc<Poller>>> {
    let mut pollers = BTreeMap::new();
    for (properties, function) in template.functions.values().zip(functions.values()) {
        for mapping in properties.mappings() {
            let name = mapping.queue_name().to_owned();
            let poller = Poller {
                mapping: mapping.clone(),
                queue_url: queues.get(&name).with_context(|| format!("there is no queue {name}"))?.clone(),
                region: REGION.to_owned(),
                client: client.clone(),
                function: Arc::clone(function),
            };
            pollers.insert(name, Arc::new(poller));
        }
    }
    Ok(pollers)
}

/// Starts the queues' pollers and the functions' schedules.
pub(super) fn start_polling(
    template: &Template,
    functions: &BTreeMap<String, Arc<Function>>,
    pollers: &BTreeMap<String, Arc<Poller>>,
    sent: &Outbox,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<()> {
    for poller in pollers.values() {
        tasks.spawn(Arc::clone(poller).run(stop.clone()));
    }
    for (properties, function) in template.functions.values().zip(functions.values()) {
        for schedule in properties.schedules() {
            tasks.spawn(tick(schedule.clone(), schedule.period()?, Arc::clone(function), stop.clone()));
        }
        if properties.rules().any(|rule| rule.is_for("aws.ses")) {
            tasks.spawn(mail::simulate(sent.clone(), Arc::clone(function), stop.clone()));
        }
    }
    Ok(())
}

/// Invokes a function on its schedule: immediately, and then after each period.
async fn tick(schedule: Schedule, period: Duration, function: Arc<Function>, stop: CancellationToken) {
    let mut timer = tokio::time::interval(period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while stop.run_until_cancelled(timer.tick()).await.is_some() {
        let invoked = async { function.invoke(schedule.event()?).await };
        if let Err(error) = invoked.await {
            tracing::error!(error = format!("{error:#}"), "schedule.failed");
        }
    }
}
