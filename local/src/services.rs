//! The AWS services that the functions use, embedded: DynamoDB and SQS, with data in files or in memory, and SES.

use std::{collections::BTreeMap, convert::Infallible, error::Error, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use axum::http::Response;
use dynoxide::{
    Database, DynoxideError,
    actions::{
        create_table::CreateTableRequest,
        update_time_to_live::{TimeToLiveSpecification, UpdateTimeToLiveRequest},
    },
};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::HttpService,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustack_ses_core::{
    config::SesConfig, handler::RustackSesHandler, provider::RustackSes, retrospection::EmailStore,
};
use rustack_ses_http::service::{SesHttpConfig, SesHttpService};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinSet,
};

use crate::{queues::Journal, template::text};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How often expired items are removed. DynamoDB itself takes days.
const SWEEP: Duration = Duration::from_secs(60);

/// Listens on loopback only. Port 0 picks a free port.
pub(crate) fn listen(port: u16, flag: &str) -> Result<TcpListener> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        // Accepted connections inherit this. Without it, small responses wait for the client's delayed acknowledgement.
        socket.set_nodelay(true)?;
        socket.bind(([127, 0, 0, 1], port).into())?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot listen on 127.0.0.1:{port}; choose another port with {flag} (0 = any)"))
}

/// `http://127.0.0.1:PORT` of `listener`.
pub(crate) fn address(listener: &TcpListener) -> Result<String> {
    Ok(format!("http://{}", listener.local_addr()?))
}

/// Opens the tables, in the file at `path` or in memory.
pub(crate) fn open_database(path: Option<&Path>) -> Result<Database> {
    let Some(path) = path else { return Ok(Database::memory()?) };
    let path = path.to_str().context("the data directory's name is not UTF-8")?;
    Database::new(path).with_context(|| format!("cannot open {path}"))
}

/// Creates missing tables, from their properties in the template.
///
/// # Errors
/// The properties are not those of a table.
pub fn create_tables(database: &Database, tables: &BTreeMap<String, Value>) -> Result<()> {
    for (name, properties) in tables {
        let mut request = properties.clone();
        if let Some(members) = request.as_object_mut() {
            members.insert("TableName".to_owned(), json!(name));
            // Here tables may be deleted freely.
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
    // The messages of an earlier process are back when the queue is there, however many they are.
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
    /// All mail sent so far.
    pub(crate) mail: Arc<EmailStore>,
    /// Once this is dropped, nothing more is written, even if a connection outlives the tasks.
    _journal: Option<Arc<Journal>>,
    _tasks: JoinSet<()>,
}

impl Services {
    /// Serves DynamoDB, SQS and SES. The messages of the queues are kept in the file `queues`, or in memory only.
    pub(crate) fn start(
        region: &str,
        account: &str,
        database: &Database,
        queues: Option<&Path>,
        [dynamodb, sqs, ses]: [TcpListener; 3],
    ) -> Result<Self> {
        let (queues, journal) = crate::queues::service(region, account, sqs.local_addr()?.port(), queues)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(dynoxide::server::serve_on(dynamodb, database.clone()));
        tasks.spawn(sweep(database.clone()));
        tasks.spawn(serve(sqs, queues));

        // It accepts any sender: verifying one is a step at AWS, not in this project.
        let config = SesConfig { default_region: region.to_owned(), ..Default::default() };
        let outbox = Arc::new(RustackSes::new(config));
        let mail = outbox.email_store().clone();
        let handler = Arc::new(RustackSesHandler::new(outbox));
        tasks.spawn(serve(ses, SesHttpService::new(handler, SesHttpConfig::default())));
        Ok(Self { mail, _journal: journal, _tasks: tasks })
    }
}

/// Serves `service` to every connection on `listener`.
async fn serve<S, B>(listener: TcpListener, service: S)
where
    S: hyper::service::Service<hyper::Request<Incoming>, Response = Response<B>, Error = Infallible>
        + HttpService<Incoming, ResBody = B, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S: HttpService<Incoming, Future: Send>,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Usually out of file descriptors: the next connection that closes frees one.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let connection =
            http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service.clone());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
        });
    }
}

async fn sweep(database: Database) {
    let mut timer = tokio::time::interval(SWEEP);
    loop {
        timer.tick().await;
        let database = database.clone();
        match tokio::task::spawn_blocking(move || database.sweep_ttl()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove expired items"),
            Err(error) => tracing::warn!(%error, "cannot remove expired items"),
        }
    }
}
