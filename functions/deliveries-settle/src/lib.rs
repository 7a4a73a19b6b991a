//! Settles received deliveries with their receivers' responses.

use std::{
    collections::{BTreeMap, HashSet},
    ops::ControlFlow::{Break, Continue},
    sync::Arc,
    time::Duration,
};

use api::{
    Call as _,
    deliveries::{Results, Settle, Settled, Settlement as Sent, Unanswered, Verdict},
};
use common::{
    accounts::permissions::Scope,
    audit::{Action, Recorder},
    aws::retry_conflicts,
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Fields, Function, Rejected, Route, Verified},
    id::{EndpointId, LeaseId, TenantId},
    issue::{Problem, parse_name},
    random,
    timestamp::Timestamp,
    webhooks::{
        delivery::{
            Attempt, AttemptResult, Claim, Delivery, DeliveryId, Failure, Outcome, RESPONSE_BYTES, Status,
            retry_schedule,
        },
        endpoints::{Endpoint, EndpointAttempts, Endpoints, disable_after},
        erasure::Erasure,
        log::DeliveryLog,
    },
};
use futures::{StreamExt, TryStreamExt, future::join_all, stream};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        endpoints: Endpoints,
        log: DeliveryLog,
        schedule: Vec<Duration> = retry_schedule,
        disable_after: Duration = disable_after,
    }
}

/// The number of deliveries that are settled concurrently.
const CONCURRENCY: usize = 25;
/// The maximum duration of an attempt, in milliseconds: one hour.
const MAX_DURATION_MILLISECONDS: u32 = 3_600_000;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(Settle::PATH, Verified, read, handle)
        .scope(Scope::DeliveriesWrite)
        .records(&[Action::WebhookDisabled])
        .summary("Records the results of received deliveries, each identified by its lease.")
        .description(
            "Retries and failures follow the same rules as for push endpoints, except that `Retry-After` is ignored. A \
             repeated settlement returns the same result and counts only once.",
        )
        .errors(&[DeclaredError::EmailNotVerified])
}

struct Settlement {
    id: DeliveryId,
    lease: LeaseId,
    /// `None` releases the lease without an attempt.
    outcome: Option<Outcome>,
    duration_ms: u32,
    response: Option<String>,
}

fn failure(why: Unanswered) -> Failure {
    match why {
        Unanswered::Timeout => Failure::Timeout,
        Unanswered::Dns => Failure::Dns,
        Unanswered::Connect => Failure::Connect,
        Unanswered::Tls => Failure::Tls,
        Unanswered::Protocol => Failure::Protocol,
    }
}

fn read(_: &App, fields: &mut Fields) -> Result<Vec<Settlement>, Rejected> {
    fields
        .about(
            "The attempts to record, each with the lease that `receive` returned. The request is limited to 64 KiB, so \
             split settlements with long responses across several calls.",
        )
        .objects(Settle::NAMES.settlements, Settlement::read)
}

impl Settlement {
    fn read(fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields
            .about("The id of the delivery, as returned by `receive`.")
            .text(Sent::NAMES.delivery_id, DeliveryId::parse);
        let lease = fields
            .about(
                "The delivery's lease, as returned by `receive`. If two settlements have the same lease, the first \
                 counts.",
            )
            .text(Sent::NAMES.lease, LeaseId::parse);
        let status = fields
            .about(
                "The HTTP status of the receiver's response. 2xx marks the delivery as delivered, 410 ends it and \
                 disables the endpoint, and any other status schedules a retry. Without `status_code` and `error`, \
                 the delivery is released: this does not count as an attempt, and the delivery can be received again \
                 immediately.",
            )
            .optional_number(Sent::NAMES.status_code, 100..=999);
        let error = fields
            .about("Why the receiver did not respond. Allowed only without `status_code`.")
            .optional_text(Sent::NAMES.error, parse_name);
        let duration = fields
            .about("The duration of the attempt, in milliseconds. The default is 0.")
            .optional_number(Sent::NAMES.duration_ms, 0..=MAX_DURATION_MILLISECONDS);
        let response = fields
            .about(
                "The receiver's response to a failed attempt, for the delivery log. The first 1,024 bytes are kept, \
                 without the values of the endpoint's headers; nothing if the endpoint was changed or deleted since \
                 `receive`.",
            )
            .example("try again later")
            .optional_text(Sent::NAMES.response, |text| Ok(text.to_owned()));
        fields.either(&[&[Sent::NAMES.status_code], &[Sent::NAMES.error]]);
        let (status, error) = (status?.and_then(|status| u16::try_from(status).ok()), error?);
        let outcome = match (status, error) {
            (Some(_), Some(_)) => {
                return Err(fields.reject(Sent::NAMES.error, Problem::format("Must be absent if status_code is given")));
            }
            (Some(status @ 200..=299), None) => Some(Outcome::Delivered(status)),
            (Some(status), None) => Some(Outcome::Failed(Failure::Status(status, None))),
            (None, Some(error)) => Some(Outcome::Failed(failure(error))),
            (None, None) => None,
        };
        Ok(Self { id: id?, lease: lease?, outcome, duration_ms: duration?.unwrap_or_default(), response: response? })
    }

