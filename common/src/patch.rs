//! Changes to optional values: an absent field keeps the value, `null` removes it.

/// A change to an optional value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Keep the current value.
    #[default]
    Keep,
    /// Remove the value.
    Clear,
    /// Replace the value.
    Set(T),
}

impl<T: PartialEq> Patch<T> {
    /// Returns the change from one value to another.
    pub fn between(old: Option<T>, new: Option<T>) -> Self {
        if old == new { Self::Keep } else { new.map_or(Self::Clear, Self::Set) }
    }
}

impl<T> Patch<T> {
    /// Returns the value after this change to an unset one.
    pub fn into_option(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }
}
