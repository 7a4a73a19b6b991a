//! The pages for endpoints and deliveries, one module each. The API has a route for each action on a page, and both
//! call the same functions in `common`.

use common::{
    config::{ConfigError, Env},
    http::Function,
};

mod app;
mod backlogs;
mod chart;
mod deliveries;
mod delivery;
mod diagnosis;
mod endpoint;
mod endpoint_search;
mod live_updates;
mod new_endpoint;
mod numbers;
mod overview;
mod pull;
mod recovery;
mod settings;
mod signing_secret;
mod states;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let routes = [
        overview::show(),
        new_endpoint::show(),
        new_endpoint::submit(),
        endpoint::show(),
        endpoint::submit(),
        deliveries::show(),
        deliveries::submit(),
        delivery::show(),
        delivery::submit(),
        recovery::show(),
        recovery::submit(),
        diagnosis::show(),
        diagnosis::submit(),
    ];
    Function::of_pages(env, routes)
}
