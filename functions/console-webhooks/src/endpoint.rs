//! The page of an endpoint: its state, its latest deliveries, and the forms that change it.

mod act;
mod forms;
mod page;

use std::sync::Arc;

use common::{
    accounts::users::User,
    error::Result,
    http::{Call, DID, Fault, People, Reason, Route, Typed, VerifiedPerson, page::Page},
};

use self::page::{id, page};
use crate::app::App;

const PATH: &str = "/console/endpoints/{id}";

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[("id", "The id of the endpoint."), DID])), open)
        .summary(
            "Shows an endpoint: its state, its last 24 hours, and the forms that change it. Opening the page changes \
             nothing.",
        )
        .faults(&[Fault::EmailNotVerified, Fault::NotFound])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&act::FIELDS)), act::act)
        .summary(
            "Handles the forms of the endpoint page, which test, change, rotate, recover or delete as the API does.",
        )
        .faults(&[
            Fault::EmailNotVerified,
            Fault::NotFound,
            Fault::Conflict(Reason::HeadersNeeded),
            Fault::Conflict(Reason::RecoveryLimit),
            Fault::TooMany,
        ])
        .redirects()
}

async fn open(app: Arc<App>, call: Call<User>, link: Typed) -> Result<Page> {
    page(&app, &call.caller.organization, id(&link)?, link.get("did"), None).await
}
