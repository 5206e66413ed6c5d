// SPDX-License-Identifier: Apache-2.0
//! Keys: parsed once, kept as handles, zeroised when dropped, never printed.

mod algorithm;
mod der;
pub(crate) mod multikey;
mod pem;
mod private;
mod public;

pub use algorithm::{Algorithm, KeyKind};
pub use private::PrivateKey;
pub use public::PublicKey;

/// The fewest bits of an RSA key that is signed with, and by default that is verified with.
pub const MIN_RSA_BITS: u32 = 2048;
/// The fewest bits of an RSA key that is verified with when that is asked for.
pub const MIN_LEGACY_RSA_BITS: u32 = 1024;
/// The most bits of an RSA key.
pub const MAX_RSA_BITS: u32 = 8192;
