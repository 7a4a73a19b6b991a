//! An endpoint's settings: the form fields and their parser.

use common::error::Error;
use common::{
    http::{
        Fields, FormValues, Rejected,
        page::{Field, TICKED, issues},
    },
    issue::{Problem, parse_name},
    name::Description,
    webhooks::{
        destination::{DestinationPolicy, EndpointUrl, Headers},
        endpoints::{Concurrency, EndpointView, Kind, Options},
        event::{EventFilter, EventName, MAX_WORKFLOWS, PayloadForm, WorkflowFilter},
    },
};
use maud::{Markup, html};

const CEILING: &str = "At most this many, from 1 to 100. Leave empty if your server takes any number";
const WORKFLOWS: &str =
    "One name per line, or the beginning of names and *. Leave empty for the events of all workflows";
/// The forms of a payload, with their names for people.
const PAYLOADS: [(&str, &str); 2] =
    [("full", "The whole event"), ("thin", "Without result, error and stack: your server fetches them from the API")];

/// Whether payloads are kept, in words for people.
const KEEPING: [(&str, &str); 2] =
    [("true", "Keep payloads and responses"), ("false", "Erase payloads and responses after each success")];

/// The fields of the form, which the pages' routes declare.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("url", "The URL of the endpoint."),
    ("description", "A description that identifies the endpoint."),
    ("completed", "`yes` to deliver the event `job.completed`."),
    ("failed", "`yes` to deliver the event `job.failed`."),
    ("endpoint_failing", "`yes` to deliver the notice `endpoint.failing`."),
    ("endpoint_disabled", "`yes` to deliver the notice `endpoint.disabled`."),
    ("endpoint_recovered", "`yes` to deliver the notice `endpoint.recovered`."),
    ("workflows", "The workflows whose events to deliver, one per line; empty for all."),
    ("payload", "How much of each event the endpoint gets: `full` or `thin`."),
    ("keep_payload", "`false` to erase the payload and the responses of each delivery when it succeeds."),
    ("max_concurrent", "The maximum number of requests in progress at the receiver; empty for no limit."),
    ("headers", "Headers that are sent with each attempt, one `name: value` per line. They replace the current ones."),
];

/// The selectable events, with the names of their checkboxes.
const EVENTS: [(&str, EventName); 5] = [
    ("completed", EventName::Completed),
    ("failed", EventName::Failed),
    ("endpoint_failing", EventName::EndpointFailing),
    ("endpoint_disabled", EventName::EndpointDisabled),
    ("endpoint_recovered", EventName::EndpointRecovered),
];

/// The submitted settings.
pub(crate) struct Settings {
    /// `None` for a pull endpoint.
    pub(crate) url: Option<EndpointUrl>,
    /// `None` if the field was left empty.
    pub(crate) headers: Option<Headers>,
    pub(crate) options: Options,
}

impl Settings {
    /// Reads the fields of a form.
    pub(crate) fn read(form: &FormValues, kind: Kind, policy: &DestinationPolicy) -> Result<Self, Error> {
        form.read(|fields| {
            let url = match kind {
                Kind::Push => fields.text("url", |text| EndpointUrl::parse_permitted(text.trim(), policy)).map(Some),
                Kind::Pull => Ok(None),
            };
            let description = fields.optional_text("description", Description::parse);
            let headers = fields.optional_text("headers", headers);
            let events = chosen(form, fields);
            let workflows = fields.optional_text("workflows", workflows);
            let max_concurrent = fields.optional_text("max_concurrent", ceiling);
            let payload = fields.optional_text("payload", parse_name::<PayloadForm>);
            Ok(Self {
                url: url?,
                headers: headers?.filter(|headers| !headers.is_empty()),
                options: Options {
                    description: description?.filter(|text| !text.as_str().is_empty()),
                    events: events?,
                    workflows: workflows?.flatten(),
                    payload: payload?.filter(|form| *form != PayloadForm::Full),
                    max_concurrent: max_concurrent?.flatten(),
                    keep_payload: (form.get("keep_payload") == "false").then_some(false),
                },
            })
        })
    }
}

/// Reads the event filter. Returns `None` if exactly the job events are selected, so the endpoint also gets job events
/// that later versions add.
fn chosen(form: &FormValues, fields: &mut Fields) -> Result<Option<EventFilter>, Rejected> {
    let chosen: Vec<_> = EVENTS.iter().filter(|(name, _)| form.get(name) == TICKED).map(|(_, event)| *event).collect();
    match chosen.as_slice() {
        [] => Err(fields.reject("events", Problem::format("Choose at least one event"))),
        jobs if jobs == EventName::OF_JOBS => Ok(None),
        _ => Ok(Some(chosen.into_iter().collect())),
    }
}

/// Names the events that an endpoint gets.
pub(crate) fn events(endpoint: &EndpointView) -> String {
    match &endpoint.options.events {
        Some(filter) => filter.names().collect::<Vec<_>>().join(", "),
        None => "All job events".to_owned(),
    }
}

/// Parses the names of workflows, one per line; `None` if there are none.
fn workflows(text: &str) -> Result<Option<WorkflowFilter>, Vec<Problem>> {
    let names = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let names: Vec<_> = names.map(WorkflowFilter::parse_name).collect::<Result<_, _>>()?;
    match Problem::count(names.len(), 0, MAX_WORKFLOWS) {
        Some(problem) => Err(vec![problem]),
        None => Ok((!names.is_empty()).then(|| names.into_iter().collect())),
    }
}

