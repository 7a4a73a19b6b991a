//! The Lambda function that delivers job events, from two SQS queues.

use common::config::Env;
use lambda_runtime::{Error, LambdaEvent, service_fn};

// A delivery is many small allocations: with that of libc, they take a tenth of its CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let env = Env::process();
    common::telemetry::log::init(&env);
    let deliver = webhooks_deliver::function(&env)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<_>| deliver.handle(event))).await
}
