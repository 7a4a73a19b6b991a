//! `fanfare deliveries list --watch`: prints new and changed deliveries.

use std::{collections::HashMap, time::Duration};

use api::{
    DeliveryId, Extensible, Timestamp,
    deliveries::{Delivery, List as Call, Listed, Status},
};

use super::page::{Labels, Rows, columns, filter, listed};
use crate::{
    args::List,
    calls::{Api, MAX_PAGE_SIZE},
    clock,
    failure::Failure,
    ids::Shortener,
    table::Table,
    terminal::{is_for_people, print_json, print_line, print_note},
};

/// The interval between calls.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum number of deliveries to print after one call. Older ones are omitted.
const MAX_PRINTED: usize = 1_000;

/// The title of the last column.
const WHEN: &str = "CREATED (UTC)";
/// Typical cells, which determine the column widths, because later rows are unknown when the first one is printed.
const TYPICAL: [&str; 7] = [
    "a6250e60",
    "delivered",
    "job.completed",
    "a job's id",
    "https://hooks.example.com/of",
    "HTTP 500",
    "01-31 12:00:00",
];

/// Prints deliveries until the process is stopped.
pub(super) async fn watch(api: &Api, list: &List, is_json: bool) -> Result<(), Failure> {
    let (mut seen, mut is_down, mut is_first) = (PrintedStates::default(), false, true);
    let mut fields = filter(api, list).await?;
    let mut rows = Rows::new(Labels::default(), Shortener::for_deliveries(&[]));
    let columns = columns(WHEN);
    let table = Table::for_rows(&columns, &[TYPICAL.map(ToOwned::to_owned).to_vec()]);
    if !is_json {
        print_line(&table.titles())?;
    }
    loop {
        let page = match is_first {
            true => listed(api, fields.clone(), usize::try_from(list.limit).unwrap_or(MAX_PAGE_SIZE)).await,
            false => since_then(api, &fields, &seen).await,
        };
        match page {
            Ok(Listed { deliveries: page, next_cursor: more }) => {
                if std::mem::take(&mut is_down) {
                    print_note("The service is reachable again.");
                }
                // Deliveries that are older than the first page are not watched.
                if let (true, Some(_), Some(oldest)) = (is_first, more, page.last()) {
                    fields.since = Some(oldest.created_at.clone());
                }
                is_first = false;
                let news = seen.news(&page);
                if !is_json && rows.lack(&news) {
                    rows.relabel(Labels::load(api).await);
                }
                for delivery in news {
                    match is_json {
                        true => print_json(delivery)?,
                        false => print_line(&table.line(&rows.row(delivery, when(&delivery.created_at))))?,
                    }
                }
            }
            Err(error) if error.is_passing() => {
                if !std::mem::replace(&mut is_down, true) {
                    print_note(&format!("{error} Retrying."));
                }
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn when(time: &Timestamp) -> String {
    if is_for_people() { clock::narrow(time) } else { clock::short(time) }
}

/// Reads the newest deliveries, back to the first one that was already printed.
async fn since_then(api: &Api, call: &Call, seen: &PrintedStates) -> Result<Listed, Failure> {
    let (mut call, mut deliveries) = (call.clone(), Vec::new());
    loop {
        let page = listed(api, call.clone(), MAX_PAGE_SIZE).await?;
        let is_known = page.deliveries.iter().any(|delivery| seen.0.contains_key(&delivery.delivery_id));
        deliveries.extend(page.deliveries);
        if page.next_cursor.is_none() || is_known || deliveries.len() >= MAX_PRINTED {
            return Ok(Listed { deliveries, next_cursor: None });
        }
        call.cursor = page.next_cursor;
    }
}

/// The status and the number of attempts of each printed delivery.
#[derive(Default)]
struct PrintedStates(HashMap<DeliveryId, (Extensible<Status>, u32)>);

impl PrintedStates {
    /// Returns a page's new and changed deliveries, oldest first.
    fn news<'a>(&mut self, page: &'a [Delivery]) -> Vec<&'a Delivery> {
        let mut now = HashMap::new();
        let mut news = Vec::new();
        for delivery in page.iter().rev() {
            let state = (delivery.status.clone(), delivery.attempts);
            if self.0.get(&delivery.delivery_id) != Some(&state) {
                news.push(delivery);
            }
            now.insert(delivery.delivery_id.clone(), state);
        }
        // Deliveries that have left the page can be forgotten, because they never return to it.
        self.0 = now;
        news
    }
}

#[cfg(test)]
mod tests {
    use api::webhooks::EventName;

    use super::*;

    #[test]
    fn each_change_is_printed_once_and_oldest_first() {
        let one = |id: &str, status: Status| Delivery {
            delivery_id: id.into(),
            webhook_id: "msg_1".into(),
            webhook_endpoint_id: None,
            event: EventName::Completed.into(),
            job_id: "job-1".to_owned(),
            workflow: None,
            status: status.into(),
            attempts: 1,
            created_at: "2026-01-31T12:00:00.000Z".into(),
            next_attempt_at: None,
            last_attempt: None,
            erased_at: None,
        };
        let mut seen = PrintedStates::default();
        let ids = |news: Vec<&Delivery>| news.iter().map(|one| one.delivery_id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(seen.news(&[one("b", Status::Pending), one("a", Status::Delivered)])), ["a", "b"]);
        assert!(seen.news(&[one("b", Status::Pending), one("a", Status::Delivered)]).is_empty());
        assert_eq!(
            ids(seen.news(&[one("c", Status::Held), one("b", Status::Failed), one("a", Status::Delivered)])),
            ["b", "c"]
        );
    }
}
