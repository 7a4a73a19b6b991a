//! Random bytes for secrets and jitter, from the operating system.

use crate::runtime_sources;

/// Returns `N` random bytes.
///
/// # Panics
/// The operating system cannot provide random bytes. Secrets generated without them would be unsafe.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    runtime_sources::fill(&mut bytes);
    bytes
}

/// Returns a random number in `0.0..1.0`.
pub fn fraction() -> f64 {
    f64::from(u32::from_le_bytes(bytes())) / (f64::from(u32::MAX) + 1.0)
}
