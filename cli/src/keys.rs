//! `fanfare keys`.

use api::{
    account::{CreateKey, DeleteKey, KeyKind},
    team::{Key, Keys as List},
};

use crate::{
    approval::with_session,
    args::Keys,
    calls::Api,
    clock,
    failure::Failure,
    ids::{self, Shortener},
    input::confirm,
    table::{self, Column},
    terminal::{cell, print_json, print_line, print_result, shown},
};

const COLUMNS: &[Column] = &[
    Column::new("NAME").shrinks_to(12),
    Column::new("KEY"),
    Column::new("ACTS FOR").shrinks_to(12),
    Column::new("SCOPES").shrinks_to(14),
    Column::new("CREATED").left_out(0),
    Column::new("LAST USED"),
    Column::new("FROM").left_out(1),
    Column::new("EXPIRES").left_out(2),
    Column::new("ID"),
];

pub(crate) async fn run(api: &Api, command: Keys, is_json: bool) -> Result<(), Failure> {
    match command {
        Keys::List => {
            let keys = api.call(&List::new()).await?;
            if is_json { Ok(print_json(&keys)?) } else { list(&keys) }
        }
        Keys::Create { name, organization, scopes, expires, no_browser } => {
            let call = CreateKey {
                expires_in: expires,
                kind: organization.then_some(KeyKind::Organization),
                scopes: (!scopes.is_empty()).then_some(scopes),
                ..CreateKey::new(name)
            };
            let issued = with_session(api, !no_browser, is_json, async |session| session.call(&call).await).await?;
            if is_json {
                return Ok(print_json(&issued)?);
            }
            let expiry = match &issued.expires_at {
                Some(expires_at) => format!("It expires at {} UTC.", clock::short(expires_at)),
                None => "It does not expire.".to_owned(),
            };
            print_line(&format!("Created the {} key {}. {expiry}", cell(&issued.kind), cell(&issued.name)))?;
            Ok(print_line(&format!("Key, shown once: {}", shown(issued.key.reveal())))?)
        }
        Keys::Delete { id, yes } => {
            let keys = api.call(&List::new()).await?;
            let is_meant = |key: &&Key| key.id.as_str().starts_with(&id.to_ascii_lowercase());
            let found =
                keys.iter().filter(is_meant).map(|key| (key, format!("{}  {}", cell(&key.id), cell(&key.name))));
            let key = ids::only(&id, "API key", found.collect())?;
            let name = format!("{} ({}…)", cell(&key.name), cell(&key.start));
            confirm(&format!("Delete the API key {name}? It stops working immediately."), yes)?;
            let deleted = api.call(&DeleteKey::new(key.id.clone())).await?;
            Ok(print_result(&deleted, is_json, &format!("Deleted the API key {name}."))?)
        }
    }
}

fn list(keys: &[Key]) -> Result<(), Failure> {
    let shortener = Shortener::for_ids(keys.iter().map(|key| key.id.as_str()));
    let rows = keys.iter().map(|key| {
        vec![
            cell(&key.name),
            format!("{}…", cell(&key.start)),
            acts_for(key),
            scopes(key),
            format!("{} ago", clock::age(&key.created_at)),
            // Only the day, because the service does not store the time.
            key.last_request
                .as_ref()
                .map_or_else(|| "never".to_owned(), |day| clock::short(day).chars().take(10).collect()),
            key.last_ip_address.as_ref().map_or_else(|| "-".to_owned(), cell),
            key.expires_at.as_ref().map_or_else(|| "never".to_owned(), clock::short),
            shortener.short(key.id.as_str()),
        ]
    });
    Ok(table::print(COLUMNS, &rows.collect::<Vec<_>>())?)
}

fn acts_for(key: &Key) -> String {
    if key.kind == KeyKind::Organization {
        return "organization".to_owned();
    }
    let creator = key.created_by.as_ref().and_then(|creator| creator.name.as_ref());
    creator.map_or_else(|| "-".to_owned(), cell)
}

fn scopes(key: &Key) -> String {
    match &key.scopes {
        None => "all".to_owned(),
        Some(scopes) => scopes.iter().map(cell).collect::<Vec<_>>().join(", "),
    }
}