    /// Returns the attempt that was made, if any. For a failed attempt, the beginning of the receiver's response is
    /// kept, with the endpoint's header values masked. If the endpoint has changed since the delivery was received, the
    /// response may contain a value that is not known any more.
    fn attempt(&self, before: &Delivery, endpoint: Option<&Endpoint>, now: Timestamp) -> Option<AttemptResult> {
        let outcome = self.outcome?;
        let response = self.response.as_ref().filter(|_| !matches!(outcome, Outcome::Delivered(_)));
        let endpoint = endpoint.filter(|endpoint| endpoint.updated_at < self.lease.made_at());
        let response = response.zip(endpoint).map(|(text, endpoint)| {
            let text = text.get(..text.floor_char_boundary(RESPONSE_BYTES)).unwrap_or(text).to_owned();
            endpoint.headers.mask(text)
        });
        let at = now.before(Duration::from_millis(self.duration_ms.into()));
        let attempt = Attempt::new(at, self.duration_ms, outcome, response, before.trigger);
        Some(AttemptResult::Made(attempt, outcome))
    }
}

async fn handle(app: Arc<App>, call: Call<Caller, Recorder>, settlements: Vec<Settlement>) -> Result<Results> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let ids: Vec<_> = settlements.iter().map(|settlement| settlement.id).collect();
    let (endpoints, mut deliveries) =
        tokio::try_join!(app.endpoints_of(tenant, &settlements), app.log.readable(tenant, &ids))?;
    // Two settlements of the same delivery are handled in order, so the first counts.
    let is_each_alone = ids.iter().collect::<HashSet<_>>().len() == ids.len();
    let concurrency = if is_each_alone { CONCURRENCY } else { 1 };
    let mut tried = WrittenStates::new();
    if is_each_alone && ids.len() > 1 {
        tried = app.settle_all(tenant, &endpoints, &settlements, &deliveries, now).await?;
        let unsettled: Vec<_> = tried.iter().filter(|(_, (_, is_settled))| !is_settled).map(|(id, _)| *id).collect();
        deliveries.extend(app.log.known(tenant, &unsettled).await?);
    }
    let (app, recorder, endpoints) = (&app, &call.recorder, &endpoints);
    let (deliveries, tried) = (&deliveries, &tried);
    let settled = settlements.iter().map(async |settlement| {
        let id = settlement.id;
        let before = match is_each_alone {
            true => deliveries.get(&id).cloned(),
            // An earlier settlement of this call may have changed the delivery.
            false => app.log.readable(tenant, &[id]).await?.remove(&id),
        };
        app.settle(recorder, tenant, endpoints, settlement, before, tried.get(&id), now).await
    });
    let settled: Vec<_> = settled.collect();
    let settled: Vec<(Settled, Option<Delivery>)> = stream::iter(settled).buffered(concurrency).try_collect().await?;
    app.note(tenant, endpoints, settled.iter().filter_map(|(_, attempted)| attempted.as_ref()), now).await;
    Ok(Results { settlements: settled.into_iter().map(|(settled, _)| settled).collect() })
}

/// The settlements' endpoints, except those that no longer exist.
type EndpointsById = BTreeMap<EndpointId, Endpoint>;
/// The states of deliveries that were written, and whether each write is known to have succeeded.
type WrittenStates = BTreeMap<DeliveryId, (Delivery, bool)>;

impl App {
    async fn endpoints_of(&self, tenant: &TenantId, settlements: &[Settlement]) -> Result<EndpointsById> {
        let mut ids: Vec<_> =
            settlements.iter().filter_map(|settlement| settlement.id.destination.endpoint()).collect();
        ids.sort_unstable();
        ids.dedup();
        let found: Vec<_> = ids.into_iter().map(|id| self.endpoints.find(tenant, id)).collect();
        let found: Vec<_> = stream::iter(found).buffered(CONCURRENCY).try_collect().await?;
        Ok(found.into_iter().flatten().map(|endpoint| (endpoint.id, endpoint)).collect())
    }

    /// Settles the deliveries whose leases are still valid, in batches.
    async fn settle_all(
        &self,
        tenant: &TenantId,
        known: &EndpointsById,
        settlements: &[Settlement],
        deliveries: &BTreeMap<DeliveryId, Delivery>,
        now: Timestamp,
    ) -> Result<WrittenStates> {
        let changes = settlements.iter().filter_map(|settlement| {
            let before = deliveries.get(&settlement.id)?;
            let endpoint = settlement.id.destination.endpoint().and_then(|id| known.get(&id));
            let is_valid = matches!(before.claim(settlement.lease, now), Claim::Valid);
            is_valid.then(|| (before, self.after(before, settlement, endpoint, now)))
        });
        let changes: Vec<_> = changes.collect();
        let settled = self.log.settle_all(tenant, &changes, now).await?;
        Ok(changes.into_iter().zip(settled).map(|((_, after), is_settled)| (after.id, (after, is_settled))).collect())
    }

