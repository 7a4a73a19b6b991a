//! The HTTP side of a function: it receives an API Gateway event, finds the route and the caller, parses the input,
//! calls the handler, and writes the response and the log line. No other module of this crate uses status codes.

pub use api::{Done, error::Reason};

pub use self::{
    auth::{
        Access, AnyCaller, By, Caller, Callers, KeyOrSession, NoCallers, People, Person, Public, Session, SignedIn,
        Tenant, Verified, VerifiedPerson, Visitor,
    },
    body_format::BodyFormat,
    browser::{AGAIN, LOST},
    call::Call,
    event::{Event, canonical},
    fields::{Fields, Rejected, text_fields::FormValues},
    function::{Function, serve},
    info::{Credential, DeclaredError, RouteInfo, ScopeRequirement},
    origins::Origins,
    page::{DID, Page},
    paging::{MAX_LISTED, read_limit},
    reply::{Output, Reply, WithCookies},
    route::Route,
    status::HttpError,
};

mod auth;
mod body_format;
mod browser;
mod call;
pub mod cookies;
mod event;
mod fields;
mod forms;
mod function;
mod info;
mod json;
#[cfg(feature = "openapi")]
pub mod openapi;
mod origins;
pub mod page;
mod paging;
mod reply;
mod route;
#[cfg(feature = "openapi")]
mod shapes;
mod status;
