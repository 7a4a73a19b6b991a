//! The emails about failed jobs.

use std::time::Duration;

use common::{
    accounts::mail::{Mail, Part},
    base_url::BaseUrl,
    name::Name,
    timestamp::Timestamp,
    webhooks::{
        event::EventName,
        failures::{Failing, JobFailure},
    },
};
use text::Untrusted;
use url::form_urlencoded;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The email about failed jobs of a workflow. It quotes untrusted text. `last_of` is set in a day's last email.
pub(crate) fn about(base: &BaseUrl, organization: &Name, failing: &Failing, last_of: Option<Timestamp>) -> Mail {
    let (count, newest) = (failing.count(), failing.newest());
    let subject = if count.number == 1 { "A job has failed" } else { "Jobs have failed" };
    let about = if count.is_exact { "" } else { "about " };
    let workflow = failing.workflow.as_deref().map_or_else(|| "none".to_owned(), line);
    let news = match count.number {
        1 => format!("A job of {} has failed.", organization.as_str()),
        _ => format!("Jobs of {} have failed.", organization.as_str()),
    };
    let mut facts =
        vec![format!("Workflow: {workflow}"), format!("Failed jobs since the last email: {about}{}", count.number)];
    if newest.len() > 1 {
        facts.push(format!("The {} newest are listed below.", newest.len()));
    }
    let mut parts = vec![Part::Text("Hello,".to_owned()), Part::Text(news), Part::Text(facts.join("\n"))];
    parts.extend(newest.iter().flat_map(|failure| shown(base, failure)));
    if count.number != 1
        && let Some(oldest) = newest.last()
    {
        parts.push(Part::Text("Deliveries of these and all newer failures:".to_owned()));
        let (event, since) = (EventName::Failed.as_str(), oldest.id.at().to_string());
        parts.push(deliveries(base, &[("event", event), ("since", &since)]));
    }
    parts.push(Part::Text(
        "While jobs of this workflow keep failing, we send an email at most once an hour. An owner can turn these \
         emails off or change their address:"
            .to_owned(),
    ));
    parts.push(Part::Link(format!("{base}/console/settings")));
    if let Some(now) = last_of {
        parts.push(Part::Text(format!(
            "This is today's last email about failed jobs, regardless of their workflow. Failures until {} are \
             reported in the emails after that.",
            now.day().after(DAY).readable()
        )));
    }
    Mail::new(subject, &parts)
}

fn shown(base: &BaseUrl, failure: &JobFailure) -> Vec<Part> {
    let link = link(base, failure);
    let JobFailure { id, job_id, deployment, error, stack } = failure;
    let mut facts = vec![format!("Job: {}", line(job_id))];
    facts.extend(deployment.as_ref().map(|deployment| format!("Deployment: {}", line(deployment))));
    facts.push(format!("Failed at: {}", id.at().readable()));
    facts.push("Deliveries:".to_owned());
    let mut parts = vec![Part::Text(facts.join("\n")), link];
    for (name, words) in [("Error:", error), ("Stack:", stack)] {
        if let Some(words) = words {
            parts.extend([Part::Text(name.to_owned()), Part::Quote(words.clone())]);
        }
    }
    parts
}

/// The link to the deliveries of a job: by its id or, if only the beginning of that is known, by the moment.
fn link(base: &BaseUrl, failure: &JobFailure) -> Part {
    let at = failure.id.at();
    let (since, until) = (at.to_string(), at.after(Duration::from_millis(1)).to_string());
    match failure.has_whole_id() {
        true => deliveries(base, &[("job_id", &failure.job_id)]),
        false => deliveries(base, &[("event", EventName::Failed.as_str()), ("since", &since), ("until", &until)]),
    }
}

/// The link to the page with the deliveries that pass these filters.
fn deliveries(base: &BaseUrl, filters: &[(&str, &str)]) -> Part {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(filters).finish();
    Part::Link(format!("{base}/console/deliveries?{query}"))
}

/// Untrusted text on a single line.
fn line(words: &str) -> String {
    Untrusted::new(words).mail_line().into_owned()
}
