//! Changes to optional values: an absent field keeps the value, `null` removes it.

/// A change to an optional value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Leave it unchanged.
    #[default]
    Keep,
    /// Remove it.
    Clear,
    /// Replace it.
    Set(T),
}

impl<T> Patch<T> {
    /// Applies the change to an unset value.
    #[must_use]
    pub fn into_option(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }
}
