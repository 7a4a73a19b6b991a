//! The stack: everything in the template, started and connected.

mod parts;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::parts::{Data, exact_openapi, openapi};
use self::parts::{api_router, clients, files, functions, pollers, start_polling, trusted_origins};
pub(crate) use self::parts::{lambda_variables, parameters};
use crate::{
    demo_tenant::{self, DemoTenant},
    functions::Function,
    inbox::Inbox,
    mail,
    poller::Poller,
    recording::Recording,
    requests::RequestCounts,
    server::{self, Limits, serve},
    services::{self, Services},
    template::{ACCOUNT, LocalAddresses, REGION, Template},
};

/// The time that `stop` waits for running work, which is longer than any delivery takes.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// The options of a stack.
#[derive(Debug, Clone)]
pub struct Options {
    /// The location of the tables and the queues.
    pub data: Data,
    /// The ports to listen on.
    pub ports: Ports,
    /// Environment variables that override values from the template and from Lambda. A function gets only the variables
    /// that the template or Lambda sets for it. `TRUSTED_ORIGINS` adds to the origins that the stack trusts by default.
    pub env: HashMap<String, String>,
    /// Whether to poll the queues and run the schedules. If not, messages stay in their queue until [`Stack::poll`] is
    /// called, and scheduled functions run only when invoked.
    pub poll: bool,
    /// The time limits for clients, except DynamoDB's.
    pub limits: Limits,
    /// Whether to create a demo tenant and serve the link that signs in to it.
    pub demo_data: bool,
    /// The file for the functions' calls to DynamoDB, if they are recorded. It must not exist.
    pub record: Option<PathBuf>,
}

/// The loopback ports to listen on. 0 selects a free port.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ports {
    /// The HTTP API.
    pub api: u16,
    /// DynamoDB.
    pub dynamodb: u16,
    pub sqs: u16,
    /// The page with the sent emails.
    pub mail: u16,
    /// The inbox: a receiver for webhooks.
    pub inbox: u16,
}

/// In memory, on free ports, with polling and the values from the template.
impl Default for Options {
    fn default() -> Self {
        Self {
            data: Data::Memory,
            ports: Ports::default(),
            env: HashMap::new(),
            poll: true,
            limits: Limits::default(),
            demo_data: false,
            record: None,
        }
    }
}

/// The running service.
pub struct Stack {
    addresses: Addresses,
    demo_tenant: Option<DemoTenant>,
    queues: BTreeMap<String, String>,
    tables: BTreeMap<String, String>,
    dynamodb_client: aws_sdk_dynamodb::Client,
    sqs_client: aws_sdk_sqs::Client,
    functions: BTreeMap<String, Arc<Function>>,
    pollers: BTreeMap<String, Arc<Poller>>,
    requests: Arc<RequestCounts>,
    stop: CancellationToken,
    tasks: TaskTracker,
    _services: Services,
}

