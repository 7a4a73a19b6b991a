//! Posts events to a local program, by the rules for deliveries.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use api::deliveries::Unanswered;
use reqwest::Method;
use url::Url;

use crate::{
    address::host_and_port,
    http::{Http, Missing, ProgramResponse},
    terminal::cell,
};

/// The time limit of a post, the same as in the service.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The lifetime of an idle connection. Some programs close idle connections after five seconds, possibly just as the
/// client reuses one.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of a post.
pub(crate) struct PostOutcome {
    pub(crate) answer: Result<ProgramResponse, Missing>,
    /// The duration, in milliseconds.
    pub(crate) took: u64,
}

/// Posts the same request that the service would send.
pub(crate) async fn post(http: &Http, to: &Url, headers: &BTreeMap<String, String>, body: String) -> PostOutcome {
    let began = Instant::now();
    let request = http.request(Method::POST, to.as_str()).body(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let answer = match request.build() {
        Ok(request) => http.post(request, TIMEOUT).await,
        Err(_) => {
            let cause = "a header cannot be sent".to_owned();
            Err(Missing { why: Unanswered::Protocol, is_refused: false, cause })
        }
    };
    PostOutcome { answer, took: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX) }
}

impl PostOutcome {
    /// Formats the HTTP status or the reason for a missing response.
    pub(crate) fn outcome(&self) -> String {
        match &self.answer {
            Ok(posted) => posted.status.to_string(),
            Err(missing) => missing.why.to_string(),
        }
    }

    /// Whether the program accepted the event.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.answer, Ok(ProgramResponse { response: None, .. }))
    }

    /// Returns the beginning of the body, unless the status is 2xx.
    pub(crate) fn response(&self) -> Option<&str> {
        self.answer.as_ref().ok()?.response.as_deref()
    }

    /// Returns the first line of the response that is not empty, for display.
    pub(crate) fn first_line(&self) -> Option<String> {
        let line = self.response()?.lines().find(|line| !line.trim().is_empty())?;
        Some(cell(&line.trim()))
    }

    /// Returns the remedy for a missing response, if it is known. `option` is the option that contains the address.
    pub(crate) fn hint(&self, to: &Url, option: &str) -> Option<String> {
        let missing = self.answer.as_ref().err()?;
        let program = host_and_port(to);
        match missing.why {
            _ if missing.is_refused => {
                Some(format!("Nothing listens on {program}. Start the program, or check {option}."))
            }
            Unanswered::Tls => Some(format!(
                "The certificate of {program} is not trusted: {}. Pass its certificate with --cacert, or --insecure.",
                cell(&missing.cause)
            )),
            _ => None,
        }
    }
}
