//! Webhook endpoints: the routes under `/v1/webhooks`.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    call::{Done, MAX_ELEMENTS},
    name::Extensible,
    strings::{DeliveryId, Description, EndpointId, Secret, Timestamp, Workflow},
};

names! {
    /// The name of an event.
    EventName {
        Completed = "job.completed",
        Failed = "job.failed",
        // A test of an endpoint. Producers can send neither tests nor notices about endpoints.
        Test = "webhook.test",
        EndpointFailing = "endpoint.failing",
        EndpointDisabled = "endpoint.disabled",
        EndpointRecovered = "endpoint.recovered",
    }

    /// How events reach the receiver.
    Kind {
        /// The service posts events to the endpoint's URL.
        Push = "push",
        /// The organization's program fetches events from the service.
        Pull = "pull",
    }

    /// How much of an event an endpoint gets.
    PayloadForm {
        /// The whole event.
        Full = "full",
        /// The event without the results of its job: `result`, `error` and `mapped_stack` are null.
        Thin = "thin",
    }

    /// Why the service disabled an endpoint.
    DisabledReason {
        /// The receiver responded with HTTP 410.
        Gone = "gone",
        /// The endpoint had been failing for too long.
        Failing = "failing",
    }
}

impl EventName {
    /// Job events, which endpoints get by default.
    pub const OF_JOBS: [Self; 2] = [Self::Completed, Self::Failed];
    /// The events that endpoints can select: job events, and notices about other endpoints.
    pub const CHOICES: [Self; 5] =
        [Self::Completed, Self::Failed, Self::EndpointFailing, Self::EndpointDisabled, Self::EndpointRecovered];

    /// Whether this is a job event.
    pub fn is_of_a_job(self) -> bool {
        Self::OF_JOBS.contains(&self)
    }

    /// Returns the body of a sample of the event, with the members of every event in their usual order. Programs that parse
    /// a body and write it again change its numbers and its escape, so such a mistake shows at the first test.
    pub fn sample(self) -> &'static str {
        match self {
            Self::Completed => {
                r#"{"event":"job.completed","job_id":"test","nonce":null,"workflow":"sample","deployment_id":null,"status":"completed","result":{"answer":42,"rate":1.0,"id":12345678901234567890,"name":"Zo\u00eb"},"error":null,"mapped_stack":null}"#
            }
            Self::Failed => {
                r#"{"event":"job.failed","job_id":"test","nonce":null,"workflow":"sample","deployment_id":null,"status":"failed","result":null,"error":{"message":"A sample error","line":7.0},"mapped_stack":null}"#
            }
            Self::Test => {
                r#"{"event":"webhook.test","job_id":"test","nonce":null,"workflow":null,"deployment_id":null,"status":null,"result":null,"error":null,"mapped_stack":null}"#
            }
            Self::EndpointFailing => {
                r#"{"event":"endpoint.failing","webhook_endpoint_id":"01a1fd8f-0d9d-7467-9431-944eedd69c67","url":"https://example.com/hook","since":"2026-01-31T12:00:00.000Z","reason":"status_5xx","failed":0,"at":"2026-01-31T12:05:00.000Z","delivery_id":"01a1fd8f-0d9d-7467-9431-944eedd69c67.0.19ba5b2f3a0.0123456789abcdef0123456789abcdef","job_id":"job-7","workflow":"nightly","outcome":"status_5xx","pending":2}"#
            }
            Self::EndpointDisabled => {
                r#"{"event":"endpoint.disabled","webhook_endpoint_id":"01a1fd8f-0d9d-7467-9431-944eedd69c67","url":"https://example.com/hook","since":"2026-01-31T12:00:00.000Z","reason":"gone","failed":1,"at":"2026-01-31T12:00:00.000Z","delivery_id":"01a1fd8f-0d9d-7467-9431-944eedd69c67.0.19ba5b2f3a0.0123456789abcdef0123456789abcdef","job_id":"job-7","workflow":"nightly","outcome":"gone","pending":0}"#
            }
            Self::EndpointRecovered => {
                r#"{"event":"endpoint.recovered","webhook_endpoint_id":"01a1fd8f-0d9d-7467-9431-944eedd69c67","url":"https://example.com/hook","since":"2026-01-31T12:00:00.000Z","reason":null,"failed":1,"at":"2026-01-31T12:00:00.000Z","delivery_id":null,"job_id":null,"workflow":null,"outcome":null,"pending":0}"#
            }
        }
    }
}

/// The events that an endpoint gets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct EventFilter(pub Vec<Extensible<EventName>>);

impl fmt::Display for EventFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }
}

impl JsonSchema for EventFilter {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EventFilter".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Duplicates are ignored.",
            "type": "array",
            "items": { "type": "string", "enum": EventName::CHOICES.map(EventName::as_str) },
            "minItems": 1,
            "maxItems": MAX_ELEMENTS,
        })
    }
}

/// The maximum number of workflows that an endpoint can select.
pub const MAX_WORKFLOWS: usize = 20;

/// The workflows whose events an endpoint gets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct WorkflowFilter(pub Vec<Workflow>);