impl Stack {
    /// Starts the service. Once this returns, all parts are ready for requests.
    ///
    /// # Errors
    /// A port is in use, the data cannot be opened, or the template and the functions do not match.
    pub async fn start(options: Options) -> Result<Self> {
        let Options { data, ports, mut env, poll, limits, demo_data, record } = options;
        let listeners = Listeners::bind(ports)?;
        let addresses = listeners.addresses()?;
        let Addresses { api, dynamodb, sqs, .. } = &addresses;

        let lambda = lambda_variables(dynamodb, sqs, &server::address(&listeners.ses)?);
        let trusted = trusted_origins(api, env.remove("TRUSTED_ORIGINS").unwrap_or_default())?;
        let template = Template::load(&parameters(api, &trusted), LocalAddresses::new(api, sqs))?;

        let [tables, queues] = files(&data)?;
        let database = services::open_database(tables.as_deref())?;
        services::create_tables(&database, &template.tables)?;
        let aws = [listeners.dynamodb, listeners.sqs, listeners.ses];
        let recording = record.as_deref().map(Recording::create).transpose()?;
        let services = Services::start(REGION, ACCOUNT, &database, queues.as_deref(), recording, aws, limits)?;

        let requests = Arc::new(RequestCounts::to(services.embedded.clone()));
        let (dynamodb_client, sqs_client) = clients(lambda.clone(), &requests)?;
        let queues = services::create_queues(&sqs_client, &template.queues).await?;
        let functions = functions(&template, &env, &lambda, &requests)?;
        let pollers = pollers(&template, &functions, &queues, &sqs_client)?;

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let mut api_router = api_router(&template, &functions)?;
        let demo_api = demo_data.then(|| demo_tenant::Api::new(api_router.clone(), api));
        if let Some(demo_api) = &demo_api {
            api_router = api_router.route(demo_tenant::PATH, demo_tenant::sign_in(demo_api.clone()));
        }
        let webhooks = Inbox::new(&addresses.inbox, stop.clone());
        let mail = (listeners.mail, mail::router(services.mail.clone(), &addresses.mail));
        for (listener, router) in [(listeners.api, api_router), mail, (listeners.inbox, webhooks.router())] {
            tasks.spawn(serve(listener, TowerToHyperService::new(router), limits, stop.clone()));
        }
        let demo_tenant = match &demo_api {
            Some(demo_api) => {
                let tools = demo_tenant::Tools {
                    api: demo_api,
                    mail: &services.mail,
                    inbox: &webhooks,
                    deliver: functions.get("webhooks-deliver").context("there is no function webhooks-deliver")?,
                    requests: &requests,
                    sqs: &sqs_client,
                    queues: &queues,
                };
                Some(demo_tenant::make(tools).await.context("cannot create the demo tenant")?)
            }
            None => None,
        };
        // Polling begins only after the demo tenant's past has been created.
        if poll {
            start_polling(&template, &functions, &pollers, &services.mail, &tasks, &stop)?;
        }
        Ok(Self {
            addresses,
            demo_tenant,
            queues,
            tables: template.tables.into_keys().map(|name| (name.clone(), name)).collect(),
            dynamodb_client,
            sqs_client,
            functions,
            pollers,
            requests,
            stop,
            tasks,
            _services: services,
        })
    }

    /// Returns the URL of the HTTP API: `http://127.0.0.1:PORT`.
    pub fn api(&self) -> &str {
        &self.addresses.api
    }

    /// Returns the endpoint of DynamoDB.
    pub fn dynamodb(&self) -> &str {
        &self.addresses.dynamodb
    }

    /// Returns the endpoint of SQS.
    pub fn sqs(&self) -> &str {
        &self.addresses.sqs
    }

    /// Returns the URL of the page with the sent emails.
    pub fn mail(&self) -> &str {
        &self.addresses.mail
    }

    /// Returns the URL of the inbox, which accepts webhooks at any path.
    pub fn inbox(&self) -> &str {
        &self.addresses.inbox
    }

    /// Returns the demo tenant, if it was requested.
    pub fn demo_tenant(&self) -> Option<&DemoTenant> {
        self.demo_tenant.as_ref()
    }

    /// Returns each queue's URL, by name.
    pub fn queues(&self) -> &BTreeMap<String, String> {
        &self.queues
    }

    /// Returns the names of the tables, by their names in the template.
    pub fn tables(&self) -> &BTreeMap<String, String> {
        &self.tables
    }

    /// Returns a function's environment: the variables from the template and those that Lambda itself sets. With these
    /// variables, the function's binary can run against this stack.
    pub fn environment(&self, function: &str) -> Option<&HashMap<String, String>> {
        Some(&self.functions.get(function)?.variables)
    }

    /// Returns a DynamoDB client for this stack.
    pub fn dynamodb_client(&self) -> aws_sdk_dynamodb::Client {
        self.dynamodb_client.clone()
    }

    pub fn sqs_client(&self) -> aws_sdk_sqs::Client {
        self.sqs_client.clone()
    }

    /// Invokes a function with the JSON that Lambda would send. Returns the JSON that Lambda would receive.
    ///
    /// # Errors
    /// There is no such function, or it rejects the event, fails or times out.
    pub async fn invoke(&self, function: &str, event: Value) -> Result<Value> {
        self.functions.get(function).with_context(|| format!("there is no function {function}"))?.invoke(event).await
    }

    /// Polls a queue once: receives a batch, passes it to the queue's function, and deletes the records that succeeded.
    /// Waits up to a second for the first record. Returns the number of received records.
    ///
    /// # Errors
    /// No function reads this queue, or the queue cannot be read. If the function fails, this call succeeds anyway, and
    /// the records stay in the queue, as with Lambda.
    pub async fn poll(&self, queue: &str) -> Result<usize> {
        self.pollers.get(queue).with_context(|| format!("no function reads the queue {queue}"))?.step().await
    }

