//! Signing up: creates a user and an organization that they own, in one call.

use std::sync::Arc;

use common::{
    accounts::{
        email::Email,
        mail::Mailer,
        organizations::Organization,
        password::{Hasher, Password},
        signup::{Accounts, Person, new_user},
        users::Role,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{
        Call, Fault, Fields, Function, Origins, Public, Rejected, Route, Wire, WithCookies,
        signed_up::{SignedUp, welcome},
    },
    id::TenantId,
    name::{Name, Slug},
    timestamp::Timestamp,
};

/// The dependencies of the route.
pub struct App {
    accounts: Accounts,
    hasher: Hasher,
    mailer: Mailer,
}

/// Builds the function with the settings in `env`.
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
    Ok(Function::new(Wire::Envelope, app, Origins::from_env(env)?, [route()]))
}

fn route() -> Route<App> {
    Route::post("/v1/auth/signupAndCreateOrg", Public, Input::read, handle)
        .summary("Creates a user and the organization that they own.")
        .faults(&[Fault::Conflict("slug_taken"), Fault::Conflict("email_taken")])
}

/// The user, and the organization they found.
pub struct Input {
    name: Name,
    email: Email,
    password: Password,
    organization_name: Name,
    organization_slug: Slug,
    debug_notification_email: Email,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
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

/// Checks for conflicts before the costly hash; the transaction is what decides.
async fn handle(app: Arc<App>, call: Call<()>, input: Input) -> Result<WithCookies<SignedUp>> {
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
    let person = Person { name: input.name, email: input.email, password, device: call.device() };
    let new = new_user(person, organization.id.clone(), Role::Owner, now)?;
    app.accounts.create(&organization, &new, now).await?;
    Ok(welcome(&app.mailer, &call.base, new, organization.slug).await)
}
