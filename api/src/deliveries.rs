//! The delivery log: the routes under `/v1/deliveries`.

use std::{borrow::Cow, collections::BTreeMap, ops::AddAssign};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    call::Done,
    name::Extensible,
    strings::{Cursor, DeliveryId, EndpointId, LeaseId, RecoveryId, Timestamp, WebhookId},
    webhooks::EventName,
};

names! {
    /// The status of a delivery.
    Status {
        /// An attempt is due or scheduled.
        Pending = "pending",
        /// The receiver accepted the delivery.
        Delivered = "delivered",
        /// The delivery failed permanently. No more attempts are made.
        Failed = "failed",
        /// The endpoint is inactive. The delivery is sent only after a resend or a recovery.
        Held = "held",
        /// The endpoint was deleted, or the delivery was erased while it waited at a pull endpoint.
        Ended = "ended",
    }

    /// The reason for an attempt.
    Trigger {
        /// The event: the first attempt.
        Event = "event",
        /// A retry by the schedule.
        Schedule = "schedule",
        /// A resend.
        Resend = "resend",
        /// A recovery.
        Recovery = "recovery",
        /// A test of the endpoint.
        Test = "test",
    }

    /// The deliveries that a recovery resends.
    #[derive(Default)]
    Missed {
        /// Failed deliveries.
        Failed = "failed",
        /// Held deliveries.
        Held = "held",
        /// Failed and held deliveries.
        #[default]
        Both = "both",
        /// Pending deliveries whose next attempt is not due yet.
        Pending = "pending",
    }

    /// Why a receiver did not respond.
    Unanswered {
        /// No complete response arrived in time.
        Timeout = "timeout",
        /// The host name has no address.
        Dns = "dns",
        /// No address accepted a connection.
        Connect = "connect",
        /// The TLS handshake failed.
        Tls = "tls",
        /// The connection closed early, or the response was not valid HTTP.
        Protocol = "protocol",
    }

    /// The time of a request, which its signature covers.
    SignedAt {
        /// The time of the call.
        Now = "now",
        /// The time of the latest attempt.
        LatestAttempt = "latest_attempt",
    }

    /// The result of a settlement.
    Verdict {
        /// The settlement was recorded as an attempt.
        Settled = "settled",
        /// The lease was released, and the delivery can be received again.
        Released = "released",
        /// The lease had ended. The settlement changed nothing.
        LeaseExpired = "lease_expired",
        /// The delivery does not exist.
        NotFound = "not_found",
    }
}

calls! {
    POST "/v1/deliveries/list" List -> Listed {
        required {}
        optional {
            webhook_endpoint_id: EndpointId,
            status: Status,
            event: String,
            job_id: String,
            webhook_id: WebhookId,
            outcome: String,
            workflow: String,
            since: Timestamp,
            until: Timestamp,
            limit: usize,
            cursor: Cursor,
        }
    }
    POST "/v1/deliveries/get" Get -> Found { required { delivery_id: DeliveryId } optional { request: SignedAt } }
    POST "/v1/deliveries/resend" Resend -> Done { required { delivery_id: DeliveryId } optional {} }
    POST "/v1/deliveries/erase" Erase -> Erased {
        required {}
        optional {
            delivery_id: DeliveryId,
            job_id: String,
            webhook_endpoint_id: EndpointId,
            since: Timestamp,
            until: Timestamp,
            cursor: Cursor,
        }
    }
    POST "/v1/deliveries/recover" Recover -> Recovering {
        required { since: Timestamp }
        optional {
            webhook_endpoint_id: EndpointId,
            until: Timestamp,
            status: Missed,
            outcome: String,
            workflow: String,
        }
    }
    POST "/v1/deliveries/stats" Count -> Counted { required {} optional { webhook_endpoint_id: EndpointId, since: Timestamp } }
    POST "/v1/deliveries/receive" Receive -> Received { required { webhook_endpoint_id: EndpointId } optional { limit: usize } }
    POST "/v1/deliveries/settle" Settle -> Results { required { settlements: Vec<Settlement> } optional {} }
}

