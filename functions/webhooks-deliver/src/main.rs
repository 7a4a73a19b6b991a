//! The Lambda function that delivers job events, invoked by four SQS queues.

use common::config::Env;
use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let env = Env::process();
    common::telemetry::log::init(&env);
    let deliver = webhooks_deliver::function(&env)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<_>| deliver.handle(event))).await
}