    /// Returns all addresses on one line, for programs.
    pub fn ready_line(&self) -> Value {
        let mut line = json!({
            "api": self.addresses.api,
            "dynamodb": self.addresses.dynamodb,
            "sqs": self.addresses.sqs,
            "mail": self.addresses.mail,
            "inbox": self.addresses.inbox,
            "queues": self.queues,
            "tables": self.tables,
        });
        if let (Some(demo), Some(members)) = (&self.demo_tenant, line.as_object_mut()) {
            members.insert("demo".to_owned(), json!(demo.link));
        }
        line
    }

    /// Returns a one-line summary for programs: the number of requests that the functions and pollers have sent to
    /// DynamoDB and SQS, and the number of invocations of each function.
    pub fn work_line(&self) -> Value {
        let invocations = self.functions.iter();
        let invocations = invocations.map(|(name, function)| (name, function.invocations.load(Ordering::Relaxed)));
        json!({
            "requests": {
                "dynamodb": self.requests.dynamodb.load(Ordering::Relaxed),
                "sqs": self.requests.sqs.load(Ordering::Relaxed),
            },
            "invocations": invocations.collect::<BTreeMap<_, _>>(),
        })
    }

    /// Stops accepting work, waits for running work and shuts down.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.tasks.wait()).await.is_err() {
            // Messages of unfinished work return to their queues.
            tracing::warn!("shutdown.incomplete");
        }
    }
}

/// The listening sockets. All are opened before the first service starts, because the services need each other's
/// addresses.
struct Listeners {
    api: TcpListener,
    dynamodb: TcpListener,
    sqs: TcpListener,
    ses: TcpListener,
    mail: TcpListener,
    inbox: TcpListener,
}

/// The addresses shown to users. Only the functions need the SES address.
struct Addresses {
    api: String,
    dynamodb: String,
    sqs: String,
    mail: String,
    inbox: String,
}

impl Listeners {
    fn bind(ports: Ports) -> Result<Self> {
        Ok(Self {
            api: server::listen(ports.api, "--api")?,
            dynamodb: server::listen(ports.dynamodb, "--dynamodb")?,
            sqs: server::listen(ports.sqs, "--sqs")?,
            ses: server::listen(0, "--mail")?,
            mail: server::listen(ports.mail, "--mail")?,
            inbox: server::listen(ports.inbox, "--inbox")?,
        })
    }

    fn addresses(&self) -> Result<Addresses> {
        Ok(Addresses {
            api: server::address(&self.api)?,
            dynamodb: server::address(&self.dynamodb)?,
            sqs: server::address(&self.sqs)?,
            mail: server::address(&self.mail)?,
            inbox: server::address(&self.inbox)?,
        })
    }
}

/// Ends the stack and its running work, which [`Stack::stop`] waits for.
impl Drop for Stack {
    fn drop(&mut self) {
        self.stop.cancel();
        self.functions.values().for_each(|function| function.end());
    }
}

/// The functions that read queues, with their pollers, for another process's tables and queues.
pub struct Worker {
    pollers: BTreeMap<String, Arc<Poller>>,
}

impl Worker {
    /// Builds a worker for the stack at these addresses. `env` is as in [`Options`].
    ///
    /// # Errors
    /// The template and the functions do not match.
    pub fn new(dynamodb: &str, sqs: &str, env: &HashMap<String, String>) -> Result<Self> {
        let lambda = lambda_variables(dynamodb, sqs, dynamodb);
        let template = Template::load(&parameters(dynamodb, ""), LocalAddresses::new(dynamodb, sqs))?;
        let requests = Arc::default();
        let (_, sqs_client) = clients(lambda.clone(), &requests)?;
        let queues = template.queues.keys().map(|name| (name.clone(), format!("{sqs}/{ACCOUNT}/{name}"))).collect();
        let functions = functions(&template, env, &lambda, &requests)?;
        Ok(Self { pollers: pollers(&template, &functions, &queues, &sqs_client)? })
    }

    /// Polls a queue once, as [`Stack::poll`] does.
    ///
    /// # Errors
    /// No function reads this queue, or the queue cannot be read.
    pub async fn poll(&self, queue: &str) -> Result<usize> {
        self.pollers.get(queue).with_context(|| format!("no function reads the queue {queue}"))?.step().await
    }

    /// Polls all queues until the future is dropped.
    pub async fn run(self) {
        let mut polling = JoinSet::new();
        for poller in self.pollers.into_values() {
            polling.spawn(poller.run(CancellationToken::new()));
        }
        polling.join_all().await;
    }
}
