//! An endpoint: how it does, what can be done with it, and its newest deliveries.

mod act;
mod forms;
mod page;

use std::sync::Arc;

use common::{
    accounts::users::User,
    error::Result,
    http::{Call, DID, Fault, People, Route, Typed, VerifiedPerson, page::Page},
};

use self::page::{id, page};
use crate::app::App;

const PATH: &str = "/console/endpoints/{id}";

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[("id", "The endpoint."), DID])), open)
        .summary("An endpoint: its state, its last day, and the forms that change it. It changes nothing.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&act::FIELDS)), act::act)
        .summary("The forms of that page. Each does what the API does: tests, changes, rotates, recovers or deletes.")
        .faults(&[
            Fault::EmailNotVerified,
            Fault::NotFound,
            Fault::Conflict("headers_needed"),
            Fault::Conflict("recovery_limit"),
            Fault::TooMany,
        ])
        .redirects()
}

async fn open(app: Arc<App>, call: Call<User>, link: Typed) -> Result<Page> {
    page(&app, &call.caller.organization, id(&link)?, link.get("did"), None).await
}
