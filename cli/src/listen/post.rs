//! Posts an event to the local program.

use std::time::{Duration, Instant};

use api::deliveries::{LeasedDelivery, Unanswered};
use reqwest::{Method, Request};
use tokio::sync::Semaphore;
use url::Url;

use super::{
    done::{Done, Tried},
    lease::Lease,
    stop::Stop,
};
use crate::{
    failure::Failure,
    http::{Http, Missing, Network},
};

/// The time limit of a post, the same as in the service.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The lifetime of an idle connection. Some programs close idle connections after five seconds, possibly just as the
/// client reuses one.
const IDLE: Duration = Duration::from_secs(1);

pub(super) struct Poster {
    http: Http,
    to: Url,
}

impl Poster {
    pub(super) fn new(network: &Network, to: Url, is_insecure: bool) -> Result<Self, Failure> {
        Ok(Self { http: network.client_of_program(is_insecure, IDLE)?, to })
    }

    /// Posts an event once a slot is free. If its lease is too old by then, or the process is stopping, releases the
    /// event instead.
    pub(super) async fn post(&self, delivery: LeasedDelivery, slots: &Semaphore, mut stop: Stop, lease: Lease) -> Done {
        let slot = tokio::select! {
            biased;
            () = stop.asked() => None,
            slot = slots.acquire() => slot.ok(),
        };
        if slot.is_none() || !lease.has_time() {
            return Done { delivery, tried: None, lease };
        }
        let began = Instant::now();
        let answer = match self.request(&delivery) {
            Some(request) => self.http.post(request, TIMEOUT).await,
            None => {
                let cause = "a header cannot be sent".to_owned();
                Err(Missing { why: Unanswered::Protocol, is_refused: false, cause })
            }
        };
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Done { delivery, tried: Some(Tried { answer, took }), lease }
    }

    /// Builds the same request that the service would send.
    fn request(&self, delivery: &LeasedDelivery) -> Option<Request> {
        let request = self.http.request(Method::POST, self.to.as_str()).body(delivery.body.clone());
        delivery.headers.iter().fold(request, |request, (name, value)| request.header(name, value)).build().ok()
    }
}
