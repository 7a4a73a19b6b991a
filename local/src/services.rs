//! The embedded AWS services: DynamoDB and SQS, with data in files or in memory, and SES.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use dynoxide::{
    Database, DynoxideError,
    actions::{
        create_table::CreateTableRequest,
        update_time_to_live::{TimeToLiveSpecification, UpdateTimeToLiveRequest},
    },
};
use hyper_util::service::TowerToHyperService;
use rustack_sqs_http::service::{SqsHttpConfig, SqsHttpService};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    embedded::Embedded,
    outbox::Outbox,
    queues::Journal,
    recording::Recording,
    server::{Limits, address, serve},
    template::text,
};

/// The interval between deletions of expired items. On AWS, DynamoDB may take days.
const EXPIRY_INTERVAL: Duration = Duration::from_mins(1);

/// Opens the tables, in the file at `path` or in memory.
pub(crate) fn open_database(path: Option<&Path>) -> Result<Database> {
    let Some(path) = path else { return Ok(Database::memory()?) };
    let path = path.to_str().context("the data directory's name is not UTF-8")?;
    let database = Database::new(path).with_context(|| format!("cannot open {path}"))?;
    // Sets `synchronous = NORMAL`, as for the queues: committed data survives if the process dies, but writes do not
    // wait for the disk. By default, SQLite would wait after each item in a batch.
    database.disable_bulk_loading()?;
    Ok(database)
}

/// Creates missing tables, from their properties in the template.
///
/// # Errors
/// The properties do not describe a table.
pub fn create_tables(database: &Database, tables: &BTreeMap<String, Value>) -> Result<()> {
    for (name, properties) in tables {
        let mut request = properties.clone();
        if let Some(members) = request.as_object_mut() {
            members.insert("TableName".to_owned(), json!(name));
            // Local tables do not need protection.
            members.remove("DeletionProtectionEnabled");
        }
        // The properties have the names and structure of a CreateTable request.
        let request: CreateTableRequest = serde_json::from_value(request).with_context(|| name.clone())?;
        match database.create_table(request) {
            Ok(_) => {}
            Err(DynoxideError::ResourceInUseException(_)) => continue,
            Err(error) => return Err(error).with_context(|| name.clone()),
        }
        if let Some(specification) = properties.get("TimeToLiveSpecification") {
            let time_to_live_specification: TimeToLiveSpecification = serde_json::from_value(specification.clone())?;
            let table_name = name.clone();
            database.update_time_to_live(UpdateTimeToLiveRequest { table_name, time_to_live_specification })?;
        }
    }
    Ok(())
}

/// Creates the queues, from their properties in the template. Returns the URL of each by name.
pub(crate) async fn create_queues(
    client: &aws_sdk_sqs::Client,
    queues: &BTreeMap<String, Value>,
) -> Result<BTreeMap<String, String>> {
    // This client has no timeout, because creating a queue restores all messages from an earlier process.
    let patient = aws_sdk_sqs::config::Config::builder().timeout_config(TimeoutConfig::disabled());
    let mut urls = BTreeMap::new();
    for (name, properties) in queues {
        let mut request = client.create_queue().queue_name(name);
        for (attribute, value) in properties.as_object().into_iter().flatten() {
            request = request.attributes(attribute.as_str().into(), text(value));
        }
        let created = request.customize().config_override(patient.clone()).send().await;
        let created = created.with_context(|| format!("cannot create the queue {name}"))?;
        urls.insert(name.clone(), created.queue_url.context("a queue without a URL")?);
    }
    Ok(urls)
}

/// The running services. Dropping this stops them.
pub(crate) struct Services {
    /// For calls from this process.
    pub(crate) embedded: Embedded,
    /// All emails sent so far.
    pub(crate) mail: Outbox,
    /// Held until the services stop. Dropping it prevents further writes, even if a connection outlives the tasks.
    _journal: Option<Arc<Journal>>,
    _tasks: JoinSet<()>,
    _stop: DropGuard,
}

impl Services {
    /// Starts DynamoDB, SQS and SES. The queues' messages are kept in the file `queues` or, without one, in memory. If
    /// calls to DynamoDB are recorded, expired items stay, because no call would explain their absence in a replay.
    pub(crate) fn start(
        region: &str,
        account: &str,
        database: &Database,
        queues: Option<&Path>,
        recording: Option<Recording>,
        [dynamodb, sqs, ses]: [TcpListener; 3],
        limits: Limits,
    ) -> Result<Self> {
        let (queues, journal) = crate::queues::open(region, account, sqs.local_addr()?.port(), queues)?;
        let embedded = Embedded {
            database: database.clone(),
            recording: recording.map(Arc::new),
            dynamodb: address(&dynamodb)?,
            queues: queues.clone(),
            sqs: address(&sqs)?,
        };
        let config = SqsHttpConfig { region: region.to_owned(), ..Default::default() };
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(dynoxide::server::serve_on(dynamodb, database.clone()));
        if embedded.recording.is_none() {
            tasks.spawn(sweep(database.clone()));
        }
        tasks.spawn(serve(sqs, SqsHttpService::new(Arc::new(queues), config), limits, stop.clone()));

        let mail = Outbox::default();
        tasks.spawn(serve(ses, TowerToHyperService::new(mail.router()), limits, stop.clone()));
        Ok(Self { embedded, mail, _journal: journal, _tasks: tasks, _stop: stop.drop_guard() })
    }
}

async fn sweep(database: Database) {
    let mut timer = tokio::time::interval(EXPIRY_INTERVAL);
    loop {
        timer.tick().await;
        let database = database.clone();
        match tokio::task::spawn_blocking(move || database.sweep_ttl()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "expiry.failed"),
            Err(error) => tracing::warn!(%error, "expiry.failed"),
        }
    }
}
