//! `fanfare audit`: changes in the organization, with their actors.

use api::audit::{Actor, ActorKind, Change, Entry, List as Call, Listed, Target, TargetKind};

use crate::{
    args::Audit,
    calls::{Api, MAX_PAGE_SIZE},
    clock,
    failure::Failure,
    table::{self, Column},
    team::members,
    terminal::{cell, cell_of, is_for_people, print_json, print_line, print_note},
};

fn columns(when: &'static str) -> [Column; 6] {
    [
        Column::new(when),
        Column::new("ACTION").shrinks_to(16),
        Column::new("ACTOR").shrinks_to(12),
        Column::new("TARGET").of_urls().shrinks_to(12),
        Column::new("CHANGES").shrinks_to(12).left_out(1),
        Column::new("FROM").left_out(0),
    ]
}

pub(crate) async fn run(api: &Api, list: Audit, is_json: bool) -> Result<(), Failure> {
    let Audit { since, until, actor, action, target, limit, cursor } = list;
    let actor = match actor {
        Some(actor) => Some(actor_id(api, actor).await?),
        None => None,
    };
    let limit = usize::try_from(limit).unwrap_or(MAX_PAGE_SIZE);
    let Listed { entries, next_cursor } =
        listed(api, Call { since, until, actor, action, target, cursor, limit: None }, limit).await?;
    if is_json {
        return Ok(print_json(&Listed { entries, next_cursor })?);
    }
    if entries.is_empty() {
        return Ok(print_line("No changes found.")?);
    }
    let columns = columns(if is_for_people() { "AGE" } else { "TIME (UTC)" });
    table::print(&columns, &entries.iter().map(row).collect::<Vec<_>>())?;
    if next_cursor.is_some() && is_for_people() {
        print_note("Older changes exist. Add --limit, --since or --until.");
    }
    Ok(())
}

/// Reads up to `limit` of the newest entries, and the cursor for the next page. Skips empty pages.
pub(crate) async fn listed(api: &Api, mut call: Call, limit: usize) -> Result<Listed, Failure> {
    let mut entries = Vec::new();
    loop {
        call.limit = Some(limit.saturating_sub(entries.len()).clamp(1, MAX_PAGE_SIZE));
        let page = api.call(&call).await?;
        entries.extend(page.entries);
        if page.next_cursor.is_none() || entries.len() >= limit {
            return Ok(Listed { entries, next_cursor: page.next_cursor });
        }
        call.cursor = page.next_cursor;
    }
}

/// Returns the id of an actor, which may be the email address of a member.
async fn actor_id(api: &Api, typed: String) -> Result<String, Failure> {
    if !typed.contains('@') {
        return Ok(typed.to_ascii_lowercase());
    }
    let found = members(api).await?.into_iter().find(|one| one.user.email.as_str().eq_ignore_ascii_case(&typed));
    found.map(|one| one.user_id.as_str().to_owned()).ok_or_else(|| {
        Failure::not_found(format!("No member {} found.", cell(&typed)))
            .hint("Pass the id of a former member, from `fanfare --json audit`.")
    })
}

fn row(entry: &Entry) -> Vec<String> {
    let when = if is_for_people() { clock::age(&entry.at) } else { clock::short(&entry.at) };
    let changes: Vec<_> = entry.changes.iter().map(change).collect();
    vec![
        when,
        cell(&entry.action),
        actor(&entry.actor),
        target(&entry.target),
        changes.join("; "),
        cell_of(entry.ip.as_ref()),
    ]
}

fn actor(actor: &Actor) -> String {
    let (name, email) = (actor.name.as_ref().map(cell), actor.email.as_ref().map(cell));
    match (actor.kind == ActorKind::Key, name, email) {
        (true, Some(name), _) => format!("key {name}"),
        (false, _, Some(email)) => email,
        (_, name, _) => name.unwrap_or_else(|| cell(&actor.id)),
    }
}

/// The name of the changed object. One without a name has an id, which other commands accept, unless there is only one
/// of its kind or people do not know the id.
fn target(target: &Target) -> String {
    match &target.name {
        Some(name) => cell(name),
        // A recovery or an erasure.
        None if target.kind == TargetKind::Organization => "all endpoints".to_owned(),
        None if target.kind == TargetKind::Session => cell(&target.kind),
        None => format!("{} {}", cell(&target.kind), cell(&target.id)),
    }
}

fn change(change: &Change) -> String {
    let field = cell(&change.field);
    match (&change.old, &change.new) {
        (None, None) => field,
        (None, Some(new)) => format!("{field}: {}", cell(new)),
        (Some(old), None) => format!("{field}: {} removed", cell(old)),
        (Some(old), Some(new)) => format!("{field}: {} → {}", cell(old), cell(new)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_without_a_name_is_identified() {
        let text = |kind: TargetKind, name: Option<&str>| {
            target(&Target { kind: kind.into(), id: "01a2".to_owned(), name: name.map(ToOwned::to_owned) })
        };
        assert_eq!(text(TargetKind::Endpoint, Some("https://example.com")), "https://example.com");
        assert_eq!(text(TargetKind::Delivery, None), "delivery 01a2");
        assert_eq!(
            [TargetKind::Organization, TargetKind::Session].map(|kind| text(kind, None)),
            ["all endpoints", "session"]
        );
    }

    #[test]
    fn a_change_shows_its_values_unless_they_are_secret() {
        let text = |old: Option<&str>, new: Option<&str>| {
            let [old, new] = [old, new].map(|value| value.map(ToOwned::to_owned));
            change(&Change { field: "url".to_owned(), old, new })
        };
        assert_eq!(text(None, None), "url");
        assert_eq!(text(None, Some("a\u{1b}")), "url: a\u{FFFD}");
        assert_eq!(text(Some("a"), None), "url: a removed");
        assert_eq!(text(Some("a"), Some("b")), "url: a → b");
    }
}
