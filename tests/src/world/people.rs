//! Accounts, sessions, keys and emails.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    Answer, Tenant, World, cookie, link,
    tables::{Item, item},
};

/// The initial password of every user.
pub const PASSWORD: &str = "correct horse battery";

impl World {
    /// The fields of a valid sign-up.
    #[must_use]
    pub fn sign_up_fields(slug: &str) -> Value {
        json!({
            "name": "Jo Doe", "email": format!("jo@{slug}.example.com"), "password": PASSWORD,
            "organizationName": "Doe & Co", "organizationSlug": slug, "debugNotificationEmail": "ops@example.com",
        })
    }

    /// Signs up, and returns the response's fields.
    pub async fn sign_up(&self, slug: &str) -> Value {
        self.rpc("", "auth/signupAndCreateOrg", Self::sign_up_fields(slug)).await.ok().clone()
    }

    /// Signs up, verifies the email, and issues a key. The owner of the address for notifications has agreed to them.
    pub async fn tenant(&self, slug: &str) -> Tenant {
        let account = self.sign_up(slug).await;
        let text = |name: &str| account[name].as_str().expect("a string").to_owned();
        let (email, cookie) = (text("email"), cookie(&account));
        assert_eq!(self.confirm(&link(&self.mail_to(&email).await)).await.status, 200);
        self.agree(&text("organizationId"), "ops@example.com").await;
        let issued = self.cli(&cookie, "api-key/create", json!({"name": "test"})).await;
        let key = issued.body["key"].as_str().expect("a key").to_owned();
        Tenant { id: text("organizationId"), slug: slug.to_owned(), user: text("userId"), email, cookie, key }
    }

    /// Stores that the owner of `address` agreed to the emails of an organization.
    pub async fn agree(&self, organization: &str, address: &str) {
        let subject = URL_SAFE_NO_PAD.encode(Sha256::digest(format!("{organization} {address}")));
        let answer = json!({
            "token_hash": format!("consent#{subject}"), "kind": "consent", "agrees": true, "expires_at": 4_000_000_000_u32,
        });
        self.put("tokens", item(&answer)).await;
    }

    /// Adds a verified user to the organization of `owner`, and issues a key for them.
    pub async fn member(&self, owner: &Tenant, email: &str, role: &str) -> Tenant {
        let fields = json!({"email": email, "role": role, "organizationId": owner.id});
        let invited = self.cli(&owner.cookie, "organization/invite-member", fields).await.body;
        let fields = json!({
            "invitationId": invited["id"], "tenantSlug": owner.slug, "name": "Al", "password": PASSWORD,
        });
        let account = self.rpc("", "auth/acceptInviteAndSignup", fields).await.ok().clone();
        let cookie = cookie(&account);
        assert_eq!(self.confirm(&link(&self.mail_to(email).await)).await.status, 200);
        let issued = self.cli(&cookie, "api-key/create", json!({"name": "a member's"})).await;
        let key = issued.body["key"].as_str().expect("a key").to_owned();
        let user = account["userId"].as_str().expect("an id").to_owned();
        Tenant { user, email: email.to_owned(), cookie, key, ..owner.clone() }
    }

    /// Adds a hundred members `m0@example.com` to `m99@example.com` to the organization of `owner`, like the owner.
    pub async fn crowd(&self, owner: &Tenant) {
        let users = self.items("users").await.into_iter();
        let is_owner = |item: &Item| item["pk"].as_s().is_ok_and(|key| *key == format!("user#{}", owner.user));
        let founder = users.into_iter().find(is_owner).expect("a user");
        for number in 0..100 {
            let id = uuid::Uuid::now_v7().to_string();
            let email = format!("m{number}@example.com");
            self.put("users", item(&json!({"pk": format!("email#{email}"), "user_id": id}))).await;
            let own = json!({"pk": format!("user#{id}"), "user_id": id, "email": email});
            self.put("users", founder.clone().into_iter().chain(item(&own)).collect()).await;
        }
    }

