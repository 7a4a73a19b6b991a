//! The functions, which are invoked as on Lambda: with JSON, a context and a deadline.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use common::{
    config::{ConfigError, Env},
    http::RouteInfo,
    runtime_sources::RuntimeSources,
    timestamp::Timestamp,
};
use futures::future::BoxFuture;
use lambda_runtime::{Config, Context, LambdaEvent};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{requests::RequestCounts, template};

/// A function from the template.
pub(crate) struct Function {
    pub(crate) variables: HashMap<String, String>,
    arn: String,
    timeout: Duration,
    config: Arc<Config>,
    pub(crate) handler: Handler,
    /// The number of invocations.
    pub(crate) invocations: AtomicU64,
    /// Ends the running invocations when the function is dropped. Their calls could otherwise reach another stack, which
    /// has got a port of this one.
    stop: DropGuard,
}

/// A function's handler, from its crate.
#[derive(Clone)]
pub enum Handler {
    /// Handles HTTP requests.
    Http(common::http::Function),
    /// Handles other events: from queues, schedules and SES.
    Event(Arc<dyn Fn(Value, Context) -> BoxFuture<'static, Result<Value>> + Send + Sync>),
}

impl From<common::http::Function> for Handler {
    fn from(function: common::http::Function) -> Self {
        Self::Http(function)
    }
}

impl From<webhooks_deliver::Deliver> for Handler {
    fn from(function: webhooks_deliver::Deliver) -> Self {
        Self::event(function, |function, event| async move { function.handle(event).await })
    }
}

impl From<deliveries_wake::Wake> for Handler {
    fn from(function: deliveries_wake::Wake) -> Self {
        Self::event(function, |function, event| async move { function.handle(event).await })
    }
}

impl From<accounts_purge::Purge> for Handler {
    fn from(function: accounts_purge::Purge) -> Self {
        Self::event(function, |function, event| async move { function.handle(event).await })
    }
}

impl From<accounts_bounces::Bounces> for Handler {
    fn from(function: accounts_bounces::Bounces) -> Self {
        Self::event(function, |function, event| async move { function.handle(event).await })
    }
}

/// Builds a function from its settings.
type Start = fn(&Env) -> Result<Handler, ConfigError>;

/// The crates in `functions/`, by name.
const CRATES: &[(&str, Start)] = include!(concat!(env!("OUT_DIR"), "/functions.rs"));

pub fn function_names() -> impl Iterator<Item = &'static str> {
    CRATES.iter().map(|(name, _)| *name)
}

impl Handler {
    /// Builds the handler of the function `name`.
    ///
    /// # Errors
    /// No crate has this name, or a setting is missing or does not parse.
    pub fn start(name: &str, env: &Env) -> Result<Self> {
        let (_, start) = CRATES.iter().find(|(found, _)| *found == name).context("no crate has this name")?;
        Ok(start(env)?)
    }

    /// Returns the handler of a function whose events have the type `E`.
    fn event<F, E, A, C>(function: F, handle: fn(F, LambdaEvent<E>) -> C) -> Self
    where
        F: Clone + Send + Sync + 'static,
        E: DeserializeOwned + 'static,
        A: Serialize,
        C: Future<Output = Result<A, lambda_runtime::Error>> + Send + 'static,
    {
        Self::Event(Arc::new(move |event, context| {
            let function = function.clone();
            Box::pin(async move {
                let event = LambdaEvent::new(serde_json::from_value(event)?, context);
                let answer = handle(function, event).await;
                Ok(serde_json::to_value(answer.map_err(anyhow::Error::from_boxed)?)?)
            })
        }))
    }

    /// Returns the function's routes.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &RouteInfo> {
        let function = match self {
            Self::Http(function) => Some(function),
            Self::Event(_) => None,
        };
        function.into_iter().flat_map(common::http::Function::routes)
    }

    /// Calls the handler with the JSON that Lambda would send. Returns the JSON that Lambda would receive.
    ///
    /// # Errors
    /// The handler rejects the event or fails.
    pub async fn call(self, event: Value, context: Context) -> Result<Value> {
        match self {
            Self::Http(function) => {
                let payload = serde_json::from_value(event)?;
                Ok(serde_json::to_value(function.call(LambdaEvent::new(payload, context)).await)?)
            }
            Self::Event(call) => call(event, context).await,
        }
    }
}

