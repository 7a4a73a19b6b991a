//! Lists the audit log of the caller's organization.

use std::sync::Arc;

use api::{
    Call as _,
    audit::{List, Listed},
};
use common::{
    accounts::permissions::Scope,
    audit::{AuditLog, EntryFilter, Position},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Fields, Function, Rejected, Route, Verified},
    issue::parse_name,
    timestamp::Timestamp,
};

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<AuditLog> {
    Route::post(List::PATH, Verified, Input::read, handle)
        .scope(Scope::AuditRead)
        .summary("Lists the changes in the last year, newest first (owners only).")
        .description(
            "The list contains every change to endpoints, API keys, members, invitations, settings, names, addresses, \
             passwords and sessions, and every resend, recovery, erasure and test, with the actor and the actor's \
             client. Changes by the service's operators are not listed. Owners, their API keys and organization keys \
             can read the list. To read all pages, repeat the call with each `next_cursor` until a response contains \
             none.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::OwnersOnly])
}

/// The list's filters and page.
pub struct Input {
    filter: EntryFilter,
    limit: usize,
    cursor: Option<Position>,
}

impl Input {
    fn read(_: &AuditLog, fields: &mut Fields) -> Result<Self, Rejected> {
        let since = fields
            .about("Only changes at this time or later. By default, all changes in the last year.")
            .optional_text(List::NAMES.since, Timestamp::parse);
        let until = fields
            .about("Only changes before this time. By default, there is no upper limit.")
            .optional_text(List::NAMES.until, Timestamp::parse);
        let actor = fields
            .about(
                "Only changes by the user or key with this id, or by `system`, the service itself. By default, \
                 changes by all actors.",
            )
            .example("01a1fd8f-0d9d-7467-9431-944eedd69c67")
            .optional_text(List::NAMES.actor, |text| Ok(text.to_owned()));
        let action = fields
            .about("Only changes of this type. By default, changes of all types.")
            .optional_text(List::NAMES.action, parse_name);
        let target = fields
            .about(
                "Only changes of the object with this id, such as an endpoint: the `id` of the `target`. By default, \
                 changes of all objects.",
            )
            .example("01a1fd8f-0d9d-7467-9431-944eedd69c67")
            .optional_text(List::NAMES.target, |text| Ok(text.to_owned()));
        let limit = fields
            .about("The maximum number of entries to return. The default is 20.")
            .optional_number(List::NAMES.limit, 1..=100);
        let cursor = fields
            .about("The `next_cursor` from the previous page. Send the same filters as for that page.")
            .optional_text(List::NAMES.cursor, Position::parse);
        let filter = EntryFilter { since: since?, until: until?, actor: actor?, action: action?, target: target? };
        let limit = limit?.and_then(|limit| limit.try_into().ok()).unwrap_or(20);
        Ok(Self { filter, limit, cursor: cursor? })
    }
}

async fn handle(log: Arc<AuditLog>, call: Call<Caller>, input: Input) -> Result<Listed> {
    call.caller.check_owner()?;
    let Input { filter, limit, cursor } = input;
    let page = log.list(&call.caller.organization, &filter, cursor, limit, Timestamp::now()).await?;
    Ok(Listed { entries: page.entries, next_cursor: page.next.map(Into::into) })
}
