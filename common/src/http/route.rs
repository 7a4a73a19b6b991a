//! A route is one value: method and path, access, input, handler, and possible errors. The router, the log line, the
//! API description and the checks against the template all use this value.

use std::{marker::PhantomData, sync::Arc};

use api::{account::Scope, audit::Action};
use futures::future::BoxFuture;
use lambda_http::http::Method;

#[cfg(feature = "openapi")]
use super::shapes::{Generators, Shapes};
use super::{
    auth::{Access, CallerStores, Callers, Identity},
    body_format::BodyFormat,
    call::Call,
    event::MAX_BODY_BYTES,
    fields::{Fields, IDEMPOTENCY_KEY, Rejected},
    info::{DeclaredError, RouteInfo, ScopeRequirement},
    json::Object,
    reply::{Output, Reply},
    status::HttpError,
};
use crate::{
    audit::{Recorder, RouteRecorder},
    config::{ConfigError, Env},
    error::Result,
};

/// A route of the app `A`. `W` is the type of the stores that identify callers: `NoCallers` if all routes are
/// [`Public`](super::Public). `R` is the type of the recorder that the handler needs, and `()` once the route has
/// declared which changes it [`records`](Route::records).
#[must_use]
pub struct Route<A, W = Callers, R = ()> {
    info: RouteInfo,
    start: Start<A, W>,
    recorder: PhantomData<R>,
    #[cfg(feature = "openapi")]
    describe: Describe<A>,
}

/// Builds the part that answers calls, from the settings and the changes that the route records.
type Start<A, W> = Box<dyn FnOnce(&Env, &'static [Action]) -> Result<AnswerCall<A, W>, ConfigError> + Send + Sync>;
type AnswerCall<A, W> = Box<dyn Fn(Arc<A>, Arc<W>, Call<()>, BodyFormat) -> BoxFuture<'static, Handled> + Send + Sync>;
#[cfg(feature = "openapi")]
type Describe<A> = Box<dyn Fn(&A, &mut Generators) -> Shapes + Send + Sync>;

type Handler<A, C, R, I, F> = fn(Arc<A>, Call<C, R>, I) -> F;

/// Reads the input of a call from its values, and starts the route's handler.
type Handle<A, C, R> =
    Arc<dyn Fn(Arc<A>, Call<C, R>, Object, BodyFormat) -> Result<BoxFuture<'static, Result<Reply>>> + Send + Sync>;

/// Answers a call. This code does not depend on the types of the input, the output and the handler, so a function
/// contains it once for each kind of access and recorder, instead of once for each route.
async fn answer<C: Access<W>, A, W, R: RouteRecorder>(
    path: &'static str,
    handle: Handle<A, C::Caller, R>,
    recorder: R,
    app: Arc<A>,
    callers: Arc<W>,
    call: Call<()>,
    format: BodyFormat,
) -> Handled {
    let (mut tenant, mut account) = (None, None);
    let answer = async {
        call.request.check_size(call.most_bytes)?;
        call.check_origin(format, C::CREDENTIALS)?;
        let caller = C::identify(&callers, &call).await?;
        tenant = caller.tenant().map(ToString::to_string);
        account = call.is_of_console().then(|| shown_account(&caller)).flatten();
        if let Some(account) = &account {
            call.check_account(account)?;
        }
        let values = call.fields(format, path)?;
        let recorder = recorder.with(|| call.origin(caller.actor()));
        Ok(handle(app, call.by(caller, recorder), values, format)?.await?)
    };
    let reply = answer.await;
    Handled { reply, tenant, account }
}

/// The account that pages show to a signed-in caller: the ids of the organization and the user.
fn shown_account(caller: &impl Identity) -> Option<String> {
    caller.tenant().zip(caller.actor()).map(|(organization, user)| format!("{organization}/{}", user.id))
}

/// A handled call.
pub(super) struct Handled {
    pub(super) reply: Result<Reply, HttpError>,
    /// The organization whose data the call used.
    pub(super) tenant: Option<String>,
    /// The account that a page of the console shows.
    pub(super) account: Option<String>,
}

impl<E: Into<HttpError>> From<E> for Handled {
    fn from(error: E) -> Self {
        Self { reply: Err(error.into()), tenant: None, account: None }
    }
}

/// A route bound to its app.
pub(super) struct BoundRoute {
    pub(super) info: RouteInfo,
    pub(super) answer: Box<dyn Fn(Call<()>) -> BoxFuture<'static, Handled> + Send + Sync>,
    #[cfg(feature = "openapi")]
    pub(super) describe: Box<dyn Fn(&mut Generators) -> Shapes + Send + Sync>,
}

impl<A: Send + Sync + 'static, W: CallerStores, R: RouteRecorder> Route<A, W, R> {
    /// A `POST`, with its input in the body. The access argument only determines the type.
    pub fn post<C: Access<W>, I: Send + 'static, O: Output, F: Future<Output = Result<O>> + Send + 'static>(
        path: &'static str,
        _: C,
        input: fn(&A, &mut Fields) -> Result<I, Rejected>,
        handle: Handler<A, C::Caller, R, I, F>,
    ) -> Self {
        let info = RouteInfo {
            method: Method::POST,
            path,
            credentials: C::CREDENTIALS,
            scope: ScopeRequirement::Undeclared,
            #[cfg(feature = "openapi")]
            summary: "",
            #[cfg(feature = "openapi")]
            description: "",
            #[cfg(feature = "openapi")]
            errors: &[],
            #[cfg(feature = "openapi")]
            redirects: false,
            before_two_factor: false,
            most_bytes: MAX_BODY_BYTES,
            records: &[],
        };
        let handle: Handle<A, C::Caller, R> = Arc::new(move |app, call, values, format| {
            let input = Fields::read(values, |fields| {
                fields.set_key(call.request.headers.get(IDEMPOTENCY_KEY));
                input(&app, fields)
            })?;
            let output = handle(app, call, input);
            Ok(Box::pin(async move { output.await?.reply(format) }))
        });
        let start = move |env: &Env, records| -> Result<AnswerCall<A, W>, ConfigError> {
            let recorder = R::of_route(env, records)?;
            Ok(Box::new(move |app, callers, call, format| {
                let (handle, recorder) = (Arc::clone(&handle), recorder.clone());
                Box::pin(answer::<C, A, W, R>(path, handle, recorder, app, callers, call, format))
            }))
        };
        Self {
            info,
            start: Box::new(start),
            recorder: PhantomData,
            #[cfg(feature = "openapi")]
            describe: Box::new(move |app, generators| Shapes {
                input: Fields::describe(&mut generators.inputs, |fields| input(app, fields)),
                output: O::schema(&mut generators.outputs),
            }),
        }
    }

    /// A `GET`, with its input in the query.
    pub fn get<C: Access<W>, I: Send + 'static, O: Output, F: Future<Output = Result<O>> + Send + 'static>(
        path: &'static str,
        access: C,
        input: fn(&A, &mut Fields) -> Result<I, Rejected>,
        handle: Handler<A, C::Caller, R, I, F>,
    ) -> Self {
        let mut route = Self::post(path, access, input, handle);
        route.info.method = Method::GET;
        route
    }

    /// Sets the scope that a key must have.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.info.scope = ScopeRequirement::Always(scope);
        self
    }

    /// Lets keys without any scope call the route.
    pub fn any_scope(mut self) -> Self {
        self.info.scope = ScopeRequirement::Nothing;
        self
    }

    /// Adds another scope, which the handler requires for some calls. `calls` describes these calls.
    pub fn also_scope(mut self, scope: Scope, calls: &'static str) -> Self {
        self.info.scope = ScopeRequirement::Also(self.info.scope.always(), scope, calls);
        self
    }

    /// Opens the route to users who lack a required second factor.
    pub fn before_two_factor(mut self) -> Self {
        self.info.before_two_factor = true;
        self
    }

    /// Accepts larger bodies than other routes do, of up to this number of bytes.
    pub fn up_to(mut self, bytes: usize) -> Self {
        self.info.most_bytes = bytes;
        self
    }
}

