//! `fanfare profiles`.

use serde_json::json;

use crate::{
    config::Config,
    failure::Failure,
    table::{self, Column},
    terminal::{cell, print_json, print_line},
};

const COLUMNS: &[Column] = &[Column::new("PROFILE"), Column::new("SERVICE").shrinks_to(24), Column::new("STATE")];

pub(crate) fn list(config: &Config, is_json: bool) -> Result<(), Failure> {
    let known: Vec<_> = config.known().collect();
    if is_json {
        let known = known.iter().map(|one| {
            json!({ "profile": one.profile, "api": one.api, "signed_in": one.is_signed_in, "default": one.is_default })
        });
        return Ok(print_json(&json!({ "profiles": known.collect::<Vec<_>>() }))?);
    }
    if known.is_empty() {
        return Ok(print_line("No services yet. Sign in with `fanfare login`.")?);
    }
    let rows = known.iter().map(|one| {
        let state = if one.is_signed_in { "signed in" } else { "signed out" };
        let default = if one.is_default { ", default" } else { "" };
        vec![
            one.profile.map_or_else(|| "(none)".to_owned(), |name| cell(&name)),
            cell(&one.api),
            format!("{state}{default}"),
        ]
    });
    Ok(table::print(COLUMNS, &rows.collect::<Vec<_>>())?)
}
