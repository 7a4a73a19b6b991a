//! An endpoint's settings: the form fields and their parser.

use common::error::Error;
use common::{
    http::{
        Fields, Rejected, Typed,
        page::{Field, TICKED},
    },
    issue::Problem,
    name::Description,
    webhooks::{
        destination::{DestinationPolicy, EndpointUrl, Headers},
        endpoints::{EndpointView, Kind},
        event::{EventFilter, EventName, MAX_WORKFLOWS, WorkflowFilter},
    },
};
use maud::{Markup, html};

const WORKFLOWS: &str = "One exact name per line. Leave empty for the events of all workflows";
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
    /// `None` if it was left empty.
    pub(crate) description: Option<Description>,
    /// `None` for all events.
    pub(crate) events: Option<EventFilter>,
    /// `None` for all workflows.
    pub(crate) workflows: Option<WorkflowFilter>,
    /// `None` if the field was left empty.
    pub(crate) headers: Option<Headers>,
}

impl Settings {
    /// Reads the fields of a form.
    pub(crate) fn read(form: &Typed, kind: Kind, policy: &DestinationPolicy) -> Result<Self, Error> {
        form.read(|fields| {
            let url = match kind {
                Kind::Push => fields.text("url", |text| EndpointUrl::parse_permitted(text.trim(), policy)).map(Some),
                Kind::Pull => Ok(None),
            };
            let description = fields.optional_text("description", Description::parse);
            let headers = fields.optional_text("headers", headers);
            let events = chosen(form, fields);
            let workflows = fields.optional_text("workflows", workflows);
            Ok(Self {
                url: url?,
                description: description?.filter(|text| !text.as_str().is_empty()),
                events: events?,
                workflows: workflows?.flatten(),
                headers: headers?.filter(|headers| !headers.is_empty()),
            })
        })
    }
}

/// Reads the event filter. Returns `None` if exactly the job events are selected, so the endpoint also gets job events
/// that later versions add.
fn chosen(form: &Typed, fields: &mut Fields) -> Result<Option<EventFilter>, Rejected> {
    let chosen: Vec<_> = EVENTS.iter().filter(|(name, _)| form.get(name) == TICKED).map(|(_, event)| *event).collect();
    match chosen.as_slice() {
        [] => Err(fields.reject("events", Problem::format("Choose at least one event"))),
        jobs if jobs == EventName::OF_JOBS => Ok(None),
        _ => Ok(Some(chosen.into_iter().collect())),
    }
}

/// Names the events that an endpoint gets.
pub(crate) fn events(endpoint: &EndpointView) -> String {
    match &endpoint.events {
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

/// The fields with their current values.
pub(crate) struct Shown<'a> {
    /// `None` for a pull endpoint.
    pub(crate) url: Option<&'a str>,
    pub(crate) description: &'a str,
    /// The selected workflows, one per line.
    pub(crate) workflows: &'a str,
    /// For each of the events, whether it is selected.
    pub(crate) events: [bool; 5],
    /// Whether the form is still empty. If so, it hides the fields that few endpoints need.
    pub(crate) is_new: bool,
    /// The hint for the headers.
    pub(crate) headers_hint: &'static str,
}

impl Shown<'_> {
    /// Returns which events were checked in the form.
    pub(crate) fn ticked(form: &Typed) -> [bool; 5] {
        EVENTS.map(|(name, _)| form.get(name) == TICKED)
    }

    /// Returns which events the filter selects.
    pub(crate) fn wanted(filter: Option<&EventFilter>) -> [bool; 5] {
        EVENTS.map(|(_, event)| filter.map_or(event.is_of_a_job(), |filter| filter.wants(event)))
    }

    /// Renders the fields of the form with this id, and their errors.
    pub(crate) fn fields(&self, form: &str, error: Option<&Error>) -> Markup {
        html! {
            @if let Some(url) = self.url {
                (Field::url("url", "URL", url).hint("Deliveries are posted to this URL, for example https://example.com/webhooks").html(form, error))
            }
            (Field::text("description", "Description", "off", self.description).optional().html(form, error))
            fieldset {
                legend { "Events" }
                p .hint { "The endpoint.* events report problems with your other endpoints" }
                @for ((name, event), is_wanted) in EVENTS.iter().zip(self.events) {
                    div {
                        input type="checkbox" id={ (form) "-" (name) } name=(name) value=(TICKED) checked[is_wanted];
                        label for={ (form) "-" (name) } { (event.as_str()) }
                    }
                }
                @if let Some(wrong) = wrong_events(error) { p .error { (wrong) "." } }
            }
            @if self.is_new {
                details {
                    summary { "Workflows and headers" }
                    (self.more(form, error))
                }
            } @else { (self.more(form, error)) }
        }
    }

    /// The fields that few endpoints need.
    fn more(&self, form: &str, error: Option<&Error>) -> Markup {
        html! {
            (Field::area("workflows", "Workflows", self.workflows).hint(WORKFLOWS).optional().html(form, error))
            (Field::area("headers", "Headers", "").hint(self.headers_hint).optional().html(form, error))
        }
    }
}

fn wrong_events(error: Option<&Error>) -> Option<&str> {
    let Some(Error::Invalid(issues)) = error else { return None };
    let of_events = issues.iter().find(|issue| issue.path.first().is_some_and(|path| path == "events"))?;
    Some(&of_events.message)
}
