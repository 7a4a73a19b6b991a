//! A delivery's page: its status, attempts, payload and headers.

mod actions;
mod attempts;
mod content;
mod page;
mod request;

use std::sync::Arc;

use common::{
    accounts::users::User,
    audit::Action,
    error::Result,
    http::{Call, DID, DeclaredError, FormValues, People, Reason, Route, VerifiedPerson, page::Page},
};

use self::page::{CONFIRM, ID, id, page};
use crate::{app::App, live_updates::LIVE};

const PATH: &str = "/console/deliveries/{id}";

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[ID, CONFIRM, LIVE, DID])), get_page)
        .summary("Shows a delivery with its payload and its attempts. Opening the page changes nothing.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&actions::FIELDS)), actions::post_form)
        .summary(
            "Resends or erases the delivery, as `deliveries/resend` and `deliveries/erase` do, and shows the result.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::PayloadNotKept),
            DeclaredError::Conflict(Reason::DeliveryPending),
        ])
        .records(&[Action::WebhookUpdated, Action::DeliveryResent, Action::ErasureRequested])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Page> {
    page(&app, &call.caller.organization, &id(&link)?, &link, None).await
}
