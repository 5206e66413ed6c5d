// SPDX-License-Identifier: Apache-2.0
//! Digests of bodies.

use ojak_httpsig::digest::{self, DigestAlgorithm};
use ojak_httpsig::error::{Reason, Refused};
use pyo3::prelude::*;

use crate::errors::signature_refused;

/// The digest fields of one body: computed once, used for every attempt.
///
/// Hash a body by SHA-256, which every server reads, or by the named algorithms (`sha-256`, `sha-512`).
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

    /// The value of `Digest`, such as `SHA-256=…` (RFC 3230).
    #[getter]
    fn digest(&self) -> &str {
        &self.0.digest
    }

    /// The value of `Content-Digest`, such as `sha-256=:…:` (RFC 9530).
    #[getter]
    fn content_digest(&self) -> &str {
        &self.0.content_digest
    }

    fn __repr__(&self) -> String {
        format!("BodyDigest({:?})", self.0.digest)
    }
}

/// Check the value of a `Digest` or `Content-Digest` field against a body.
///
/// Every algorithm that is known (sha-256, sha-512) has to match, and one has to be known. Raises `SignatureRefused`
/// with the reason `digest_malformed`, `digest_unsupported` or `digest_mismatch`. (RFC 3230, RFC 9530)
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
