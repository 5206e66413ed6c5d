// SPDX-License-Identifier: Apache-2.0
//! HTTP signatures of the fediverse: draft-cavage-12 and RFC 9421, both directions; digests, keys, FEP-8fcf, FEP-8b32.
#![forbid(unsafe_code)]

pub mod cavage;
pub mod date;
pub mod digest;
pub mod error;
pub mod fep8b32;
pub mod fep8fcf;
pub mod jcs;
pub mod json;
pub mod key;
pub mod message;
pub mod policy;
pub mod profile;
pub mod rfc9421;
pub mod sf;
pub mod target;
mod verify;

pub use verify::{scheme_of, verify};
