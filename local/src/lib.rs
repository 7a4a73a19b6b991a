//! The whole service on one machine, as `template.yaml` describes it: tables, queues, functions, routes and environment
//! variables, in one process, on loopback ports. Anything missing from the template is missing here, too.

mod demo_tenant;
mod embedded;
mod functions;
mod gateway;
mod generator;
mod inbox;
mod mail;
mod openapi;
mod origins;
mod outbox;
mod page;
mod plan;
mod poller;
mod queues;
mod recording;
mod requests;
mod server;
mod services;
mod stack;
mod template;

pub use demo_tenant::DemoTenant;
pub use embedded::{Action, action};
pub use functions::{Handler, function_names};
pub use generator::{generated_events, generated_template};
pub use inbox::signatures;
pub use outbox::SentEmail;
pub use plan::{Plan, Planned, Polled};
pub use server::Limits;
pub use services::create_tables;
pub use stack::{Data, Options, Ports, Stack, Worker, exact_openapi, openapi};
pub use template::evaluated as template;
