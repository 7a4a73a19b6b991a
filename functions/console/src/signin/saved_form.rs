//! Restores the fields of a form that was submitted after its session had ended, once the user has signed in again.

use api::ClosedSet as _;
use common::{
    accounts::permissions::Scope,
    http::{
        AGAIN, FormValues,
        page::{Field, Page, TICKED, visible},
    },
    presentation::times::moment,
    timestamp::Timestamp,
};
use maud::html;
use url::form_urlencoded;

use crate::{keys, settings};

/// The fields that people fill in, with their labels. Other fields are restored, but not shown.
const LABELS: [(&str, &str); 33] = [
    ("url", "URL"),
    ("description", "Description"),
    ("workflows", "Workflows"),
    ("completed", "job.completed"),
    ("failed", "job.failed"),
    ("endpoint_failing", "endpoint.failing"),
    ("endpoint_disabled", "endpoint.disabled"),
    ("endpoint_recovered", "endpoint.recovered"),
    ("payload", "Payload"),
    ("keep_payload", "In the log"),
    ("max_concurrent", "Requests at a time"),
    ("overlap", "The old secret stays valid"),
    ("no_headers", "Remove all headers"),
    ("since", "From"),
    ("until", "Until"),
    ("name", "Name"),
    ("expires", "Expires"),
    ("email", "Email"),
    ("newEmail", "New email"),
    ("role", "Role"),
    ("debugNotificationEmail", "Email for notifications"),
    ("jobFailureMails", "Emails about failed jobs"),
    ("requireTwoFactor", "Second factor"),
    ("organizationName", "Organization name"),
    ("seen_headers", "Headers"),
    ("computed", "Signature that your code computed"),
    ("received_at", "Time of your receiver"),
    ("event", "Event"),
    ("status", "Deliveries"),
    ("activate", "Enable the endpoint first"),
    ("ids", "Deliveries"),
    ("access", "May use"),
    ("kind", "Acts for"),
];

/// The choices of fields, as values and words. Those of the forms about endpoints, which another function shows, are
/// repeated here.
const CHOICES: [(&str, &[(&str, &str)]); 10] = [
    ("payload", &[("full", "The whole event"), ("thin", "Without result, error and stack")]),
    (
        "keep_payload",
        &[("true", "Keep payloads and responses"), ("false", "Erase payloads and responses after each success")],
    ),
    ("overlap", &[("0", "No longer"), ("86400", "For a day"), ("604800", "For a week")]),
    ("status", &[("both", "Failed and held"), ("failed", "Failed"), ("held", "Held"), ("pending", "Pending")]),
    ("role", &[("owner", "Owner"), ("member", "Member")]),
    ("expires", &keys::EXPIRES),
    ("access", &keys::ACCESS),
    ("kind", &keys::KINDS),
    ("requireTwoFactor", &settings::FACTORS),
    ("jobFailureMails", &settings::MAILS),
];

/// The fields that name the object of a button in a table. A person who cannot see the row could not check which one it is.
const OBJECTS: [&str; 4] = ["memberId", "invitationId", "keyId", "session"];

/// The buttons of the forms, by the beginning of the page's path and the value of `action`.
const BUTTONS: [(&str, &str, &str); 31] = [
    ("/console/endpoints/new", "", "Add endpoint"),
    ("/console/endpoints/", "test", "Send test event"),
    ("/console/endpoints/", "activate", "Enable endpoint"),
    ("/console/endpoints/", "deactivate", "Disable endpoint"),
    ("/console/endpoints/", "edit", "Save changes"),
    ("/console/endpoints/", "rotate", "Rotate secret"),
    ("/console/endpoints/", "end", "End the old secret now"),
    ("/console/endpoints/", "recover", "Recover deliveries"),
    ("/console/endpoints/", "erase", "Erase payloads"),
    ("/console/endpoints/", "delete", "Delete endpoint"),
    ("/console/deliveries", "resend", "Resend"),
    ("/console/deliveries/", "erase", "Erase payload and responses"),
    ("/console/keys", "issue", "Create API key"),
    ("/console/keys", "delete", "Delete key"),
    ("/console/team", "invite", "Send invitation"),
    ("/console/team", "role", "Change role"),
    ("/console/team", "remove", "Remove member"),
    ("/console/team", "cancel", "Cancel invitation"),
    ("/console/settings", "save", "Save settings"),
    ("/console/settings", "rename", "Change name"),
    ("/console/account", "name", "Change name"),
    ("/console/account", "email", "Send confirmation email"),
    ("/console/verify/", "", "Verify"),
    ("/console/recovery", "", "Resend all failed deliveries"),
    ("/console/settings", "require", "Save two-factor setting"),
    ("/console/settings", "resume", "Receive emails again"),
    ("/console/account", "end", "End session"),
    ("/console/account", "end-others", "End all other sessions"),
    ("/console/account", "verify", "Resend confirmation email"),
    ("/console/welcome", "verify", "Resend confirmation email"),
    ("/console/welcome", "replace", "Change address"),
];