    /// Stores an older pending invitation, and a hundred that were accepted since.
    pub async fn many_invitations(&self, organization: &str, pending: &str) {
        self.invitation(organization, pending, 4_000_000_000).await;
        for number in 0..100 {
            let id = self.invitation(organization, &format!("i{number}@example.com"), 4_000_000_000).await;
            self.set("invitations", ("invitation_id", &id), json!({"status": "accepted"})).await;
        }
    }

    /// Issues an API key with these fields, and returns it.
    pub async fn key(&self, cookie: &str, mut fields: Value) -> String {
        fields["name"] = json!("a key");
        let issued = self.cli(cookie, "api-key/create", fields).await;
        issued.body["key"].as_str().expect("a key").to_owned()
    }

    /// Sends a GET to a route of `/api/auth` with a key.
    pub async fn get_by_key(&self, key: &str, route: &str) -> Answer {
        self.send(self.http.get(self.url(&format!("/api/auth/{route}"))).header("x-api-key", key)).await
    }

    /// Posts JSON to a route of `/api/auth` with a key.
    pub async fn post_by_key(&self, key: &str, route: &str, fields: Value) -> Answer {
        let request = self.http.post(self.url(&format!("/api/auth/{route}"))).header("x-api-key", key);
        self.send(request.json(&fields)).await
    }

    /// The response from `get-session` to a call with this cookie.
    pub async fn session(&self, cookie: &str) -> Answer {
        self.send(self.http.get(self.url("/api/auth/get-session")).header("cookie", cookie)).await
    }

    /// Signs in.
    pub async fn sign_in(&self, email: &str, password: &str) -> Answer {
        self.cli("", "sign-in/email", json!({"email": email, "password": password})).await
    }

    /// Signs in, and returns the session cookie.
    pub async fn signed_in(&self, email: &str, password: &str) -> String {
        let answer = self.sign_in(email, password).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        format!("session_token={}", answer.body["token"].as_str().expect("a token"))
    }

    /// Whether a cookie contains a valid session.
    pub async fn is_signed_in(&self, cookie: &str) -> bool {
        self.session(cookie).await.body != Value::Null
    }

    /// Whether a key is valid. All routes must agree.
    pub async fn key_works(&self, key: &str) -> bool {
        let by_key = self.send(self.http.get(self.url("/api/auth/get-session")).header("x-api-key", key)).await;
        let works = self.rpc(key, "webhooks/list", json!({})).await.status == 200;
        assert_eq!(by_key.body != Value::Null, works);
        works
    }

    /// Fails the test if a credential of this user still works.
    pub async fn is_shut_out(&self, who: &Tenant) {
        assert!(!self.is_signed_in(&who.cookie).await && !self.key_works(&who.key).await);
        assert_eq!(self.cli_get(&who.cookie, "organization/list-members").await.status, 401);
        assert_eq!(self.rpc_by_session(&who.cookie, "webhooks/list", json!({})).await.status, 401);
        let by_key = self.http.get(self.url("/api/auth/api-key/list")).header("x-api-key", &who.key);
        assert_eq!(self.send(by_key).await.status, 401);
    }

    /// All emails, oldest first.
    pub async fn mails(&self) -> Vec<Value> {
        let mails = self.send(self.http.get(format!("{}/messages", self.stack.mail()))).await.body;
        let mut mails = mails.as_array().expect("a list of mails").clone();
        mails.reverse();
        mails
    }

    /// The latest email to an address.
    pub async fn mail_to(&self, email: &str) -> Value {
        let mails = self.mails().await;
        mails.into_iter().rfind(|mail| mail["to"] == json!([email])).expect("a mail")
    }

    /// Stores a pending invitation that expires at `expires_at`, in Unix seconds.
    pub async fn invitation(&self, organization: &str, email: &str, expires_at: i64) -> String {
        let id = uuid::Uuid::now_v7().to_string();
        let invitation = json!({
            "invitation_id": id, "organization_id": organization, "email": email, "role": "member", "status": "pending",
            "invited_by": uuid::Uuid::now_v7(), "created_at": "2026-01-31T12:00:00.000Z", "expires_at": expires_at,
        });
        self.put("invitations", item(&invitation)).await;
        id
    }
}
