//! The docs agree with the code and the template, and contain valid links and runnable examples.

mod commands;
mod deploying;
mod disaster;
mod events;
mod examples;
mod links;
mod operating;
mod receiving;
mod reference;
mod settings;
mod style;
mod usage;
mod versions;

use std::{fs, path::PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag};

pub(crate) use links::files;

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The source of a page, by its path in the repository.
pub(crate) fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| unreachable!("{path}: {error}"))
}

fn parser(page: &str) -> Parser<'_> {
    Parser::new_ext(page, Options::ENABLE_TABLES)
}

/// The rows of all tables on a page that have these columns, with each cell as written.
pub(crate) fn rows<'a>(page: &'a str, columns: &[&str]) -> Vec<Vec<&'a str>> {
    let mut tables: Vec<Vec<Vec<&str>>> = Vec::new();
    for (event, range) in parser(page).into_offset_iter() {
        match (event, tables.last_mut()) {
            (Event::Start(Tag::Table(_)), _) => tables.push(Vec::new()),
            (Event::Start(Tag::TableHead | Tag::TableRow), Some(table)) => table.push(Vec::new()),
            (Event::Start(Tag::TableCell), Some(table)) => {
                table.last_mut().expect("a cell is in a row").push(page[range].trim());
            }
            _ => {}
        }
    }
    let rows: Vec<_> =
        tables.iter().filter(|table| table[0] == columns).flat_map(|table| table[1..].to_vec()).collect();
    assert!(!rows.is_empty(), "no table has the columns {columns:?}");
    rows
}

/// The code spans in a cell, each with the text that follows it.
pub(crate) fn codes(cell: &str) -> Vec<(&str, &str)> {
    let parts: Vec<_> = cell.split('`').skip(1).collect();
    parts.chunks(2).map(|pair| (pair[0], *pair.get(1).expect("a code ends"))).collect()
}

/// A cell's only code span.
fn code(cell: &str) -> &str {
    let [(code, "")] = codes(cell)[..] else { unreachable!("{cell} is not one code") };
    code
}