/// The page that restores the fields, unless there are none. `back` is the page of the original form.
pub(super) fn read(form: &FormValues, back: Option<&str>) -> Option<Page> {
    let kept = Some(form.get("kept")).filter(|kept| !kept.is_empty())?;
    let back = back?;
    let fields: Vec<(String, String)> = form_urlencoded::parse(kept.as_bytes()).into_owned().collect();
    let value = |name: &str| fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
    let typed = LABELS.iter().map(|(name, label)| (*name, *label, value(name))).filter(|(name, _, value)| {
        // `kind` of an endpoint is in its form's address, too.
        !value.is_empty() && (*name, *value) != ("kind", "pull")
    });
    let mut typed: Vec<_> = typed.map(|(name, label, value)| (label, readable(name, value))).collect();
    let scopes = Scope::ALL.iter().map(|scope| scope.as_str()).filter(|scope| value(scope) == TICKED);
    let scopes = scopes.collect::<Vec<_>>().join(", ");
    typed.extend(Some(("Scopes", scopes)).filter(|(_, scopes)| !scopes.is_empty()));
    let button = BUTTONS.iter().find(|(path, action, _)| back.starts_with(path) && value("action") == *action);
    let button = button.map(|(.., button)| *button);
    // The press of a button without input can be repeated where its object is visible.
    if typed.is_empty() || OBJECTS.iter().any(|object| !value(object).is_empty()) {
        return Some(to_repeat(button, back));
    }
    let button = button.unwrap_or("Submit again");
    let left_out = |secret: &str| fields.iter().any(|(name, value)| name == AGAIN && value == secret);
    let (headers, own) = (left_out("headers"), left_out("own"));
    let content = html! {
        p { strong { "Nothing was saved or sent." } " Your input was kept. Review it, then press “" (button) "”." }
        @if !typed.is_empty() {
            dl { @for (label, value) in typed { dt { (label) } dd { bdi .lines { (visible(&value)) } } } }
        }
        form method="post" action=(back) {
            @for (name, value) in fields.iter().filter(|(name, _)| name != AGAIN) {
                input type="hidden" name=(name) value=(value);
            }
            @if headers || own { p { "Secrets are not kept. Enter them again:" } }
            @if headers { (Field::area("headers", "Headers", "").hint("One per line, such as “authorization: Bearer …”").html("", None)) }
            @if own { (Field::text("own", "Your own secret", "off", "").html("", None)) }
            button { (button) }
        }
        p { a href=(back) { "Discard the input" } }
    };
    Some(Page::new("You are signed in again", content))
}

/// The page after a button was pressed that has no input to restore.
fn to_repeat(button: Option<&str>, back: &str) -> Page {
    let content = html! {
        p {
            strong { "Nothing was saved or sent." }
            @match button {
                Some(button) => { " Open the page again, then press “" (button) "”." }
                None => " Open the page and try again.",
            }
        }
        p { a .button href=(back) { "Open the page" } }
    };
    Page::new("You are signed in again", content)
}

/// Formats a value for people: times, and choices from a list. Other values are unchanged.
fn readable(name: &str, value: &str) -> String {
    match name {
        "since" | "until" | "received_at" => {
            moment(value).map_or_else(|_problems| value.to_owned(), Timestamp::readable)
        }
        "ids" => value.split(' ').count().to_string(),
        _ => {
            let choices = CHOICES.iter().find(|(field, _)| *field == name).map_or(&[][..], |(_, choices)| choices);
            let words = choices.iter().find(|(choice, _)| *choice == value);
            words.map_or(value, |(_, words)| words).to_owned()
        }
    }
}
