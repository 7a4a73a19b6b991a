//! The Lambda function that deletes the remaining data of deleted organizations, on a schedule.

use common::config::Env;
use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let env = Env::process();
    common::telemetry::log::init(&env);
    let purge = accounts_purge::function(&env)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<_>| purge.handle(event))).await
}