inputs! {
    /// The result of a received delivery.
    Settlement {
        required { delivery_id: DeliveryId, lease: LeaseId }
        optional { status_code: u16, error: Unanswered, duration_ms: u64, response: String }
    }
}

/// A page of deliveries.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Listed {
    /// The deliveries on this page, newest first. A page can be empty and still have a `next_cursor`.
    pub deliveries: Vec<Delivery>,
    /// The `cursor` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Cursor")]
    pub next_cursor: Option<Cursor>,
}

/// A delivery in the delivery log.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Delivery {
    /// The id of the delivery, for `get` and `resend`.
    pub delivery_id: DeliveryId,
    /// The value of the `webhook-id` header, which receivers use to recognize duplicates.
    pub webhook_id: WebhookId,
    /// The endpoint's id; absent for a job's callback.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EndpointId")]
    pub webhook_endpoint_id: Option<EndpointId>,
    /// The name of the event.
    pub event: Extensible<EventName>,
    /// The first 1,024 bytes of the id of the event's job or, for a notice, the id of the endpoint.
    #[schemars(extend("examples" = ["job_4821"]))]
    pub job_id: String,
    /// The first 400 bytes of the name of the job's workflow; absent if the event has none, or if the name is not a
    /// string.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    #[schemars(extend("examples" = ["nightly-import"]))]
    pub workflow: Option<String>,
    /// The status of the delivery.
    pub status: Extensible<Status>,
    /// The number of attempts so far.
    pub attempts: u32,
    /// When the event entered its queue.
    pub created_at: Timestamp,
    /// When the next attempt is due. A time in the past means that the attempt is in progress, or waits for its
    /// receiver because the receiver is slow or silent. Present only while the delivery is `pending`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub next_attempt_at: Option<Timestamp>,
    /// The latest attempt; absent before the first attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Attempt")]
    pub last_attempt: Option<Attempt>,
    /// When the payload and the responses were erased; absent if they have not been erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub erased_at: Option<Timestamp>,
}

/// One POST to the receiver.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Attempt {
    /// When the attempt started.
    pub at: Timestamp,
    /// `delivered`, or the reason for the failure.
    #[schemars(extend("examples" = ["redirect"]))]
    pub outcome: Cow<'static, str>,
    /// The HTTP status of the response; absent if the receiver did not respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    #[schemars(extend("examples" = [308]))]
    pub status_code: Option<u16>,
    /// The cause of the failure, such as an expired certificate or the target of a redirect; absent if it is unknown.
    /// The wording may change; programs can rely on `outcome`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    #[schemars(extend("examples" = ["The receiver redirected the request to https://example.com/new"]))]
    pub detail: Option<String>,
    /// The duration of the attempt, in milliseconds.
    pub duration_ms: u32,
    /// The first 1,024 bytes of the response to a failed attempt; absent if there was none. If the response repeats a
    /// word of eight or more characters from the values of the endpoint's headers, `[secret]` replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    #[schemars(extend("examples" = ["Moved to /new"]))]
    pub response: Option<String>,
    /// The reason for the attempt.
    pub trigger: Extensible<Trigger>,
}

/// A delivery with its payload and its attempts.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Found {
    /// The delivery.
    pub delivery: Delivery,
    /// The body of the request, byte for byte; absent if it was erased or not kept. Once delivered, payloads of more
    /// than 8 KiB after compression are not kept. Beside a `request`, it has the form that was sent or, without a
    /// success, that the endpoint gets now: a thin one has no results. Otherwise, it is always full.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    #[schemars(extend("examples" = [r#"{"event":"job.completed","job_id":"job_4821"}"#]))]
    pub payload: Option<String>,
    /// The headers of the request with the `payload` as its body, if the call has the field `request`; absent if the
    /// payload was erased or not kept, if the endpoint was deleted, or if the latest attempt is requested and there was
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SignedRequest")]
    pub request: Option<SignedRequest>,
    /// All attempts, oldest first. If there are very many, only the newest 201 are returned.
    pub attempts: Vec<Attempt>,
}

