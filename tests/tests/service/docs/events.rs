//! docs/events.md contains a sample of every event, the one that a test sends.

use api::{ClosedSet, webhooks::EventName};
use serde_json::Value;

use super::page;

#[test]
fn every_event_is_described_with_its_sample() {
    let source = page("docs/events.md");
    for event in EventName::ALL {
        let heading = format!("\n### {event}\n");
        let (_, section) = source.split_once(&heading).unwrap_or_else(|| unreachable!("{event} has no section"));
        let (_, example) = section.split_once("```json\n").expect("an example");
        let example = example.split("```").next().unwrap_or_default();
        let [shown, sample] = [example, event.sample()].map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
        assert_eq!(shown, sample, "{event}");
        assert!(source.contains(&format!("| [`{event}`](#")), "{event} is missing in the table");
    }
}
