// SPDX-License-Identifier: Apache-2.0
//! RFC 9421, HTTP Message Signatures.

mod accept;
mod base;
mod component;
mod sign;
mod value;
mod verify;

pub use accept::{Asked, AskedValue, answer};
pub use base::{canonical_labels, signature_base};
pub use component::{Component, Param};
pub use sign::{ParamValue, Rfc9421Request, Signed, inner_list, sign};
pub use verify::verify;

/// The most components that a signature may cover.
pub const MAX_COMPONENTS: usize = 64;
/// The most components with `;sf` or `;key` among them.
pub const MAX_STRUCTURED: usize = 16;
/// The longest field that `;sf` and `;key` read, in bytes.
pub const MAX_STRUCTURED_BYTES: usize = 16 * 1024;
/// The most labels that are tried when none is named.
pub const MAX_LABELS: usize = 8;
/// The longest Signature-Input or Signature field that is read, in bytes.
pub const MAX_FIELD_BYTES: usize = 16 * 1024;
