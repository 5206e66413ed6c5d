// SPDX-License-Identifier: Apache-2.0
//! The extension module `ojak._ojak`: registration and conversion only. What it does is in `ojak-httpsig`.

// PyO3's macros write code that these lints hold to be the author's.
#![allow(clippy::needless_pass_by_value, clippy::used_underscore_binding)]

mod convert;
mod digest;
mod errors;
mod keys;
mod signing;
mod verifying;

use pyo3::prelude::*;

/// Keys, digests and HTTP signatures.
#[pymodule(gil_used = false)]
fn _ojak(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<keys::PrivateKey>()?;
    module.add_class::<keys::PublicKey>()?;
    module.add_class::<digest::BodyDigest>()?;
    module.add_class::<verifying::Policy>()?;
    module.add_class::<verifying::Verified>()?;
    module.add_function(wrap_pyfunction!(digest::check_digest, module)?)?;
    module.add_function(wrap_pyfunction!(signing::sign, module)?)?;
    module.add_function(wrap_pyfunction!(verifying::verify, module)?)?;
    module.add_function(wrap_pyfunction!(verifying::verify_raw, module)?)?;
    module.add("REASONS", errors::reasons())?;
    Ok(())
}
