//! The Lambda function that stores bounces and complaints, which SES reports through EventBridge.

use common::config::Env;
use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let env = Env::process();
    common::telemetry::log::init(&env);
    let bounces = accounts_bounces::function(&env)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<_>| bounces.handle(event))).await
}
