//! The caller's organization.

use std::sync::Arc;

use common::{
    accounts::users::{Role, User},
    error::{Error, Refusal, Result},
    http::{Call, Caller, Fields, KeyOrSession, Rejected, Route},
    id::TenantId,
    name::{Name, Slug},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::App;

pub(crate) fn list() -> Route<App> {
    Route::get("/api/auth/organization/list", KeyOrSession, |_, _| Ok(()), own)
        .summary("Returns the caller's organization; a user has exactly one.")
}

/// An organization, as its members see it.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "Organization")]
struct View {
    id: TenantId,
    name: Name,
    slug: Slug,
    created_at: Timestamp,
}

async fn own(app: Arc<App>, call: Call<Caller>, (): ()) -> Result<[View; 1]> {
    let organization = app.organizations.get(&call.caller.user.organization).await?;
    Ok([View {
        id: organization.id,
        name: organization.name,
        slug: organization.slug,
        created_at: organization.created_at,
    }])
}

/// The most members or invitations that one answer lists.
const MOST: u32 = 100;

/// Which of an organization's members or invitations to list.
pub(crate) struct Page {
    pub(crate) organization: Option<TenantId>,
    pub(crate) limit: usize,
    pub(crate) offset: usize,
}

impl Page {
    pub(crate) fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = fields.optional_text("organizationId", TenantId::parse);
        let limit = fields.optional_number_in_query("limit", 1..=MOST);
        let offset = fields.optional_number_in_query("offset", 0..=u16::MAX.into());
        let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let (limit, offset) = (number(limit?.unwrap_or(MOST)), number(offset?.unwrap_or(0)));
        Ok(Self { organization: organization?, limit, offset })
    }
}

/// Checks that `organization` is that of `user`, if a request names one.
pub(crate) fn check(user: &User, organization: Option<&TenantId>) -> Result<()> {
    if organization.is_none_or(|organization| *organization == user.organization) {
        return Ok(());
    }
    Err(Error::NotFound("Organization not found"))
}

/// Checks that `user` may manage who belongs to `organization`: as an owner of it, with a verified email.
pub(crate) fn check_manages(user: &User, organization: Option<&TenantId>) -> Result<()> {
    check(user, organization)?;
    if user.role != Role::Owner {
        return Err(Error::Forbidden(Refusal::OwnersOnly));
    }
    if user.email_verified { Ok(()) } else { Err(Error::Forbidden(Refusal::EmailNotVerified)) }
}
