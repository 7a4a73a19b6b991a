//! Reads an organization's entries, newest first.

use api::audit::Action;
use aws_sdk_dynamodb::Client;

use super::table::{ACTION, ACTOR_ID, DETAILS, ENTRY, KEPT_SECONDS, Position, TENANT_ID};
use crate::{
    aws::{
        dynamo::{Item, ItemReader, text},
        expression::{Condition, filter, query, select},
        failure,
    },
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
};

/// The conditions that entries must meet. Unset fields match every entry.
#[derive(Clone, Debug, Default)]
pub struct EntryFilter {
    /// Only changes at this time or later.
    pub since: Option<Timestamp>,
    /// Only changes before this time.
    pub until: Option<Timestamp>,
    /// Only changes by the actor with this id.
    pub actor: Option<String>,
    /// Only changes of this kind.
    pub action: Option<Action>,
    /// Only changes of the object with this id.
    pub target: Option<String>,
}

/// A page of entries, newest first.
#[derive(Debug)]
pub struct EntryPage {
    /// The entries. A page can be empty even if there is a next page.
    pub entries: Vec<api::audit::Entry>,
    /// The start of the next page, if there may be one.
    pub next: Option<Position>,
}

/// The number of entries to read for a filtered page.
const FILTERED_PAGE_SIZE: usize = 1000;

crate::from_env! {
    /// The audit log table.
    #[derive(Clone)]
    pub struct AuditLog {
        dynamodb: Client,
        table: String = "AUDIT_TABLE",
    }
}

impl AuditLog {
    /// The newest `limit` entries of `organization` after `cursor` that match `wanted`. Entries that are a year old at
    /// `now` are excluded. The read is strongly consistent.
    pub async fn list(
        &self,
        organization: &TenantId,
        wanted: &EntryFilter,
        cursor: Option<Position>,
        limit: usize,
        now: Timestamp,
    ) -> Result<EntryPage> {
        let oldest = Timestamp::from_second(now.as_second() - KEPT_SECONDS).map_err(Error::internal("a year ago"))?;
        let from = Position::start_of(wanted.since.map_or(oldest, |since| since.max(oldest)));
        let until = wanted.until.map(Position::start_of);
        let end = [until, cursor].into_iter().flatten().min();
        let to = end.map_or(Position::LAST, Position::previous);
        if to < from {
            return Ok(EntryPage { entries: Vec::new(), next: None });
        }
        let keys = TENANT_ID.equals(text(organization)).and(ENTRY.is_between(text(from), text(to)));
        let conditions = [
            wanted.actor.as_ref().map(|actor| ACTOR_ID.equals(text(actor))),
            wanted.action.map(|action| ACTION.equals(text(action))),
            // Also finds entries that contain the id elsewhere.
            wanted.target.as_ref().map(|target| DETAILS.contains(text(json_string(target)))),
        ];
        let condition = conditions.into_iter().flatten().reduce(Condition::and);
        let most = if condition.is_some() { FILTERED_PAGE_SIZE } else { limit };
        let query = select(query(&self.dynamodb, &self.table, keys), &[ENTRY, DETAILS]);
        let query = query.consistent_read(true).scan_index_forward(false).limit(most.try_into().unwrap_or(i32::MAX));
        let query = condition.into_iter().fold(query, filter);
        let answer = Box::pin(query.send()).await.map_err(failure("listing audit entries"))?;
        let items = answer.items.unwrap_or_default();
        let found = items.iter().map(|item| Ok((item, read(item)?))).collect::<Result<Vec<_>>>()?;
        let is_wanted = |entry: &api::audit::Entry| wanted.target.as_ref().is_none_or(|id| *id == entry.target.id);
        let mut found: Vec<_> = found.into_iter().filter(|(_, entry)| is_wanted(entry)).collect();
        // Entries that were read past the end of this page are read again for the next page.
        let is_longer = found.len() > limit;
        found.truncate(limit);
        let last = if is_longer { found.last().map(|(item, _)| *item) } else { answer.last_evaluated_key.as_ref() };
        let next = last.map(position).transpose()?;
        Ok(EntryPage { entries: found.into_iter().map(|(_, entry)| entry).collect(), next })
    }
}

/// The text as a string in JSON.
fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn position(item: &Item) -> Result<Position> {
    ItemReader::new("audit entry", item).parsed(ENTRY)
}

fn read(item: &Item) -> Result<api::audit::Entry> {
    let details = ItemReader::new("audit entry", item).text(DETAILS)?;
    serde_json::from_str(details).map_err(Error::internal("reading an audit entry"))
}
