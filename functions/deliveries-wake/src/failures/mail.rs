//! The mails about failed jobs.

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
use url::form_urlencoded;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The mail that jobs of a workflow have failed. What the producer says of them is somebody else's words. `last_of` is the
/// day of which it is the last mail.
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
        vec![format!("Workflow: {workflow}"), format!("Failed jobs since the last mail: {about}{}", count.number)];
    if newest.len() > 1 {
        facts.push(format!("The newest {} follow.", newest.len()));
    }
    let mut parts = vec![Part::Text("Hello,".to_owned()), Part::Text(news), Part::Text(facts.join("\n"))];
    parts.extend(newest.iter().flat_map(|failure| told(base, failure)));
    if count.number != 1
        && let Some(oldest) = newest.last()
    {
        parts.push(Part::Text("The deliveries of these and of all newer ones:".to_owned()));
        let (event, since) = (EventName::Failed.as_str(), oldest.id.at().to_string());
        parts.push(deliveries(base, &[("event", event), ("since", &since)]));
    }
    parts.push(Part::Text(
        "While jobs of this workflow keep failing, there is a mail at most once an hour. An owner can end these mails, or have \
         them sent elsewhere:"
            .to_owned(),
    ));
    parts.push(Part::Link(format!("{base}/console/settings")));
    if let Some(now) = last_of {
        parts.push(Part::Text(format!(
            "This is the last mail about failed jobs today, whatever the workflow. What fails until {} is in the mails after \
             that.",
            now.day().after(DAY)
        )));
    }
    Mail::new(subject, &parts)
}

fn told(base: &BaseUrl, failure: &JobFailure) -> Vec<Part> {
    let JobFailure { id, job_id, deployment, error, stack } = failure;
    let mut facts = vec![format!("Job: {}", line(job_id))];
    facts.extend(deployment.as_ref().map(|deployment| format!("Deployment: {}", line(deployment))));
    facts.push(format!("When: {}", id.at()));
    facts.push("Its deliveries:".to_owned());
    let mut parts = vec![Part::Text(facts.join("\n")), deliveries(base, &[("job_id", job_id)])];
    for (name, words) in [("Error:", error), ("Stack:", stack)] {
        if let Some(words) = words {
            parts.extend([Part::Text(name.to_owned()), Part::Quote(harmless(words))]);
        }
    }
    parts
}

/// The page with the deliveries that pass these filters.
fn deliveries(base: &BaseUrl, filters: &[(&str, &str)]) -> Part {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(filters).finish();
    Part::Link(format!("{base}/console/deliveries?{query}"))
}

/// Somebody else's words on a single line.
fn line(words: &str) -> String {
    harmless(words).replace('\n', " ")
}

/// Somebody else's words without characters that are not seen, or that change how others are seen.
fn harmless(words: &str) -> String {
    let words = words.replace("\r\n", "\n");
    let seen = words.chars().map(|character| match character {
        '\n' | '\u{2028}' | '\u{2029}' => '\n',
        '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{061C}' | '\u{FEFF}' => ' ',
        other if other.is_control() => ' ',
        other => other,
    });
    seen.collect()
}
