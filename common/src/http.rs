//! The HTTP side of a function: it takes an API Gateway event, finds the route and the caller, parses the input, calls
//! the handler, and writes the response and the log line. No other module of this crate names a status code.

pub use self::{
    auth::{
        Access, AnyCaller, By, Caller, Callers, KeyOrSession, NoCallers, People, Person, Public, Session, SignedIn,
        Tenant, Verified, VerifiedPerson, Visitor,
    },
    call::Call,
    event::{Event, canonical},
    fields::{DID, Fields, Rejected, Typed},
    function::{Function, serve},
    info::{Credential, Fault, RouteInfo},
    origins::Origins,
    page::Page,
    paging::{MOST_LISTED, read_limit},
    reply::{Done, Output, Reply, WithCookies},
    route::Route,
    status::HttpError,
    wire::Wire,
};

mod auth;
mod call;
pub mod cookies;
pub mod deletion;
mod event;
mod fields;
mod function;
mod info;
mod json;
pub mod once;
#[cfg(feature = "openapi")]
pub mod openapi;
mod origins;
pub mod page;
mod paging;
mod reply;
mod route;
mod schemas;
#[cfg(feature = "openapi")]
mod shapes;
pub mod sign_up;
mod status;
mod wire;
