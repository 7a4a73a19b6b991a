//! The page that finds out why a request that a receiver got does not verify.

use std::sync::Arc;

use api::verification::{Finding, KeyForm, Scheme, Valid, Verification, WhichSecret};
use common::{
    accounts::users::User,
    error::{Error, Result},
    http::{
        Call, DeclaredError, FormValues, People, Route, VerifiedPerson,
        page::{Field, Form, Page, alert, visible},
    },
    id::EndpointId,
    presentation::{docs::RECEIVING, times::moment},
    timestamp::Timestamp,
    webhooks::{
        endpoints::EndpointView,
        verification::{Computed, MAX_REQUEST_BYTES, ReceivedBody, ReceivedHeaders, ReceivedRequest, Verifying},
    },
};
use maud::{Markup, html};

use crate::{app::App, deliveries::short};

const PATH: &str = "/console/verify/{id}";
const ID: (&str, &str) = ("id", "The id of the endpoint that the request was sent to.");
const FIELDS: [(&str, &str); 5] = [
    ID,
    ("seen_headers", "The headers as the receiver saw them."),
    ("body", "The text of the body as the receiver saw it."),
    ("computed", "The signature that the receiver's code computed."),
    ("received_at", "The time that the receiver's clock showed, in UTC."),
];
/// The maximum size of a value that is shown again. A Lambda response is limited to 6 MB, and HTML escapes quotes.
const SHOWN_BYTES: usize = 256 * 1024;

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[ID])), get_page)
        .summary("Shows the form for a request that does not verify. Opening the page changes nothing.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&FIELDS)), verify)
        .up_to(MAX_REQUEST_BYTES)
        .summary(
            "Finds out why a request does not verify, as `webhooks/verify` does. Nothing of it is stored or logged.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

/// The address of the page for an endpoint.
pub(crate) fn path(endpoint: EndpointId) -> String {
    format!("/console/verify/{endpoint}")
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Page> {
    page(&app, &call, &link, None).await
}

async fn verify(app: Arc<App>, call: Call<User>, form: FormValues) -> Result<Page> {
    let verified = async {
        let seen = seen(&form)?;
        let tenant = &call.caller.organization;
        let verifying = Verifying { endpoints: &app.endpoints, log: &app.log, tenant, now: Timestamp::now() };
        verifying.verify(endpoint(&form)?, &seen).await
    };
    match verified.await {
        Err(error @ Error::NotFound(_)) => Err(error),
        Err(error) if error.is_ours() => Err(error),
        result => page(&app, &call, &form, Some(result)).await,
    }
}

fn endpoint(typed: &FormValues) -> Result<EndpointId> {
    EndpointId::parse(typed.get("id")).map_err(|_not_an_id| Error::NotFound("Endpoint not found"))
}

fn seen(form: &FormValues) -> Result<ReceivedRequest> {
    form.clone().without_empty().or("seen_headers", "").or("body", "").read(|fields| {
        let headers = fields.text("seen_headers", ReceivedHeaders::parse);
        let body = fields.text("body", ReceivedBody::of_form);
        let computed = fields.optional_text("computed", Computed::parse);
        let received_at = fields.optional_text("received_at", moment);
        Ok(ReceivedRequest { headers: headers?, body: body?, computed: computed?, received_at: received_at? })
    })
}

async fn page(app: &App, call: &Call<User>, form: &FormValues, result: Option<Result<Verification>>) -> Result<Page> {
    let tenant = &call.caller.organization;
    let (endpoint, console) =
        tokio::try_join!(app.endpoints.view(tenant, endpoint(form)?), app.console(tenant, "/console"))?;
    let (found, error) = match result {
        Some(Ok(found)) => (Some(found), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let content = html! {
        @if let Some(error) = error.as_ref().filter(|error| !matches!(error, Error::Invalid(_))) { (alert(error)) }
        @if let Some(found) = &found { (result_of(found, !form.get("computed").is_empty(), &endpoint)) }
        p {
            "Paste a request to " a href={ "/console/endpoints/" (endpoint.id) } { bdi .mono { (visible(&short(&endpoint.name()))) } }
            " as your receiver got it. It is compared with what was sent, and nothing of it is stored."
        }
        (fields(form, error.as_ref()))
        p { a href=(RECEIVING) { "How to verify requests" } }
    };
    Ok(Page::new("Verify a request", content).refused(error).within(console))
}

fn fields(form: &FormValues, error: Option<&Error>) -> Markup {
    let value = |name| Some(form.get(name)).filter(|value| value.len() <= SHOWN_BYTES);
    let is_shown = FIELDS.iter().all(|(name, _)| value(name).is_some());
    let value = |name| value(name).unwrap_or_default();
    let fields = [
        Field::area("seen_headers", "Headers", value("seen_headers"))
            .hint("One per line, such as “webhook-id: msg_…”, or the JSON that your program prints"),
        Field::area("body", "Body", value("body"))
            .hint(
                "The text that your code verifies, not a copy from this console. Forms change line ends: for a body with carriage returns, and \
                 for bytes that are not UTF-8, use “fanfare verify”",
            )
            .optional(),
        Field::text("computed", "Signature that your code computed", "off", value("computed"))
            .hint("With it, mistakes in your code are found, too")
            .optional(),
        Field::moment("received_at", "Time of your receiver (UTC)", value("received_at"))
            .hint("With it, the clocks are compared")
            .optional(),
    ];
    html! {
        @if !is_shown { p .soft { "A value is too large to be shown here again." } }
        (Form { button: "Verify", fields: &fields, error, ..Form::default() })
    }
}

fn result_of(found: &Verification, has_computed: bool, endpoint: &EndpointView) -> Markup {
    html! {
        div .notice.good[found.verified].bad[!found.verified] role="status" {
            p { strong { @if found.verified { "Verified" } @else { "Not verified" } } }
            @for valid in &found.valid { p { (valid_line(valid)) } }
            @for cause in &found.causes { (finding(cause, endpoint)) }
            @if found.verified && !has_computed { p { "If your code rejects this request, its mistake is elsewhere: enter the signature that it computed." } }
        }
        @for remark in &found.remarks { p .soft { (message(&remark.message)) } }
    }
}

/// A message, whose backticks mark code.
fn message(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (visible(part)) } } @else { (visible(part)) }
        }
    }
}

fn valid_line(Valid { scheme, secret, key }: &Valid) -> Markup {
    html! {
        code { @if *scheme == Scheme::Body { "x-webhook-signature" } @else { "webhook-signature" } }
        " is valid, with the "
        @if *secret == WhichSecret::Previous { "previous" } @else { "current" } " secret "
        @if *key == KeyForm::Decoded { "decoded from base64." } @else { "as text." }
    }
}

fn finding(found: &Finding, endpoint: &EndpointView) -> Markup {
    let other = found.webhook_endpoint_id.as_ref().filter(|id| id.as_str() != endpoint.id.to_string());
    html! {
        p {
            (message(&found.message))
            @if let Some(other) = other { " " a href={ "/console/endpoints/" (other) } { "View the endpoint" } }
            @if let Some(delivery) = &found.delivery_id { " " a href={ "/console/deliveries/" (delivery) } { "View the delivery" } }
        }
        @if let (Some(at), Some(sent), Some(seen)) = (found.at, &found.sent, &found.seen) {
            dl {
                dt { "From byte" }
                dd { (at) }
                dt { "Sent" }
                dd .mono { bdi .lines { (visible(sent)) } }
                dt { "Seen" }
                dd .mono { bdi .lines { (visible(seen)) } }
            }
        }
    }
}
