//! The emails about failed jobs.

use std::{cmp::Reverse, time::Duration};

use common::{
    accounts::mail::{EmailMessage, Part, short},
    base_url::BaseUrl,
    timestamp::Timestamp,
    webhooks::{
        event::EventName,
        job_failures::{Failing, JobFailure},
    },
};
use url::form_urlencoded;

use crate::recipients::Addressee;

/// Workflow names are truncated to this many characters.
const MAX_NAME_LENGTH: usize = 200;
/// The number of workflows that an email about several lists, those with the most failures.
const MAX_LISTED: usize = 20;

/// Builds the email about the failed jobs of these workflows. For a recipient who agreed, it quotes untrusted text.
/// `last_of` is set for the last email of a day.
pub(crate) fn about(to: Addressee<'_>, failing: &[&Failing], last_of: Option<Timestamp>) -> EmailMessage {
    let (subject, mut parts) = match failing {
        [one] => of_one(&to, one),
        several => of_several(&to, several),
    };
    if let Some(now) = last_of {
        parts.push(Part::Text(format!(
            "This is today's last email about failed jobs, for all workflows. Failures until {} are reported in later \
             emails.",
            now.next_day().readable()
        )));
    }
    let why = to.why("Owners can change the address or turn off emails about failed jobs in the settings.");
    EmailMessage::unrequested(&subject, &parts, why, to.page)
}

/// The subject and the content of an email about several workflows: the number of failures for each, and links to them.
fn of_several(to: &Addressee<'_>, failing: &[&Failing]) -> (String, Vec<Part>) {
    let counts: Vec<_> = failing.iter().map(|failing| failing.count()).collect();
    let number: u64 = counts.iter().map(|count| count.number).sum();
    let about = if counts.iter().all(|count| count.is_exact) { "" } else { "about " };
    let subject = format!("{} workflows: {about}{number} jobs failed", failing.len());
    let facts = vec![("Workflows", failing.len().to_string()), ("New failures", format!("{about}{number}"))];
    let mut parts = vec![Part::Text(format!("Jobs of {} have failed.", to.organization.as_str())), Part::Facts(facts)];
    let mut worst: Vec<_> = failing.iter().zip(counts).collect();
    worst.sort_by_key(|(_, count)| Reverse(count.number));
    let lines = worst.iter().take(MAX_LISTED).map(|(failing, count)| {
        let name = failing.workflow.as_deref().map_or_else(|| "none".to_owned(), short);
        format!("{}{}: {name}", if count.is_exact { "" } else { "about " }, count.number)
    });
    let mut lines: Vec<_> = lines.collect();
    if worst.len() > MAX_LISTED {
        lines.push(format!("and {} more workflows", worst.len() - MAX_LISTED));
    }
    parts.push(Part::Text(lines.join("\n")));
    let oldest = failing.iter().filter_map(|failing| failing.newest().last().map(|failure| failure.id.at())).min();
    if let Some(oldest) = oldest {
        let filters = [("event", EventName::Failed.as_str()), ("since", &oldest.to_string())];
        parts.extend(to.links("View these and newer failures", deliveries(to.base, &filters)));
    }
    parts.push(Part::text(
        "After the first emails of a day, an email is about all workflows that have failed by then. Each workflow is in at \
         most one email an hour.",
    ));
    (subject, parts)
}

/// The subject and the content of an email about one workflow.
fn of_one(to: &Addressee<'_>, failing: &Failing) -> (String, Vec<Part>) {
    let (base, organization) = (to.base, to.organization);
    let (count, newest) = (failing.count(), failing.newest());
    let about = if count.is_exact { "" } else { "about " };
    let jobs = if count.number == 1 { "1 job".to_owned() } else { format!("{about}{} jobs", count.number) };
    let subject = match failing.workflow.as_deref().filter(|_| to.has_agreed) {
        Some(workflow) => format!("Workflow {}: {jobs} failed", short(workflow)),
        None => format!("{jobs} failed"),
    };
    let news = match count.number {
        1 => format!("A job of {} has failed.", organization.as_str()),
        _ => format!("Jobs of {} have failed.", organization.as_str()),
    };
    let workflow = failing
        .workflow
        .as_ref()
        .map_or_else(|| "none".to_owned(), |name| if to.has_agreed { name.clone() } else { short(name) });
    let mut facts = vec![("Workflow", workflow), ("New failures", format!("{about}{}", count.number))];
    if newest.len() > 1 && to.has_agreed {
        facts.push(("Listed below", format!("the {} newest", newest.len())));
    }
    let mut parts = vec![Part::Text(news), Part::Facts(facts)];
    let is_single = count.number == 1;
    if to.has_agreed {
        parts.extend(newest.iter().flat_map(|failure| shown(base, failure, is_single)));
    }
    if !(is_single && to.has_agreed)
        && let Some(oldest) = newest.last()
    {
        let (event, since) = (EventName::Failed.as_str(), oldest.id.at().to_string());
        let workflow =
            failing.workflow.as_deref().filter(|name| is_whole(name) && to.has_agreed).map(|name| ("workflow", name));
        let filters: Vec<_> = [("event", event), ("since", &since)].into_iter().chain(workflow).collect();
        let url = deliveries(base, &filters);
        parts.extend(to.links("View these and newer failures", url));
    }
    parts.push(Part::text("While jobs of this workflow keep failing, we send an email at most once an hour."));
    (subject, parts)
}

/// Whether deliveries can be found in the log by this workflow name: it must be complete and a string. (Producers may
/// send any JSON.)
fn is_whole(name: &str) -> bool {
    name.chars().count() < MAX_NAME_LENGTH
        && name.starts_with(char::is_alphabetic)
        && !matches!(name, "true" | "false" | "null")
}

/// Describes a failed job. If `is_single`, the link to the job's deliveries becomes the email's button.
fn shown(base: &BaseUrl, failure: &JobFailure, is_single: bool) -> Vec<Part> {
    let link = link(base, failure);
    let JobFailure { id, job_id, deployment, error, stack } = failure;
    let mut facts = vec![("Job", job_id.clone())];
    facts.extend(deployment.as_ref().map(|deployment| ("Deployment", deployment.clone())));
    facts.push(("Failed at", id.at().readable()));
    let mut parts = vec![Part::Facts(facts)];
    for (name, words) in [("Error:", error), ("Stack:", stack)] {
        if let Some(words) = words {
            parts.extend([Part::text(name), Part::Quote(words.clone())]);
        }
    }
    parts.push(if is_single {
        Part::Button("View deliveries", link)
    } else {
        Part::Link(format!("View {job_id}"), link)
    });
    parts
}

/// Returns the link to a job's deliveries: by the job's id or, if only the beginning of the id is known, by the time.
fn link(base: &BaseUrl, failure: &JobFailure) -> String {
    let at = failure.id.at();
    let (since, until) = (at.to_string(), at.after(Duration::from_millis(1)).to_string());
    match failure.has_whole_id() {
        true => deliveries(base, &[("job_id", &failure.job_id)]),
        false => deliveries(base, &[("event", EventName::Failed.as_str()), ("since", &since), ("until", &until)]),
    }
}

/// Returns the address of the page with the deliveries that match these filters.
fn deliveries(base: &BaseUrl, filters: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(filters).finish();
    format!("{base}/console/deliveries?{query}")
}