impl fmt::Display for WorkflowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(Workflow::as_str).collect::<Vec<_>>().join(", "))
    }
}

impl JsonSchema for WorkflowFilter {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WorkflowFilter".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Duplicates are ignored.",
            "type": "array",
            "items": Workflow::json_schema(generator),
            "minItems": 1,
            "maxItems": MAX_WORKFLOWS,
        })
    }
}

/// The options of an endpoint, each declared once: settings that may be left out when an endpoint is created, and that
/// can be changed later. From this follow the fields of the calls and their descriptions, the members of an endpoint in
/// the API, the attributes of its item, and its entries in the audit log.
///
/// `$with` is a macro that gets the declarations. Each has the description of an endpoint's member, its name, the type
/// of its value in `common`, the type of the field in a call, the type and schema of the member, and the descriptions of
/// the fields of `create` and `update`.
#[macro_export]
macro_rules! endpoint_options {
    ($with:ident) => {
        $with! {
            /// The endpoint's description; absent if it has none.
            description: Description {
                field: String, member: Description as "Description",
                create: "A description to tell the endpoint apart from your other endpoints. By default, or with \
                         `null`, the endpoint has no description.",
                update: "A new description to tell the endpoint apart from your other endpoints. `null` removes it.",
            }
            /// The events that the endpoint gets; absent if it gets all job events.
            events: EventFilter {
                field: Vec<String>, member: EventFilter as "EventFilter",
                create: "The events that the endpoint gets. By default, or with `null`, it gets all job events. The \
                         notices `endpoint.failing`, `endpoint.disabled` and `endpoint.recovered` about the \
                         organization's other endpoints are sent only to endpoints that list them.",
                update: "The events that the endpoint gets from now on. `null` selects all job events. Existing \
                         deliveries are not affected.",
            }
            /// The workflows whose events the endpoint gets; absent if it gets the events of all workflows.
            workflows: WorkflowFilter {
                field: Vec<String>, member: WorkflowFilter as "WorkflowFilter",
                create: "The names of the workflows whose events the endpoint gets. A name must match a job's `workflow` \
                         exactly; one that ends in `*` matches every name that begins with the part before it. Events of other \
                         jobs are not sent. By default, or with `null`, the endpoint gets the events of all workflows. Test \
                         events are always sent.",
                update: "The names of the workflows whose events the endpoint gets from now on. A name must match a \
                         job's `workflow` exactly, or up to a final `*`. `null` selects all workflows.",
            }
            /// How much of each event the endpoint gets: all of it (`full`), or the event without the results of its
            /// job (`thin`); absent if it has not been chosen, which means `full`.
            payload: PayloadForm {
                field: PayloadForm, member: Extensible<PayloadForm> as "PayloadForm",
                create: "`full` sends the whole event. `thin` sends it with the members `result`, `error` and \
                         `mapped_stack` null, and with the header `x-event-payload: thin`: your receiver fetches the \
                         results with `deliveries/get`, which needs the payload to be kept. The default, also for \
                         `null`, is `full`.",
                update: "The form of the payload in attempts from now on: `full`, or `thin` for events whose `result`, \
                         `error` and `mapped_stack` are null. `null` selects `full`.",
            }
            /// Whether the log keeps the payload and the responses of a delivery that has succeeded; absent if it has not
            /// been chosen, which means `true`.
            keep_payload: bool {
                field: bool, member: bool as "bool",
                create: "`false` erases the payload and the responses of each delivery when it succeeds. It can then no \
                         longer be resent. A delivery that fails keeps them until it succeeds or expires. The default, \
                         also for `null`, is `true`.",
                update: "Whether the payload and the responses of a delivery are kept after its success. This applies to \
                         deliveries that succeed from now on. `null` selects `true`.",
            }
            /// The maximum number of requests in progress at the receiver; absent if there is none.
            max_concurrent: Concurrency {
                field: u32, member: u32 as "u32",
                create: "The maximum number of requests in progress at the receiver, from 1 to 100. Other deliveries \
                         wait. By default, or with `null`, the service chooses. The limit is exact for a receiver that \
                         takes more than a second to respond. While a receiver is quicker, each of the service's \
                         processes observes it on its own. A pull endpoint gets no requests.",
                update: "The maximum number of requests in progress at the receiver, from 1 to 100. `null` removes it.",
            }
        }
    };
}

