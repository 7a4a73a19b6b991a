//! One event on its way to the program.

use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};
use url::Url;

use super::settle::Done;
use crate::http::{Http, NoAnswer};

/// How long the program may take, as for a POST of the service.
const TIMEOUT: Duration = Duration::from_secs(15);
/// When a post begins at the latest, from the call that took the event on: its lease has 60 seconds.
const LATEST: Duration = Duration::from_secs(40);
/// The most that is read of an answer. More is no failure.
const LARGEST: usize = 64 << 10;
/// The most of a failed answer that the service keeps, in bytes.
const KEPT: usize = 1024;

pub(super) struct Poster {
    http: Http,
    to: Url,
    is_json: bool,
}

impl Poster {
    pub(super) fn new(http: Http, to: Url, is_json: bool) -> Self {
        Self { http, to, is_json }
    }

    /// Posts an event once there is a slot for it. If that is too late, or somebody has stopped this, it is given back.
    pub(super) async fn post(
        &self,
        delivery: Value,
        slots: &Semaphore,
        mut stopped: watch::Receiver<bool>,
        taken: Instant,
    ) -> Done {
        let slot = tokio::select! {
            slot = slots.acquire() => slot.ok(),
            _ = stopped.wait_for(|is_stopped| *is_stopped) => None,
        };
        let settlement = json!({ "delivery_id": delivery["delivery_id"], "lease": delivery["lease"] });
        if slot.is_none() || taken.elapsed() > LATEST {
            return Done { delivery, settlement, outcome: None, is_json: self.is_json, taken };
        }
        let began = Clock::now();
        let answer = match self.request(&delivery) {
            Some(request) => self.http.send(request, LARGEST, TIMEOUT).await,
            None => Err(NoAnswer::Protocol),
        };
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut settlement = settlement;
        settlement["duration_ms"] = json!(took);
        let outcome = match answer {
            Ok(answer) => {
                settlement["status_code"] = json!(answer.status);
                if !(200..300).contains(&answer.status) {
                    let text = String::from_utf8_lossy(&answer.body);
                    settlement["response"] = json!(text.get(..text.floor_char_boundary(KEPT)).unwrap_or_default());
                }
                answer.status.to_string()
            }
            Err(why) => {
                settlement["error"] = json!(why.name());
                why.name().to_owned()
            }
        };
        Done { delivery, settlement, outcome: Some((outcome, took)), is_json: self.is_json, taken }
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
