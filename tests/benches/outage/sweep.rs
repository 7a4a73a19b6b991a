//! The sweepers, run as Lambda runs them.

use std::{path::Path, process::Stdio, time::Duration};

use common::{timestamp::Timestamp, webhooks::log::due_rows::SWEEPERS};
use futures::future::join_all;
use serde_json::json;
use tests::{Lambda, World};

/// Two processes for each sweeper.
pub(crate) struct Sweepers(Vec<(u8, Lambda)>);

/// The cost of a minute.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The CPU time of all processes.
    pub(crate) cpu: Duration,
    /// The maximum CPU time of a process.
    pub(crate) slowest: Duration,
    /// The memory of the largest process so far, in MiB.
    pub(crate) memory: f64,
}

impl Sweepers {
    pub(crate) async fn start(world: &World, binary: &Path) -> Self {
        let environment = world.stack.environment("deliveries-wake").expect("a function");
        let numbers: Vec<_> = (0..SWEEPERS).chain(0..SWEEPERS).collect();
        let started =
            numbers.into_iter().map(async |sweeper| (sweeper, Lambda::start(binary, environment, Stdio::null()).await));
        Self(join_all(started).await)
    }

    /// Invokes each sweeper for the minute of `time`, twice at once.
    pub(crate) async fn sweep(&mut self, time: Timestamp) -> Measured {
        let cpu = self.0.iter_mut().map(async |(sweeper, lambda)| {
            let before = lambda.cpu();
            let answer = lambda.invoke(json!({"sweeper": sweeper, "time": time}).to_string()).await;
            assert!(!answer.contains("error"), "{answer}");
            lambda.cpu() - before
        });
        let cpu = join_all(cpu).await;
        let memory = self.0.iter().map(|(_, lambda)| lambda.memory("VmHWM")).max().expect("a process");
        Measured {
            cpu: cpu.iter().sum(),
            slowest: cpu.into_iter().max().expect("a process"),
            memory: memory as f64 / 1024.0,
        }
    }
}

/// The memory that the template gives the function, in MiB.
pub(crate) fn memory_of_function() -> f64 {
    let least = [("MailFrom", "mail@example.com"), ("MailIdentity", "example.com")];
    let template = local::template(&least).expect("the template");
    let own = &template["Resources"]["DeliveriesWakeFunction"]["Properties"]["MemorySize"];
    let usual = &template["Globals"]["Function"]["MemorySize"];
    own.as_f64().or(usual.as_f64()).expect("MiB")
}
