//! One event on its way to the program.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use url::Url;

use super::{
    lease::Lease,
    settle::{Done, Tried},
    stop::Stop,
};
use crate::http::{Http, NoAnswer, Posted};

/// How long the program may take, as for a POST of the service.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long an idle connection is kept. Some programs close theirs after five seconds, perhaps just when one is used again.
const IDLE: Duration = Duration::from_secs(1);

pub(super) struct Poster {
    http: Http,
    to: Url,
}

impl Poster {
    pub(super) fn new(to: Url) -> Self {
        Self { http: Http::new(IDLE), to }
    }

    /// Posts an event once there is a slot for it. If that is too late, or somebody has stopped this, it is given back.
    pub(super) async fn post(&self, delivery: Value, slots: &Semaphore, mut stop: Stop, lease: Lease) -> Done {
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
            None => Err(NoAnswer::Protocol),
        };
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Done { delivery, tried: Some(Tried { answer, took }), lease }
    }

    /// The request, exactly as the service would make it.
    fn request(&self, delivery: &Value) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::post(self.to.as_str());
        for (name, value) in delivery["headers"].as_object()? {
            request = request.header(name, value.as_str()?);
        }
        request.body(Full::new(Bytes::from(delivery["body"].as_str()?.to_owned()))).ok()
    }
}

impl Tried {
    /// The fields of a settlement that say how it went.
    pub(super) fn fields(&self) -> Value {
        match &self.answer {
            Ok(Posted { status, response: None }) => json!({ "status_code": status, "duration_ms": self.took }),
            Ok(Posted { status, response }) => {
                json!({ "status_code": status, "duration_ms": self.took, "response": response })
            }
            Err(why) => json!({ "error": why.name(), "duration_ms": self.took }),
        }
    }
}
