// SPDX-License-Identifier: Apache-2.0
//! draft-cavage-http-signatures-12, as the fediverse speaks it.

mod base;
mod params;
mod sign;
mod verify;

pub use base::{Covered, signing_string};
pub use params::{CavageParams, params_of, parse};
pub use sign::{CavageRequest, sign};
pub use verify::verify;
