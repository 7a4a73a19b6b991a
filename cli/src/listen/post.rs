//! Posts an event to its target.

use api::deliveries::LeasedDelivery;
use tokio::sync::Semaphore;

use super::{lease::Lease, outcome::Done, signals::Stop};
use crate::{
    failure::Failure,
    http::{Http, NetworkSettings},
    program,
    targets::Targets,
};

pub(super) struct Poster {
    http: Http,
    targets: Targets,
}

impl Poster {
    pub(super) fn new(network: &NetworkSettings, targets: Targets, is_insecure: bool) -> Result<Self, Failure> {
        Ok(Self { http: network.client_of_program(is_insecure, program::IDLE_TIMEOUT)?, targets })
    }

    /// Posts an event once a slot is free. If its lease is too old by then, or the process is stopping, releases the
    /// event instead.
    pub(super) async fn post(&self, delivery: LeasedDelivery, slots: &Semaphore, mut stop: Stop, lease: Lease) -> Done {
        let slot = tokio::select! {
            biased;
            () = stop.requested() => None,
            slot = slots.acquire() => slot.ok(),
        };
        let target = self.targets.getting(&delivery.event.to_string(), &delivery.body);
        let (Some(_slot), Some(target), true) = (slot, target, lease.has_time()) else {
            return Done { delivery, tried: None, lease };
        };
        let tried = program::post(&self.http, &target.url, &delivery.headers, delivery.body.clone()).await;
        Done { delivery, tried: Some((target.clone(), tried)), lease }
    }
}
