//! A health check for monitors.

use std::sync::Arc;

use common::{
    error::Result,
    http::{Call, Public, Route},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;

pub(crate) fn show() -> Route<App> {
    Route::get("/health", Public, |_, _| Ok(()), report)
        .summary("Tells monitors that the service is up. It does not read a table or need a credential.")
        .description(
            "The response proves that API Gateway reaches a function, and that the function starts with its settings. \
             It does not prove that the tables, queues and emails work.",
        )
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Health {
    /// Always `ok`.
    status: Status,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Status {
    Ok,
}

async fn report(_: Arc<App>, _: Call<()>, (): ()) -> Result<Health> {
    Ok(Health { status: Status::Ok })
}