impl Function {
    /// Builds the function `name` as the template describes it. The function's environment contains only the variables
    /// from the template and those in `lambda`, which Lambda itself sets. `overrides` can replace the values of these
    /// variables but does not add any. `requests` counts the function's requests to AWS.
    pub(crate) fn new(
        name: &str,
        properties: &template::TemplateFunction,
        arn_prefix: &str,
        overrides: &HashMap<String, String>,
        lambda: &HashMap<String, String>,
        requests: &Arc<RequestCounts>,
    ) -> Result<Self> {
        let mut variables = lambda.clone();
        // Each function has its own credentials, as on Lambda, so that the embedded services can distinguish the
        // callers.
        variables.insert("AWS_ACCESS_KEY_ID".to_owned(), name.to_owned());
        variables.extend(properties.variables());
        for (name, value) in &mut variables {
            if let Some(wins) = overrides.get(name) {
                value.clone_from(wins);
            }
        }
        let seen = variables.clone();
        let env = Env::new(move |name| seen.get(name).cloned()).over(requests.client());
        let handler = Handler::start(name, &env).with_context(|| format!("cannot start the function {name}"))?;
        let config = Config {
            function_name: name.to_owned(),
            memory: properties.memory_size,
            version: "$LATEST".to_owned(),
            log_stream: "local".to_owned(),
            log_group: format!("/aws/lambda/{name}"),
        };
        let arn = format!("{arn_prefix}:function:{name}");
        let (timeout, invocations) = (properties.timeout(), AtomicU64::new(0));
        let stop = CancellationToken::new().drop_guard();
        Ok(Self { variables, arn, timeout, config: Arc::new(config), handler, invocations, stop })
    }

    /// Returns a separate instance of this function that calls AWS through `client`.
    pub(crate) fn over(&self, client: SharedHttpClient) -> Result<Self> {
        let handler = Handler::start(&self.config.function_name, &self.env().over(client))?;
        Ok(Self {
            variables: self.variables.clone(),
            arn: self.arn.clone(),
            timeout: self.timeout,
            config: Arc::clone(&self.config),
            handler,
            invocations: AtomicU64::new(0),
            stop: CancellationToken::new().drop_guard(),
        })
    }

    /// Returns the function's variables, and no others.
    pub(crate) fn env(&self) -> Env {
        let variables = self.variables.clone();
        Env::new(move |name| variables.get(name).cloned())
    }

    /// Invokes the function with the JSON that Lambda would send. Returns the JSON that Lambda would receive.
    ///
    /// The function runs on the caller's clock, until it completes or times out, even if the caller disconnects,
    /// because Lambda does not notice that, either. It ends early only if the function is ended or dropped.
    pub(crate) async fn invoke(&self, event: Value) -> Result<Value> {
        self.invocations.fetch_add(1, Ordering::Relaxed);
        let (handler, stop) = (self.handler.clone(), self.stop.token().clone());
        let call = tokio::time::timeout(self.timeout, handler.call(event, self.context()?));
        let call = stop.run_until_cancelled_owned(call);
        let task = match RuntimeSources::current() {
            Some(sources) => tokio::spawn(sources.within(call)),
            None => tokio::spawn(call),
        };
        match task.await.context("the function panicked")? {
            Some(Ok(answer)) => answer,
            Some(Err(_elapsed)) => bail!("the function timed out after {} seconds", self.timeout.as_secs()),
            None => bail!("the function was stopped"),
        }
    }

    /// Ends the running invocations. Later ones fail.
    pub(crate) fn end(&self) {
        self.stop.token().cancel();
    }

    fn context(&self) -> Result<Context> {
        let deadline = SystemTime::from(Timestamp::now()).duration_since(UNIX_EPOCH)? + self.timeout;
        let mut context = Context::default();
        context.request_id = uuid::Uuid::new_v4().to_string();
        context.deadline = u64::try_from(deadline.as_millis())?;
        context.invoked_function_arn = self.arn.clone();
        context.env_config = Arc::clone(&self.config);
        Ok(context)
    }
}
