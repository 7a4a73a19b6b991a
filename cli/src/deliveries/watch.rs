//! `fanfare deliveries list --watch`: prints new and changed deliveries.

use std::{collections::HashMap, time::Duration};

use serde_json::{Map, Value, json};

use super::page::{PAGE, filter, listed, row};
use crate::{
    api::Api,
    args::List,
    failure::Failure,
    terminal::{line, note, say_json},
};

/// The time between two calls.
const PAUSE: Duration = Duration::from_secs(2);
/// The most deliveries printed after one call: the newest.
const MOST: usize = 1_000;

/// Prints deliveries until the process is stopped.
pub(super) async fn watch(api: &Api, list: &List, is_json: bool) -> Result<(), Failure> {
    let (mut seen, mut is_down, mut is_first) = (Seen::default(), false, true);
    let mut fields = filter(list);
    loop {
        let page = match is_first {
            true => listed(api, fields.clone(), usize::try_from(list.limit).unwrap_or(PAGE)).await,
            false => since_then(api, &fields, &seen).await.map(|all| (all, None)),
        };
        match page {
            Ok((page, more)) => {
                if std::mem::take(&mut is_down) {
                    note("The service is reachable again.");
                }
                // Deliveries older than the first page are not watched.
                if let (true, Some(_), Some(oldest)) = (is_first, more, page.last()) {
                    fields.insert("since".to_owned(), oldest["created_at"].clone());
                }
                is_first = false;
                for delivery in seen.news(&page) {
                    if is_json { say_json(delivery)? } else { line(&row(delivery).join("  "))? }
                }
            }
            Err(error) if error.is_passing() => {
                if !std::mem::replace(&mut is_down, true) {
                    note(&format!("{error} Retrying."));
                }
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The newest deliveries, back to one that was printed before.
async fn since_then(api: &Api, fields: &Map<String, Value>, seen: &Seen) -> Result<Vec<Value>, Failure> {
    let (mut fields, mut all) = (fields.clone(), Vec::new());
    loop {
        let (page, cursor) = listed(api, fields.clone(), PAGE).await?;
        let is_known = page.iter().any(|delivery| seen.0.contains_key(&id(delivery)));
        all.extend(page);
        match cursor {
            Some(cursor) if !is_known && all.len() < MOST => drop(fields.insert("cursor".to_owned(), cursor)),
            _ => return Ok(all),
        }
    }
}

/// The state of each printed delivery, by its id.
#[derive(Default)]
struct Seen(HashMap<String, Value>);

impl Seen {
    /// The new and changed deliveries of a page, oldest first.
    fn news<'a>(&mut self, page: &'a [Value]) -> Vec<&'a Value> {
        let mut now = HashMap::new();
        let mut news = Vec::new();
        for delivery in page.iter().rev() {
            let state = json!([delivery["status"], delivery["attempts"]]);
            if self.0.get(&id(delivery)) != Some(&state) {
                news.push(delivery);
            }
            now.insert(id(delivery), state);
        }
        // A delivery that has left the page does not return to it.
        self.0 = now;
        news
    }
}

fn id(delivery: &Value) -> String {
    delivery["delivery_id"].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_printed_once_and_oldest_first() {
        let one = |id: &str, status: &str| json!({"delivery_id": id, "status": status, "attempts": 1});
        let mut seen = Seen::default();
        let ids = |news: Vec<&Value>| news.iter().map(|one| one["delivery_id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(seen.news(&[one("b", "pending"), one("a", "delivered")])), ["a", "b"]);
        assert!(seen.news(&[one("b", "pending"), one("a", "delivered")]).is_empty());
        assert_eq!(ids(seen.news(&[one("c", "held"), one("b", "failed"), one("a", "delivered")])), ["b", "c"]);
    }
}
