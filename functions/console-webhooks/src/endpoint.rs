//! An endpoint's page: its state, its latest deliveries, and the forms that change it.

mod actions;
mod confirmations;
mod explanations;
mod forms;
mod header;
mod missed_deliveries;
mod page;

use std::sync::Arc;

use common::{
    accounts::users::User,
    audit::Action,
    error::Result,
    http::{Call, DID, DeclaredError, FormValues, People, Reason, Route, VerifiedPerson, page::Page},
};

use self::page::{id, page};
pub(crate) use self::{confirmations::gone, header::test};
use crate::{app::App, live_updates::LIVE, settings};

const PATH: &str = "/console/endpoints/{id}";
const FIELDS: [(&str, &str); 8] = [
    ("id", "The id of the endpoint."),
    DID,
    LIVE,
    (
        "confirm",
        "`recover` shows a page that counts the deliveries of a recovery and asks for confirmation. `activate` asks for \
         confirmation before enabling an endpoint whose receiver asked to stop deliveries, and `deactivate` before \
         disabling an endpoint.",
    ),
    ("since", "`confirm`: the start of the recovery's period."),
    ("until", "`confirm`: the end of that period."),
    ("status", "`confirm`: the status of the deliveries to recover: `failed`, `held`, `both` or `pending`."),
    ("activate", "`confirm`: `yes` enables the endpoint first."),
];

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&FIELDS)), get_page)
        .summary(
            "Shows an endpoint: its state, its last 24 hours, and the forms that change it. Opening the page changes \
             nothing.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(
        PATH,
        VerifiedPerson,
        |_, fields| Ok(fields.typed(&[&actions::FIELDS, settings::FIELDS].concat())),
        actions::post_form,
    )
    .records(&[
        Action::WebhookUpdated,
        Action::WebhookDeleted,
        Action::WebhookTested,
        Action::RecoveryStarted,
        Action::ErasureRequested,
    ])
    .summary(
        "Handles the forms on the endpoint page, with the same effect as the API calls: testing, changing, \
             rotating, recovering and deleting.",
    )
    .errors(&[
        DeclaredError::EmailNotVerified,
        DeclaredError::NotFound,
        DeclaredError::Conflict(Reason::HeadersNeeded),
        DeclaredError::Conflict(Reason::RecoveryLimit),
        DeclaredError::TooMany,
    ])
    .redirects()
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Page> {
    let (tenant, id) = (&call.caller.organization, id(&link)?);
    match link.get("confirm") {
        "recover" => confirmations::page(&app, tenant, id, &link).await,
        "activate" => confirmations::enabling(&app, tenant, id).await,
        "deactivate" => confirmations::disabling(&app, tenant, id).await,
        _ => page(&app, &call, id, &link, None).await,
    }
}
