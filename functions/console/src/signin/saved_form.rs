//! Restores the fields of a form that was submitted after its session had ended, once the user has signed in again.

use common::{
    http::{
        AGAIN, FormValues,
        page::{Field, Page, visible},
    },
    timestamp::Timestamp,
};
use maud::html;
use url::form_urlencoded;

/// The fields that people fill in, with their labels. Other fields are restored, but not shown.
const LABELS: [(&str, &str); 27] = [
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
];

/// The buttons of the forms, by the beginning of the page's path and the value of `action`.
const BUTTONS: [(&str, &str, &str); 23] = [
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
    ("/console/deliveries/", "erase", "Erase payload"),
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
];

/// The page that restores the fields, unless there are none. `back` is the page of the original form.
pub(super) fn read(form: &FormValues, back: Option<&str>) -> Option<Page> {
    let kept = Some(form.get("kept")).filter(|kept| !kept.is_empty())?;
    let back = back?;
    let fields: Vec<(String, String)> = form_urlencoded::parse(kept.as_bytes()).into_owned().collect();
    let value = |name: &str| fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
    let typed = LABELS.iter().map(|(name, label)| (label, value(name))).filter(|(_, value)| !value.is_empty());
    let typed: Vec<_> = typed.map(|(label, value)| (label, readable(value))).collect();
    let button = BUTTONS.iter().find(|(path, action, _)| back.starts_with(path) && value("action") == *action);
    let button = button.map_or("Submit again", |(.., button)| button);
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

/// Formats times for people. Returns other values unchanged.
fn readable(value: &str) -> String {
    value.parse::<Timestamp>().map_or_else(|_| value.to_owned(), Timestamp::readable)
}
