//! The Lambda function that wakes deliveries, on a schedule.

use common::config::Env;
use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let env = Env::process();
    common::telemetry::log::init(&env);
    let wake = deliveries_wake::function(&env)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<_>| wake.handle(event))).await
}
