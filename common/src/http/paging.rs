//! Reads the requested part of a list from the query parameters that Better Auth's clients send.

use schemars::JsonSchema;

use super::fields::{Fields, Rejected};
use crate::{
    error::Result,
    issue::Problem,
    paging::{Order, Paging},
};

/// The maximum number of entries in one response, which is also the default.
pub const MAX_LISTED: u16 = 100;

impl Paging {
    /// Reads `limit` and `offset`.
    pub fn read(fields: &mut Fields) -> Result<Self, Rejected> {
        let limit = read_limit(fields.about("The maximum number of entries to list. The default is 100."), "limit");
        let offset = fields
            .about("The number of entries to skip. The default is 0.")
            .optional_number_in_query("offset", 0..=u16::MAX.into());
        Ok(Self { limit: limit?, offset: number(offset?.unwrap_or(0)) })
    }
}

/// Reads the maximum number of entries to list.
pub fn read_limit(fields: &mut Fields, name: &'static str) -> Result<usize, Rejected> {
    let limit = fields.optional_number_in_query(name, 1..=MAX_LISTED.into())?;
    Ok(number(limit.unwrap_or(MAX_LISTED.into())))
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "camelCase")]
enum SortBy {
    CreatedAt,
}

impl Order {
    /// Reads `sortBy` and `sortDirection`.
    pub fn read(fields: &mut Fields) -> Result<Self, Rejected> {
        let by = fields
            .about("The sort key of the list. `createdAt` is the only value and the default.")
            .optional_text("sortBy", |text| match text {
                "createdAt" => Ok(SortBy::CreatedAt),
                _ => Err(vec![Problem::format("Must be createdAt")]),
            });
        let direction = fields
            .about("The sort order: oldest first (`asc`, the default) or newest first (`desc`).")
            .optional_text("sortDirection", |text| match text {
                "asc" => Ok(Self::Ascending),
                "desc" => Ok(Self::Descending),
                _ => Err(vec![Problem::format("Must be asc or desc")]),
            });
        by?;
        Ok(direction?.unwrap_or_default())
    }
}

fn number(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
