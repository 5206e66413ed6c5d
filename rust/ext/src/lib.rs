// SPDX-License-Identifier: Apache-2.0
//! The extension module `ojak._ojak`: registration and conversion only. What it does is in `ojak-httpsig`.

// PyO3's macros write code that these lints hold to be the author's.
#![allow(clippy::needless_pass_by_value, clippy::used_underscore_binding)]

mod convert;
mod crafting;
mod digest;
mod errors;
mod fep;
mod keys;
mod message;
mod signing;
mod verifying;

use pyo3::prelude::*;

/// Keys, digests and HTTP signatures.
#[pymodule(gil_used = false)]
fn _ojak(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<keys::PrivateKey>()?;
    module.add_class::<keys::PublicKey>()?;
    module.add_class::<digest::BodyDigest>()?;
    module.add_class::<message::Message>()?;
    module.add_class::<message::Target>()?;
    module.add_class::<verifying::Policy>()?;
    module.add_class::<verifying::Verified>()?;
    module.add_class::<fep::FollowersDigest>()?;
    module.add_class::<fep::CollectionSync>()?;
    module.add_function(wrap_pyfunction!(digest::check_digest, module)?)?;
    module.add_function(wrap_pyfunction!(message::parse_target, module)?)?;
    module.add_function(wrap_pyfunction!(signing::sign, module)?)?;
    module.add_function(wrap_pyfunction!(crafting::sign_cavage, module)?)?;
    module.add_function(wrap_pyfunction!(crafting::sign_rfc9421, module)?)?;
    module.add_function(wrap_pyfunction!(crafting::cavage_base, module)?)?;
    module.add_function(wrap_pyfunction!(crafting::rfc9421_base, module)?)?;
    module.add_function(wrap_pyfunction!(crafting::parse_cavage, module)?)?;
    module.add_function(wrap_pyfunction!(crafting::parse_signature_input, module)?)?;
    module.add_function(wrap_pyfunction!(verifying::verify, module)?)?;
    module.add_function(wrap_pyfunction!(verifying::verify_message, module)?)?;
    module.add_function(wrap_pyfunction!(verifying::verify_raw, module)?)?;
    module.add_function(wrap_pyfunction!(fep::canonical_json, module)?)?;
    module.add_function(wrap_pyfunction!(fep::make_proof, module)?)?;
    module.add_function(wrap_pyfunction!(fep::hash_proof, module)?)?;
    module.add_function(wrap_pyfunction!(fep::check_proof, module)?)?;
    module.add("REASONS", errors::reasons())?;
    Ok(())
}
