//! `fanfare send`: a job event, as the service that runs the jobs sends it.

use aws_credential_types::Credentials;
use aws_sdk_sqs::{
    Client,
    config::{BehaviorVersion, Region},
    error::DisplayErrorContext,
};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use serde_json::json;
use url::{Host, Url};

use crate::{
    api::Api,
    args::Send,
    failure::Failure,
    terminal::{say, shown},
};

pub(crate) async fn run(api: &Api, send: Send, is_json: bool) -> Result<(), Failure> {
    let tenant = match send.tenant {
        Some(tenant) => tenant,
        None => {
            let organizations = api.flow("organization/list", None).await?;
            organizations[0]["id"].as_str().unwrap_or_default().to_owned()
        }
    };
    let status = send.event.strip_prefix("job.").map(ToOwned::to_owned);
    let event = json!({
        "event": send.event, "tenant_id": tenant, "job_id": send.job, "workflow": send.workflow, "status": status,
        "result": send.result, "error": send.error,
    });
    let client = client(&send.queue_url)?;
    let sent = client.send_message().queue_url(send.queue_url.as_str()).message_body(event.to_string());
    // Fair queues: the events of a tenant do not hold up those of others.
    let sent = sent.message_group_id(group(&tenant)).send().await.map_err(|error| {
        Failure::Unreachable(format!("The event was not sent: {}.", shown(&DisplayErrorContext(&error).to_string())))
    })?;
    Ok(say(&match is_json {
        true => json!({ "message_id": sent.message_id, "event": event }).to_string(),
        false => format!("{} of {} is sent.", shown(&send.event), shown(&send.job)),
    })?)
}

/// A group may have only these characters, and 128 of them.
fn group(tenant: &str) -> String {
    tenant.chars().filter(|character| character.is_ascii_alphanumeric() || *character == '-').take(128).collect()
}

/// A client for the queue: a local one takes any credentials, AWS those of the environment.
fn client(queue: &Url) -> Result<Client, Failure> {
    let is_local = match queue.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let http = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let config = aws_sdk_sqs::Config::builder().behavior_version(BehaviorVersion::latest()).http_client(http);
    if is_local {
        let config = config.region(Region::new("local")).endpoint_url(queue.origin().ascii_serialization());
        let credentials = Credentials::new("local", "local", None, None, "local");
        return Ok(Client::from_conf(config.credentials_provider(credentials).build()));
    }
    let missing = |name: &str| Failure::Local(format!("{name} is not set."));
    let key = set("AWS_ACCESS_KEY_ID").ok_or_else(|| missing("AWS_ACCESS_KEY_ID"))?;
    let secret = set("AWS_SECRET_ACCESS_KEY").ok_or_else(|| missing("AWS_SECRET_ACCESS_KEY"))?;
    let of_queue = queue.host_str().and_then(|host| host.strip_prefix("sqs.")?.split('.').next());
    let region = of_queue.map(ToOwned::to_owned).or_else(|| set("AWS_REGION")).ok_or_else(|| missing("AWS_REGION"))?;
    let credentials = Credentials::new(key, secret, set("AWS_SESSION_TOKEN"), None, "environment");
    Ok(Client::from_conf(config.region(Region::new(region)).credentials_provider(credentials).build()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_of_any_form_has_a_group() {
        assert_eq!(group("01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"), "01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0");
        assert_eq!(group("a b/ü").len(), 2);
    }
}
