//! Signing up: creates a user and the organization that they own, in one call.

use std::sync::Arc;

use common::{
    accounts::Accounts,
    aws::Aws,
    base_url::BaseUrl,
    config::{ConfigError, Env},
    email::Email,
    error::Result,
    http::{Fields, Function, Rejected},
    id::TenantId,
    mail::Mailer,
    name::{Name, Slug},
    organizations::Organization,
    password::{Hasher, Password},
    signup::{SignedUp, new_user, welcome},
    timestamp::Timestamp,
    users::Role,
};

/// The method and path, as the template maps them.
pub const ROUTE: &str = "POST /v1/auth/signupAndCreateOrg";

/// What the route needs.
pub struct App {
    accounts: Accounts,
    hasher: Hasher,
    mailer: Mailer,
}

/// The function, with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        accounts: Accounts::from_env(env, &aws)?,
        hasher: Hasher::from_env(env)?,
        mailer: Mailer::from_env(env, &aws)?,
    };
    Ok(Function::public(ROUTE, app, BaseUrl::from_env(env)?, |_, fields| Input::parse(fields), handle))
}

/// Who signs up, and what they found.
pub struct Input {
    name: Name,
    email: Email,
    password: Password,
    organization_name: Name,
    organization_slug: Slug,
    debug_notification_email: Email,
}

impl Input {
    fn parse(fields: &mut Fields) -> Result<Self, Rejected> {
        let name = fields.text("name", Name::parse);
        let email = fields.text("email", Email::parse);
        let password = fields.text("password", Password::parse);
        let organization_name = fields.text("organizationName", Name::parse);
        let organization_slug = fields.text("organizationSlug", Slug::parse);
        let debug_notification_email = fields.text("debugNotificationEmail", Email::parse);
        Ok(Self {
            name: name?,
            email: email?,
            password: password?,
            organization_name: organization_name?,
            organization_slug: organization_slug?,
            debug_notification_email: debug_notification_email?,
        })
    }
}

/// Says no quickly, hashes, writes everything in one transaction, and sends the verification mail.
async fn handle(app: Arc<App>, base: BaseUrl, input: Input) -> Result<SignedUp> {
    app.accounts.check_free(&input.organization_slug, &input.email).await?;
    let password = app.hasher.hash(input.password).await?;
    let now = Timestamp::now();
    let organization = Organization {
        id: TenantId::generate(),
        name: input.organization_name,
        slug: input.organization_slug,
        debug_notification_email: input.debug_notification_email,
        created_at: now,
    };
    let new = new_user((input.name, input.email, password), (organization.id.clone(), Role::Owner), now)?;
    app.accounts.create(&organization, &new, now).await?;
    Ok(welcome(&app.mailer, &base, new, organization.slug).await)
}
