// SPDX-License-Identifier: Apache-2.0
//! Digests of bodies.

use ojak_httpsig::digest::{self, DigestAlgorithm};
use ojak_httpsig::error::{Reason, Refused};
use pyo3::prelude::*;

use crate::errors::signature_refused;

/// The digest fields of one body.
#[pyclass(frozen, eq, module = "ojak._ojak", skip_from_py_object)]
#[derive(Clone, PartialEq, Eq)]
pub struct BodyDigest(pub digest::BodyDigest);

#[pymethods]
impl BodyDigest {
    #[new]
    #[pyo3(signature = (body, algorithms = None))]
    fn new(py: Python<'_>, body: Option<&[u8]>, algorithms: Option<Vec<String>>) -> PyResult<Self> {
        let body = body.unwrap_or_default();
        let Some(names) = algorithms else { return Ok(Self(digest::BodyDigest::new(body))) };
        let algorithms = names
            .iter()
            .map(|name| {
                DigestAlgorithm::named(name).ok_or_else(|| {
                    let detail = format!("the digest algorithm {name:?} is not known; sha-256 or sha-512 is allowed");
                    signature_refused(py, &Refused::new(Reason::DigestUnsupported, detail))
                })
            })
            .collect::<PyResult<Vec<_>>>()?;
        Ok(Self(digest::BodyDigest::with(body, &algorithms)))
    }

    #[getter]
    fn digest(&self) -> &str {
        &self.0.digest
    }

    #[getter]
    fn content_digest(&self) -> &str {
        &self.0.content_digest
    }

    fn __repr__(&self) -> String {
        format!("BodyDigest({:?})", self.0.digest)
    }
}

/// Checks a digest field against a body.
#[pyfunction]
pub fn check_digest(py: Python<'_>, field: &str, value: &str, body: Option<&[u8]>) -> PyResult<()> {
    let body = body.unwrap_or_default();
    let checked = if field.eq_ignore_ascii_case("digest") {
        digest::check_digest(value, body)
    } else if field.eq_ignore_ascii_case("content-digest") {
        digest::check_content_digest(value, body)
    } else {
        Err(Refused::new(Reason::InvalidParam, format!("the field {field:?} is not Digest or Content-Digest")))
    };
    checked.map_err(|refused| signature_refused(py, &refused))
}