/// The headers of a request to a receiver, with its signatures.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct SignedRequest {
    /// The headers, with signatures by the secrets that the endpoint has now, but without the endpoint's own headers.
    #[schemars(extend("examples" = [{"content-type": "application/json", "webhook-id": "msg_0123456789abcdef0123456789abcdef"}]))]
    pub headers: BTreeMap<String, String>,
    /// The names of the endpoint's own headers, whose values are secret.
    #[schemars(extend("examples" = [["authorization"]]))]
    pub secret_headers: Vec<String>,
}

/// The erased deliveries.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Erased {
    /// Always `true`; failures are returned as errors.
    pub success: bool,
    /// A human-readable summary of the result.
    #[schemars(extend("examples" = ["1 delivery erased"]))]
    pub message: String,
    /// The number of deliveries that are now erased, including those erased by earlier calls; for a period, only those of
    /// the last hour.
    pub erased: usize,
    /// The `cursor` for the next call, which erases older deliveries of the job or the period; absent if none are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Cursor")]
    pub next_cursor: Option<Cursor>,
}

/// The new recovery, or the waiting one that the call joined.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Recovering {
    /// Always `true`; failures are returned as errors.
    pub success: bool,
    /// A human-readable summary of the result.
    #[schemars(extend("examples" = ["Deliveries will be recovered"]))]
    pub message: String,
    /// The id of the recovery. `stats` shows its progress.
    pub recovery_id: RecoveryId,
}

/// A recovery and its progress.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Recovery {
    /// The id of the recovery.
    pub recovery_id: RecoveryId,
    /// The id of the endpoint whose deliveries are resent; absent for all active endpoints and job callbacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EndpointId")]
    pub webhook_endpoint_id: Option<EndpointId>,
    /// The start of the period: deliveries that were created at this time or later are resent.
    pub since: Timestamp,
    /// The end of the period: deliveries that were created before this time are resent.
    pub until: Timestamp,
    /// The status of the deliveries that are resent.
    pub status: Extensible<Missed>,
    /// The outcome of the last attempt of the deliveries that are resent; absent for any outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    #[schemars(extend("examples" = ["status_5xx"]))]
    pub outcome: Option<String>,
    /// The workflow of the deliveries that are resent; absent for any workflow or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    #[schemars(extend("examples" = ["nightly-import"]))]
    pub workflow: Option<String>,
    /// The number of deliveries that have been resent so far.
    pub resent: u32,
    /// Whether the recovery has resent all its deliveries.
    pub done: bool,
}

/// The counts of the deliveries, and the latest recoveries.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Counted {
    /// The start of the period: deliveries that were created at this time or later are counted.
    pub since: Timestamp,
    /// Whether all deliveries in the period were counted. If there are too many, only the newest are counted.
    pub complete: bool,
    /// The start of the part of the period in which all deliveries were counted; absent if `complete` is true. Older
    /// successes are not included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub complete_since: Option<Timestamp>,
    /// The number of deliveries by status.
    pub total: Counts,
    /// The number of deliveries by status for each hour in which they were created, oldest first. Hours without
    /// deliveries are omitted.
    pub hours: Vec<Hour>,
    /// The number of failed deliveries by the reason for their last failure, most frequent first. Only the newest 1,000
    /// failed deliveries are included.
    pub failures: Vec<FailureReason>,
    /// All current pending, failed and held deliveries, regardless of when they were created.
    pub open: OpenDeliveries,
    /// The latest failed attempt at an existing endpoint, accurate to within a minute; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LastError")]
    pub last_error: Option<LastError>,
    /// The ten latest recoveries, newest first.
    pub recoveries: Vec<Recovery>,
}

/// The number of deliveries by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Counts {
    /// The number of deliveries that are waiting for an attempt.
    pub pending: u32,
    /// The number of deliveries that succeeded.
    pub delivered: u32,
    /// The number of deliveries that failed permanently.
    pub failed: u32,
    /// The number of deliveries that are held, because their endpoint is inactive or because no program has received
    /// them yet.
    pub held: u32,
    /// The number of deliveries that ended because their endpoint was deleted, or because they were erased while they
    /// waited at a pull endpoint.
    pub ended: u32,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.pending += other.pending;
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.held += other.held;
        self.ended += other.ended;
    }
}