    /// Records what attempts have shown about their endpoints.
    async fn note<'a>(
        &self,
        tenant: &TenantId,
        known: &EndpointsById,
        attempted: impl Iterator<Item = &'a Delivery>,
        now: Timestamp,
    ) {
        let mut attempts = BTreeMap::<EndpointId, EndpointAttempts<'_>>::new();
        for delivery in attempted {
            if let (Some(endpoint), Some(attempt)) = (delivery.webhook_endpoint_id, &delivery.last_attempt) {
                attempts.entry(endpoint).or_default().add(delivery.event, attempt);
            }
        }
        let attempts = attempts.iter().filter_map(|(id, attempts)| Some((known.get(id)?, attempts)));
        join_all(attempts.map(async |(endpoint, attempts)| {
            let noted = self.endpoints.note_attempts(tenant, endpoint.id, endpoint.health, attempts, now).await;
            // Only logged, because the settlement is recorded, and the next attempt will update the endpoint.
            if let Err(error) = noted {
                common::log!("endpoint.health_unnoted", %tenant, endpoint = %endpoint.id, ?error);
            }
        }))
        .await;
    }

    /// Settles a delivery if its lease is still valid. A repeated settlement has the same result. Also returns the
    /// delivery, if this call has recorded an attempt.
    async fn settle(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        known: &EndpointsById,
        settlement: &Settlement,
        before: Option<Delivery>,
        tried: Option<&(Delivery, bool)>,
        now: Timestamp,
    ) -> Result<(Settled, Option<Delivery>)> {
        let id = settlement.id;
        let endpoint = id.destination.endpoint().and_then(|id| known.get(&id));
        let verdict = |result: Verdict, delivery: Option<&Delivery>| Settled {
            delivery_id: id.into(),
            result: result.into(),
            status: delivery.map(|delivery| delivery.status.into()),
            next_attempt_at: delivery.and_then(|delivery| delivery.next_attempt_at).map(Into::into),
        };
        let done = if settlement.outcome.is_some() { Verdict::Settled } else { Verdict::Released };
        if let Some((after, true)) = tried {
            self.apply_outcome(recorder, tenant, after, endpoint, true, now).await?;
            self.forget(tenant, after, now).await?;
            return Ok((verdict(done, Some(after)), settlement.outcome.map(|_| after.clone())));
        }
        let tried = tried.map(|(after, _)| after.last_attempt.clone());
        retry_conflicts((before, tried), |(before, tried)| async move {
            let Some(was) = before else { return Ok(Break((verdict(Verdict::NotFound, None), None))) };
            let after = match was.claim(settlement.lease, now) {
                Claim::Over => return Ok(Break((verdict(Verdict::LeaseExpired, None), None))),
                Claim::Settled => {
                    // An earlier round of this loop may have written this and lost the response.
                    let is_new = tried.as_ref().is_some_and(|attempt| *attempt == was.last_attempt);
                    self.apply_outcome(recorder, tenant, &was, endpoint, is_new, now).await?;
                    self.forget(tenant, &was, now).await?;
                    // The delivery has ended, so an earlier settlement recorded an attempt, even if this one asks for a
                    // release.
                    let is_open = matches!(was.status, Status::Held | Status::Pending);
                    let verdict = verdict(if is_open { done } else { Verdict::Settled }, Some(&was));
                    return Ok(Break((verdict, (is_new && settlement.outcome.is_some()).then_some(was))));
                }
                Claim::Valid => self.after(&was, settlement, endpoint, now),
            };
            if self.log.settle(tenant, &was, &after, now).await? {
                self.apply_outcome(recorder, tenant, &after, endpoint, true, now).await?;
                self.forget(tenant, &after, now).await?;
                return Ok(Break((verdict(done, Some(&after)), settlement.outcome.map(|_| after))));
            }
            let current = self.log.known(tenant, &[id]).await?.remove(&id);
            Ok(Continue((current, Some(after.last_attempt))))
        })
        .await
    }

    fn after(
        &self,
        before: &Delivery,
        settlement: &Settlement,
        endpoint: Option<&Endpoint>,
        now: Timestamp,
    ) -> Delivery {
        let Some(attempt) = settlement.attempt(before, endpoint, now) else { return before.released(now) };
        let after = before.after(&attempt, &self.schedule, random::fraction, now);
        match (after.status, endpoint) {
            (_, Some(endpoint)) => endpoint.kept(after, now),
            // The endpoint was deleted, so the delivery cannot be received again.
            (Status::Pending, None) => after.after(&AttemptResult::NoEndpoint, &self.schedule, random::fraction, now),
            _ => after,
        }
    }

    /// Erases what the log has of a delivery whose endpoint does not keep it.
    async fn forget(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Result<()> {
        Erasure { endpoints: &self.endpoints, log: &self.log, tenant, now }.erase_unkept(delivery).await
    }

    async fn apply_outcome(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        delivery: &Delivery,
        endpoint: Option<&Endpoint>,
        is_new: bool,
        now: Timestamp,
    ) -> Result<()> {
        let health = endpoint.filter(|endpoint| endpoint.is_active()).map(|endpoint| endpoint.health);
        self.endpoints.apply_outcome(recorder, tenant, delivery, health, self.disable_after, is_new, now).await
    }
}