impl<A, W> Route<A, W, Recorder> {
    /// Declares which of the route's changes the audit log records.
    pub fn records(mut self, actions: &'static [Action]) -> Route<A, W> {
        self.info.records = actions;
        Route {
            info: self.info,
            start: self.start,
            recorder: PhantomData,
            #[cfg(feature = "openapi")]
            describe: self.describe,
        }
    }
}

impl<A: Send + Sync + 'static, W: CallerStores> Route<A, W> {
    /// Binds the route to its app. `env` names the audit log table.
    pub(super) fn bind(
        self,
        app: &Arc<A>,
        callers: &Arc<W>,
        format: BodyFormat,
        env: &Env,
    ) -> Result<BoundRoute, ConfigError> {
        let Self { info, start, .. } = self;
        let answer = start(env, info.records)?;
        let (for_answer, callers) = (Arc::clone(app), Arc::clone(callers));
        let (needed, before_two_factor, most_bytes) = (info.scope, info.before_two_factor, info.most_bytes);
        Ok(BoundRoute {
            info,
            answer: Box::new(move |call| {
                let call = call.needing(needed, before_two_factor).up_to(most_bytes);
                answer(Arc::clone(&for_answer), Arc::clone(&callers), call, format)
            }),
            #[cfg(feature = "openapi")]
            describe: {
                let (app, describe) = (Arc::clone(app), self.describe);
                Box::new(move |generators| describe(&app, generators))
            },
        })
    }
}

#[cfg(feature = "openapi")]
impl<A, W, R> Route<A, W, R> {
    /// Adds the summary, one sentence.
    pub fn summary(mut self, summary: &'static str) -> Self {
        self.info.summary = summary;
        self
    }

    /// Adds further details for callers, in Markdown.
    pub fn description(mut self, description: &'static str) -> Self {
        self.info.description = description;
        self
    }

    /// Adds the errors that the route can return, in addition to those that its kind and its input imply.
    pub fn errors(mut self, errors: &'static [DeclaredError]) -> Self {
        self.info.errors = errors;
        self
    }

    /// Declares that the route may respond with a redirect.
    pub fn redirects(mut self) -> Self {
        self.info.redirects = true;
        self
    }
}

/// The binaries of deployed functions do not contain the descriptions of their routes.
#[cfg(not(feature = "openapi"))]
impl<A, W, R> Route<A, W, R> {
    pub fn summary(self, _: &'static str) -> Self {
        self
    }

    pub fn description(self, _: &'static str) -> Self {
        self
    }

    pub fn errors(self, _: &'static [DeclaredError]) -> Self {
        self
    }

    pub fn redirects(self) -> Self {
        self
    }
}