/// The undelivered deliveries, by status.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct OpenDeliveries {
    /// The deliveries that are waiting for an attempt.
    pub pending: OpenOfAStatus,
    /// The deliveries that failed permanently.
    pub failed: OpenOfAStatus,
    /// The deliveries that are held.
    pub held: OpenOfAStatus,
}

/// The deliveries with one status.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "DeliveriesOfAStatus")]
pub struct OpenOfAStatus {
    /// The number of deliveries.
    pub count: usize,
    /// Whether there are more deliveries. Counting stops at 10,000 in each part of the log.
    pub more: bool,
    /// When the oldest of these deliveries was created; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub oldest_at: Option<Timestamp>,
}

/// The latest failed attempt.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct LastError {
    /// When the attempt started.
    pub at: Timestamp,
    /// The reason for the failure.
    #[schemars(extend("examples" = ["status_5xx"]))]
    pub reason: String,
    /// The HTTP status of the response; absent if the receiver did not respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    #[schemars(extend("examples" = [503]))]
    pub status_code: Option<u16>,
}

/// The number of deliveries that were created in one hour.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "DeliveriesOfAnHour")]
pub struct Hour {
    /// The start of the hour, in UTC.
    pub hour: Timestamp,
    /// The number of deliveries that are waiting for an attempt.
    pub pending: u32,
    /// The number of deliveries that succeeded.
    pub delivered: u32,
    /// The number of deliveries that failed.
    pub failed: u32,
    /// The number of deliveries that are held.
    pub held: u32,
    /// The number of deliveries that ended.
    pub ended: u32,
}

/// The number of deliveries that failed for the same reason.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct FailureReason {
    /// The outcome of the last attempt, or `untaken` for a pull endpoint.
    #[schemars(extend("examples" = ["status_5xx"]))]
    pub reason: String,
    /// The number of deliveries that failed for this reason.
    pub count: u32,
}

/// The received deliveries, and the time to wait before the next call.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Received {
    /// The received deliveries, longest due first.
    pub deliveries: Vec<LeasedDelivery>,
    /// The number of milliseconds to wait before the next call: 0 if more deliveries may be due, 1,000 during the ten
    /// minutes after a delivery was received, and 3,000 otherwise.
    pub poll_after_ms: u32,
    /// The end of the period in which deliveries are also signed with the previous secret; absent afterward.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub previous_secret_expires_at: Option<Timestamp>,
}

/// A delivery with its lease. The holder of the lease posts the delivery and settles it with the receiver's response.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct LeasedDelivery {
    /// The id of the delivery, which is required to settle it.
    pub delivery_id: DeliveryId,
    /// The name of the event.
    pub event: Extensible<EventName>,
    /// The id of the event's job.
    #[schemars(extend("examples" = ["job_4821"]))]
    pub job_id: String,
    /// The id of the lease, which is required to settle the delivery.
    pub lease: LeaseId,
    /// When the lease ends, after 60 seconds. If the delivery has not been settled by then, it can be received again.
    pub lease_expires_at: Timestamp,
    /// The number of this attempt, starting at 1.
    #[schemars(range(min = 1))]
    pub attempt: u32,
    /// The headers of the request to your receiver, including the endpoint's own headers and a fresh signature.
    #[schemars(extend("examples" = [{"content-type": "application/json", "webhook-id": "msg_0123456789abcdef0123456789abcdef"}]))]
    pub headers: BTreeMap<String, String>,
    /// The body of the request to your receiver, byte for byte.
    #[schemars(extend("examples" = [r#"{"event":"job.completed","job_id":"job_4821"}"#]))]
    pub body: String,
}

/// The results of the settlements.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Results {
    /// The result of each settlement, in the order they were sent.
    pub settlements: Vec<Settled>,
}

/// The result of a settlement.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Settled {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// Whether the settlement was recorded.
    pub result: Extensible<Verdict>,
    /// The status of the delivery after the settlement; absent if nothing was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Status")]
    pub status: Option<Extensible<Status>>,
    /// When the delivery can be received again. Present only if it is `pending`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub next_attempt_at: Option<Timestamp>,
}
