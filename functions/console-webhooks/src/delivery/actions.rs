//! The actions of a delivery's forms.

use std::sync::Arc;

use common::{
    accounts::users::User,
    audit::Recorder,
    error::{Error, Result},
    http::{Call, FormValues, Reply, page::TICKED},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{delivery::DeliveryId, endpoints::EndpointChange},
};

use super::page::{ID, endpoint, id, page};
use crate::{app::App, numbers::is_gone};

/// The fields of all the page's forms.
pub(super) const FIELDS: [(&str, &str); 4] = [
    ID,
    ("action", "The submitted form: `resend` or `erase`."),
    ("activate", "`yes` enables the endpoint first."),
    ("sure", "`yes` from the page that confirms resending to a receiver that asked to stop deliveries."),
];

pub(super) async fn post_form(app: Arc<App>, call: Call<User, Recorder>, form: FormValues) -> Result<Reply> {
    let (tenant, id) = (&call.caller.organization, id(&form)?);
    let done = match form.get("action") {
        "erase" => erase(&app, &call.recorder, tenant, &id).await,
        _ => resend(&app, &call.recorder, tenant, &id, &form).await,
    };
    match done {
        Err(error @ Error::Conflict(_)) => Ok(page(&app, tenant, &id, &form, Some(error)).await?.into()),
        done => done,
    }
}

async fn erase(app: &App, recorder: &Recorder, tenant: &TenantId, id: &DeliveryId) -> Result<Reply> {
    app.erasure(tenant).of_one(recorder, *id, &app.failures).await?;
    Ok(Reply::redirect(format!("/console/deliveries/{id}")))
}

async fn resend(
    app: &App,
    recorder: &Recorder,
    tenant: &TenantId,
    id: &DeliveryId,
    form: &FormValues,
) -> Result<Reply> {
    let now = Timestamp::now();
    let to = |query: &str| Reply::redirect(format!("/console/deliveries/{id}{query}"));
    if let Some(endpoint) = endpoint(app, tenant, id).await? {
        if is_gone(&endpoint) && form.get("sure") != TICKED {
            return Ok(to("?confirm=resend"));
        }
        if !endpoint.active && form.get("activate") == TICKED {
            let change = EndpointChange { active: Some(true), ..EndpointChange::default() };
            app.endpoints.update(recorder, tenant, endpoint.id, change, app.rotation_overlap, now).await?;
        }
    }
    let delivery = app.log.resend(recorder, tenant, id, None, now).await?;
    app.queue.wake(tenant, &delivery, now).await;
    app.wait_for_attempt(tenant, id, delivery.attempts).await?;
    Ok(to("?did=resent"))
}
