//! The parts of the API that a key may use.

use std::{collections::BTreeSet, fmt};

pub use api::account::{KeyKind, Scope};

use crate::{
    aws::dynamo::{Item, ItemReader, attributes, text, texts},
    error::{Error, ForbiddenReason, Result},
    issue::{Problem, parse_name},
};

/// A key's kind and scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    kind: KeyKind,
    /// `None` means all scopes that a key of this kind may have, including those of later versions.
    scopes: Option<BTreeSet<Scope>>,
}

attributes! {
    // Keys from earlier versions have neither attribute: they are personal, with all scopes.
    KIND = "kind", SCOPES = "scopes",
}

impl Permissions {
    /// Builds the permissions for a key of this kind, with these scopes or all scopes.
    ///
    /// # Errors
    /// One of the scopes is not permitted for keys of this kind.
    pub fn new(kind: KeyKind, scopes: Option<BTreeSet<Scope>>) -> Result<Self, Problem> {
        match scopes.iter().flatten().find(|scope| !may_have(kind, **scope)) {
            Some(scope) => Err(Problem::format(format!("An organization key cannot have the scope {scope}"))),
            None => Ok(Self { kind, scopes }),
        }
    }

    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The scopes; `None` for all that a key of this kind may have.
    pub fn scopes(&self) -> Option<&BTreeSet<Scope>> {
        self.scopes.as_ref()
    }

    pub fn include(&self, scope: Scope) -> bool {
        may_have(self.kind, scope) && self.scopes.as_ref().is_none_or(|scopes| scopes.contains(&scope))
    }

    /// Checks that the key has `scope`.
    ///
    /// # Errors
    /// The key lacks the scope ([`ForbiddenReason::ScopeMissing`]).
    pub fn check(&self, scope: Scope) -> Result<()> {
        if self.include(scope) { Ok(()) } else { Err(Error::Forbidden(ForbiddenReason::ScopeMissing(scope))) }
    }

    pub(super) fn add_to(&self, item: &mut Item) {
        if self.kind != KeyKind::Personal {
            item.extend([KIND.with(text(self.kind))]);
        }
        let scopes = self.scopes.as_ref().map(|scopes| texts(scopes.iter().map(|scope| scope.as_str())));
        item.extend(scopes.map(|scopes| SCOPES.with(scopes)));
    }

    pub(super) fn of_item(record: &ItemReader<'_>) -> Result<Self> {
        Ok(Self {
            kind: record.optional_parsed(KIND)?.unwrap_or(KeyKind::Personal),
            scopes: record.optional_set(SCOPES, parse_name)?,
        })
    }
}

/// Formats the scopes for people: "all", or a list of names.
impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scopes {
            None => f.write_str("all"),
            Some(scopes) => f.write_str(&scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// Whether a key of this kind may have `scope`. An organization key may not change members, because such a change must
/// be made by a user.
fn may_have(kind: KeyKind, scope: Scope) -> bool {
    kind == KeyKind::Personal || scope != Scope::MembersWrite
}