/// Parses a ceiling; `None` if the field was left empty.
fn ceiling(text: &str) -> Result<Option<Concurrency>, Vec<Problem>> {
    if text.trim().is_empty() { Ok(None) } else { Concurrency::parse(text).map(Some) }
}

/// Parses headers, one per line: `name: value`.
fn headers(text: &str) -> Result<Headers, Vec<Problem>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pairs: Vec<_> = lines
        .map(|line| match line.split_once(':') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => ("", None),
        })
        .collect();
    if pairs.is_empty() {
        return Ok(Headers::default());
    }
    Headers::parse(&pairs).map_err(|problems| {
        let named = problems.into_iter().map(|wrong| Problem {
            message: match wrong.member {
                Some(name) => about(&name, &wrong.problem.message),
                None => wrong.problem.message,
            },
            ..wrong.problem
        });
        named.collect()
    })
}

/// Formats a problem as a sentence about a header: `"host" is reserved`.
fn about(name: &str, problem: &str) -> String {
    let mut rest = problem.chars();
    let first: String = rest.next().into_iter().flat_map(char::to_lowercase).collect();
    format!("\"{name}\" {first}{}", rest.as_str())
}

/// The values of a new endpoint's form.
pub(crate) fn initial() -> FormValues {
    FormValues::of(EVENTS.iter().filter(|(_, event)| event.is_of_a_job()).map(|(name, _)| (*name, TICKED.to_owned())))
}

/// The values of the form with an endpoint's settings. The headers are secret.
pub(crate) fn stored(endpoint: &EndpointView) -> FormValues {
    let Options { description, events, workflows, payload, keep_payload, max_concurrent } = &endpoint.options;
    let is_wanted = |event: EventName| events.as_ref().map_or(event.is_of_a_job(), |filter| filter.wants(event));
    let ticked = EVENTS.iter().filter(|(_, event)| is_wanted(*event)).map(|(name, _)| (*name, TICKED.to_owned()));
    let texts = [
        ("url", endpoint.url.clone()),
        ("description", description.as_ref().map(|text| text.as_str().to_owned())),
        ("workflows", workflows.as_ref().map(|all| all.names().collect::<Vec<_>>().join("\n"))),
        ("payload", payload.map(|form| form.to_string())),
        ("max_concurrent", max_concurrent.map(|ceiling| ceiling.get().to_string())),
        ("keep_payload", keep_payload.map(|is_kept| is_kept.to_string())),
    ];
    FormValues::of(texts.into_iter().filter_map(|(name, text)| Some((name, text?))).chain(ticked))
}

/// The options that have been chosen, with their names, for the page.
pub(crate) fn shown(endpoint: &EndpointView) -> Vec<(&'static str, String)> {
    let Options { workflows, payload, keep_payload, max_concurrent, .. } = &endpoint.options;
    let chosen = [
        ("Workflows", workflows.as_ref().map(|all| all.names().collect::<Vec<_>>().join(", "))),
        ("Payload", (*payload == Some(PayloadForm::Thin)).then(|| "Thin: without result, error and stack".to_owned())),
        ("In the log", (*keep_payload == Some(false)).then(|| "Erased after each success".to_owned())),
        ("Requests at a time", max_concurrent.map(|ceiling| format!("At most {}", ceiling.get()))),
    ];
    chosen.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The form of an endpoint's settings.
pub(crate) struct SettingsForm<'a> {
    pub(crate) values: &'a FormValues,
    pub(crate) kind: Kind,
    /// Whether the form is still empty. If so, it hides the fields that few endpoints need.
    pub(crate) is_new: bool,
    /// The hint for the headers.
    pub(crate) headers_hint: &'static str,
}

impl SettingsForm<'_> {
    /// Renders the fields of the form with this id, and their errors.
    pub(crate) fn fields(&self, form: &str, error: Option<&Error>) -> Markup {
        let value = |name| self.values.get(name);
        html! {
            @if self.kind == Kind::Push {
                (Field::url("url", "URL", value("url")).hint("Deliveries are posted to this URL, for example https://example.com/webhooks").html(form, error))
            }
            (Field::text("description", "Description", "off", value("description")).optional().html(form, error))
            fieldset {
                legend { "Events" }
                p .hint { "The endpoint.* events report problems with your other endpoints" }
                @for (name, event) in EVENTS {
                    div {
                        input type="checkbox" id={ (form) "-" (name) } name=(name) value=(TICKED) checked[value(name) == TICKED];
                        label for={ (form) "-" (name) } { (event.as_str()) }
                    }
                }
                @if let Some(wrong) = issues("events", error).first() { p .error { (wrong) "." } }
            }
            @if self.is_new {
                details {
                    summary { "Workflows, payload and headers" }
                    (self.more(form, error))
                }
            } @else { (self.more(form, error)) }
        }
    }

    /// The fields that few endpoints need.
    fn more(&self, form: &str, error: Option<&Error>) -> Markup {
        html! {
            (Field::area("workflows", "Workflows", self.values.get("workflows")).hint(WORKFLOWS).optional().html(form, error))
            (Field::select("payload", "Payload", &PAYLOADS, self.values.get("payload")).html(form, error))
            (Field::text("max_concurrent", "Requests at a time", "off", self.values.get("max_concurrent")).hint(CEILING).optional().html(form, error))
            (Field::select("keep_payload", "In the log", &KEEPING, self.values.get("keep_payload")).html(form, error))
            (Field::area("headers", "Headers", "").hint(self.headers_hint).optional().html(form, error))
        }
    }
}
