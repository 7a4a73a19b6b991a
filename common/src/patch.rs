//! What an update does to a value that may be missing.

/// A change of a value that may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// It stays what it is.
    #[default]
    Keep,
    /// It is gone.
    Clear,
    /// It is this from now on.
    Set(T),
}

impl<T> Patch<T> {
    /// The value of something new, which has none before.
    #[must_use]
    pub fn into_option(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }
}