macro_rules! with_options {
    ($($(#[$doc:meta])* $name:ident: $type:ident {
        field: $input:ty, member: $shown:ty as $schema:literal, create: $create:literal,
        update: $update:literal,
    })*) => {
        calls! {
            POST "/v1/webhooks/create" Create -> Created {
                required {}
                optional {
                    kind: Kind,
                    url: String,
                    signing_secret: Secret,
                    headers: Option<BTreeMap<String, Secret>>,
                    active: bool,
                    $($name: Option<$input>,)*
                }
            }
            POST "/v1/webhooks/list" List -> Listed { required {} optional {} }
            POST "/v1/webhooks/update" Update -> Done {
                required { id: EndpointId }
                optional {
                    url: String,
                    signing_secret: Secret,
                    rotation_overlap_seconds: u32,
                    headers: Option<BTreeMap<String, Secret>>,
                    active: bool,
                    $($name: Option<$input>,)*
                }
            }
            POST "/v1/webhooks/test" Test -> Tested { required { id: EndpointId } optional { event: EventName } }
            POST "/v1/webhooks/delete" Delete -> Done { required { id: EndpointId } optional {} }
        }

        /// An endpoint, without its secret or header values.
        #[derive(Deserialize, JsonSchema, Serialize)]
        #[schemars(deny_unknown_fields, rename = "WebhookEndpoint")]
        #[schemars(extend("examples" = [{
            "webhook_endpoint_id": "01a1fd8f-0d9d-7467-9431-944eedd69c67",
            "kind": "push",
            "url": "https://example.com/hook",
            "description": "Our staging server",
            "active": true,
            "events": ["job.completed"],
            "header_names": ["authorization"],
            "created_at": "2026-01-31T12:00:00.000Z",
            "updated_at": "2026-01-31T12:00:00.000Z",
        }]))]
        pub struct Endpoint {
            /// The id of the endpoint.
            pub webhook_endpoint_id: EndpointId,
            /// How events reach the receiver: the service posts them (`push`), or a program fetches them (`pull`).
            pub kind: Extensible<Kind>,
            /// The URL that events are posted to; absent for pull endpoints.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "String")]
            #[schemars(extend("examples" = ["https://example.com/hook"]))]
            pub url: Option<String>,
            /// The URL that requests are sent to: `url` with resolved dots in its path, encoded characters and the host in
            /// lower case. Absent if it is the same as `url`, apart from the slash after the host, or has more than 1,000
            /// characters.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "String")]
            #[schemars(extend("examples" = ["https://example.com/hook"]))]
            pub url_as_sent: Option<String>,
            /// Whether the endpoint is active. Deliveries to an inactive endpoint are held.
            pub active: bool,
            $(
                $(#[$doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                #[schemars(with = $schema)]
                pub $name: Option<$shown>,
            )*
            /// The names of the headers that are sent with each attempt, in lower case and sorted; absent if the endpoint has
            /// none.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(!default, extend("minItems" = 1, "maxItems" = 10))]
            #[schemars(extend("examples" = [["authorization"]]))]
            pub header_names: Vec<String>,
            /// When the endpoint was created.
            pub created_at: Timestamp,
            /// When the endpoint was last changed.
            pub updated_at: Timestamp,
            /// The end of the period in which events are also signed with the previous secret; absent afterward.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Timestamp")]
            pub previous_secret_expires_at: Option<Timestamp>,
            /// The time of the first failed attempt after the last success, if the endpoint is failing: at least three
            /// attempts in a row have failed, the first of them at least five minutes ago, or a delivery has failed
            /// permanently. Absent if the endpoint is not failing.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Timestamp")]
            pub failing_since: Option<Timestamp>,
            /// When a delivery first failed permanently, after all its attempts. None has succeeded since then. The service
            /// disables the endpoint if this continues for days. Absent if no delivery has failed since the last success.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Timestamp")]
            pub first_failed_delivery_at: Option<Timestamp>,
            /// When the service disabled the endpoint; absent if the service has not disabled it.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Timestamp")]
            pub disabled_at: Option<Timestamp>,
            /// Why the service disabled the endpoint; absent if the service has not disabled it.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "DisabledReason")]
            pub disabled_reason: Option<Extensible<DisabledReason>>,
            /// When a program last called `receive` for the pull endpoint, accurate to within ten minutes; absent before the
            /// first call.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Timestamp")]
            pub last_asked_at: Option<Timestamp>,
            /// When a program last received a delivery from the pull endpoint, accurate to within a minute; absent before the
            /// first delivery.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Timestamp")]
            pub last_taken_at: Option<Timestamp>,
        }
    };
}

endpoint_options!(with_options);

/// The id of the new endpoint, and its secret if the service generated it.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Created {
    /// Always `true`; failures are returned as errors.
    pub success: bool,
    /// The id of the new endpoint.
    pub webhook_endpoint_id: EndpointId,
    /// A human-readable summary of the result.
    #[schemars(extend("examples" = ["Webhook endpoint created"]))]
    pub message: String,
    /// The secret that the service generated: `whsec_` followed by the base64 of 32 random bytes; absent if you sent
    /// your own. Only this call, and its repetitions with the same `idempotency-key`, return the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Secret", extend(
        "pattern" = "^whsec_[A-Za-z0-9+/]{43}=$",
        "examples" = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
    ))]
    pub signing_secret: Option<Secret>,
}

/// The endpoints of the organization.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Listed {
    /// All endpoints of the organization, oldest first.
    pub webhook_endpoints: Vec<Endpoint>,
}

/// The delivery that carries the test event.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Tested {
    /// Always `true`; failures are returned as errors.
    pub success: bool,
    /// A human-readable summary of the result.
    #[schemars(extend("examples" = ["Test event will be sent"]))]
    pub message: String,
    /// The id of the test delivery. `deliveries/get` shows its result.
    pub delivery_id: DeliveryId,
}
