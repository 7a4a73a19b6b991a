//! The user or the organization that the credentials act for.

use api::{
    Extensible,
    account::{ActiveMember, Organization, Organizations, Profile, Role},
};
use serde::Serialize;

use crate::{calls::Api, failure::Failure, terminal::cell};

/// The signed-in user, as printed for programs.
#[derive(Serialize)]
pub(crate) struct Who {
    pub(crate) api: String,
    pub(crate) organization: Organization,
    /// The user and their role. `None` for an organization key.
    pub(crate) user: Option<Profile>,
    role: Option<Extensible<Role>>,
}

impl Who {
    /// Whether `other` is the same user or, if this is an organization key, a member of the organization.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let id = |who: &Self| who.user.as_ref().map(|user| user.id.clone());
        self.organization.id == other.organization.id && (self.user.is_none() || id(self) == id(other))
    }

    pub(crate) fn summary(&self) -> String {
        let organization = format!("{} ({})", cell(&self.organization.name), cell(&self.organization.id));
        match (&self.user, &self.role) {
            (Some(user), Some(role)) => format!("{}, {} of {organization}", cell(&user.email), cell(role)),
            _ => format!("organization key of {organization}"),
        }
    }
}

pub(crate) async fn identity(api: &Api) -> Result<Who, Failure> {
    let [organization] = api.call(&Organizations::new()).await?;
    let (user, role) = match api.call(&ActiveMember::new()).await {
        Ok(member) => (Some(member.user), Some(member.role)),
        // An organization key is not a member.
        Err(failure) if failure.is_not_found() => (None, None),
        Err(failure) => return Err(failure),
    };
    Ok(Who { api: api.origin(), organization, user, role })
}
