// SPDX-License-Identifier: Apache-2.0
//! Refusals as Python's exceptions, which live in `ojak.signing.errors` so that they are part of the error tree.

use ojak_httpsig::error::{Reason, Refused};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

static KEY_REFUSED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static SIGNATURE_REFUSED: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The words of the closed list.
pub fn reasons() -> Vec<&'static str> {
    Reason::ALL.iter().map(|reason| reason.as_str()).collect()
}

fn raise(py: Python<'_>, kept: &PyOnceLock<Py<PyType>>, name: &str, refused: &Refused) -> PyErr {
    match kept.import(py, "ojak.signing.errors", name) {
        Ok(class) => match class.call1((refused.reason.as_str(), refused.detail.as_ref())) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        },
        Err(error) => PyRuntimeError::new_err(format!("ojak.signing.errors.{name} cannot be had: {error}")),
    }
}

/// A key was refused.
pub fn key_refused(py: Python<'_>, refused: &Refused) -> PyErr {
    raise(py, &KEY_REFUSED, "KeyRefused", refused)
}

/// A signature, or something to be signed, was refused.
pub fn signature_refused(py: Python<'_>, refused: &Refused) -> PyErr {
    raise(py, &SIGNATURE_REFUSED, "SignatureRefused", refused)
}

/// The refusal inside a `KeyRefused` that a callback raised; `None` for any other exception.
pub fn as_key_refusal(py: Python<'_>, error: &PyErr) -> Option<Refused> {
    let class = KEY_REFUSED.import(py, "ojak.signing.errors", "KeyRefused").ok()?;
    if !error.is_instance(py, class) {
        return None;
    }
    let value = error.value(py);
    let word: String = value.getattr("reason").ok()?.extract().ok()?;
    let reason = Reason::ALL.iter().find(|reason| reason.as_str() == word)?;
    Some(Refused::new(*reason, value.to_string()))
}
