// SPDX-License-Identifier: Apache-2.0
//! Keys as handles that Python holds.

use std::sync::Arc;

use ojak_httpsig::error::{Reason, Refused};
use ojak_httpsig::key::{self, Algorithm};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::key_refused;

/// Runs something with the text of a key, given as str or bytes.
fn with_text<T>(text: &Bound<'_, PyAny>, read: impl FnOnce(&str) -> Result<T, Refused>) -> PyResult<T> {
    let py = text.py();
    let not_text = || key_refused(py, &Refused::new(Reason::MalformedKey, "the key is not ASCII text; PEM is wanted"));
    let outcome = if let Ok(string) = text.cast::<PyString>() {
        read(&string.to_cow().map_err(|_| not_text())?)
    } else if let Ok(bytes) = text.cast::<PyBytes>() {
        read(std::str::from_utf8(bytes.as_bytes()).map_err(|_| not_text())?)
    } else {
        return Err(PyTypeError::new_err(format!("a key is a str or bytes, not {}", text.get_type().name()?)));
    };
    outcome.map_err(|refused| key_refused(py, &refused))
}

fn pickled(kind: &str, what: &str) -> PyErr {
    PyTypeError::new_err(format!("a {what} ({kind}) does not pickle: it is a handle to a key in this process"))
}

/// A private key, parsed once: a handle whose bytes stay in Rust and are cleared when it goes.
///
/// It does not pickle, and its repr shows only kind and size.
#[pyclass(frozen, module = "ojak._ojak", skip_from_py_object)]
pub struct PrivateKey(pub Arc<key::PrivateKey>);

#[pymethods]
impl PrivateKey {
    /// Read a PEM private key: PKCS#8 (RSA up to 8192 bits, Ed25519, P-256), or RSA in PKCS#1.
    ///
    /// Any line ends and line lengths are taken. RSA below `min_rsa_bits`, or below 2048, is refused. Raises
    /// `KeyRefused` with the reason `malformed_key`, `unsupported_key` or `weak_key`.
    /// (RFC 7468, RFC 5958, RFC 8017, RFC 8410)
    #[staticmethod]
    #[pyo3(signature = (pem, *, min_rsa_bits = 2048))]
    fn from_pem(pem: &Bound<'_, PyAny>, min_rsa_bits: u32) -> PyResult<Self> {
        with_text(pem, |text| key::PrivateKey::from_pem(text, min_rsa_bits)).map(|key| Self(Arc::new(key)))
    }

    /// Take the 32 bytes of an Ed25519 seed. Raises `KeyRefused` (`malformed_key`) (RFC 8032).
    #[staticmethod]
    fn from_ed25519_seed(py: Python<'_>, seed: &[u8]) -> PyResult<Self> {
        let key = key::PrivateKey::from_ed25519_seed(seed).map_err(|refused| key_refused(py, &refused))?;
        Ok(Self(Arc::new(key)))
    }

    /// Read a `secretKeyMultibase` of an Ed25519 key. Raises `KeyRefused` (FEP-521a).
    #[staticmethod]
    fn from_multikey(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        with_text(text, key::PrivateKey::from_multikey).map(|key| Self(Arc::new(key)))
    }

    /// Make an RSA key of 2048, 3072, 4096 or 8192 bits. Takes a tenth of a second and more, without the GIL.
    #[staticmethod]
    #[pyo3(signature = (bits = 2048))]
    fn generate_rsa(py: Python<'_>, bits: u32) -> PyResult<Self> {
        // Tens of milliseconds and more: other threads go on meanwhile.
        let key = py.detach(|| key::PrivateKey::generate_rsa(bits)).map_err(|refused| key_refused(py, &refused))?;
        Ok(Self(Arc::new(key)))
    }

    /// A key that does not sign, for measuring.
    #[cfg(feature = "stub-key")]
    #[staticmethod]
    fn stub(kind: &str) -> Self {
        let kind = if kind == "rsa" { key::KeyKind::Rsa } else { key::KeyKind::Ed25519 };
        Self(Arc::new(key::PrivateKey::stub(kind)))
    }

    /// Make an Ed25519 key.
    #[staticmethod]
    fn generate_ed25519(py: Python<'_>) -> PyResult<Self> {
        let key = key::PrivateKey::generate_ed25519().map_err(|refused| key_refused(py, &refused))?;
        Ok(Self(Arc::new(key)))
    }

    /// What kind the key is of.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().as_str()
    }

    /// The size in bits: of the modulus for RSA, 256 otherwise.
    #[getter]
    fn bits(&self) -> u32 {
        self.0.bits()
    }

    /// Give the public half.
    fn public_key(&self, py: Python<'_>) -> PyResult<PublicKey> {
        let key = self.0.public_key().map_err(|refused| key_refused(py, &refused))?;
        Ok(PublicKey(Arc::new(key)))
    }

    /// Give the public half as SPKI PEM, the form for `publicKeyPem`.
    fn public_pem(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.public_key(py)?.0.to_pem())
    }

    /// Give the key as PKCS#8 PEM. With `secret_multikey` the only way out of the handle: store it with care.
    fn private_pem(&self, py: Python<'_>) -> PyResult<Py<PyString>> {
        let pem = self.0.to_pem().map_err(|refused| key_refused(py, &refused))?;
        Ok(PyString::new(py, &pem).unbind())
    }

    /// Give an Ed25519 key as `secretKeyMultibase`. Raises `KeyRefused` for another kind (FEP-521a).
    fn secret_multikey(&self, py: Python<'_>) -> PyResult<Py<PyString>> {
        let text = self.0.to_multikey().map_err(|refused| key_refused(py, &refused))?;
        Ok(PyString::new(py, &text).unbind())
    }

    fn __repr__(&self) -> String {
        format!("PrivateKey(kind={:?}, bits={})", self.kind(), self.bits())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pickled(self.kind(), "PrivateKey"))
    }
}

/// A public key, parsed once. It does not pickle.
#[pyclass(frozen, module = "ojak._ojak", skip_from_py_object)]
pub struct PublicKey(pub Arc<key::PublicKey>);

fn pinned(key: key::PublicKey, algorithm: Option<&str>) -> Result<key::PublicKey, Refused> {
    match algorithm {
        None => Ok(key),
        Some(name) => key.pinned_to(Algorithm::named(name)?),
    }
}

#[pymethods]
impl PublicKey {
    /// Read a PEM public key: SPKI (RSA, Ed25519, P-256), or RSA in PKCS#1.
    ///
    /// `algorithm`, a name of RFC 9421 section 6.2, pins the key to it, as its record may. RSA below
    /// `min_rsa_bits` (at least 1024) is refused. Raises `KeyRefused` with the reason `malformed_key`,
    /// `unsupported_key`, `weak_key`, `unknown_algorithm` or `algorithm_mismatch`.
    #[staticmethod]
    #[pyo3(signature = (pem, *, algorithm = None, min_rsa_bits = 2048))]
    fn from_pem(pem: &Bound<'_, PyAny>, algorithm: Option<&str>, min_rsa_bits: u32) -> PyResult<Self> {
        let read = |text: &str| pinned(key::PublicKey::from_pem(text, min_rsa_bits)?, algorithm);
        with_text(pem, read).map(|key| Self(Arc::new(key)))
    }

    /// Read a `publicKeyMultibase` of an Ed25519 or RSA key. Raises `KeyRefused` (FEP-521a).
    #[staticmethod]
    #[pyo3(signature = (text, *, min_rsa_bits = 2048))]
    fn from_multikey(text: &Bound<'_, PyAny>, min_rsa_bits: u32) -> PyResult<Self> {
        with_text(text, |text| key::PublicKey::from_multikey(text, min_rsa_bits)).map(|key| Self(Arc::new(key)))
    }

    /// What kind the key is of.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().as_str()
    }

    /// The size in bits: of the modulus for RSA, 256 otherwise.
    #[getter]
    fn bits(&self) -> u32 {
        self.0.bits()
    }

    /// The one algorithm that the key is pinned to, if any.
    #[getter]
    fn algorithm(&self) -> Option<&'static str> {
        self.0.pinned().map(Algorithm::as_str)
    }

    /// The SHA-256 of the SPKI DER in hex: a name for the key that is safe to log.
    #[getter]
    fn spki_sha256(&self) -> String {
        self.0.spki_sha256()
    }

    /// Give the key as SPKI PEM.
    fn pem(&self) -> String {
        self.0.to_pem()
    }

    /// Give an Ed25519 key as `publicKeyMultibase`. Raises `KeyRefused` for another kind (FEP-521a).
    fn multikey(&self, py: Python<'_>) -> PyResult<String> {
        self.0.to_multikey().map_err(|refused| key_refused(py, &refused))
    }

    fn __repr__(&self) -> String {
        format!("PublicKey(kind={:?}, bits={}, spki_sha256={:?})", self.kind(), self.bits(), self.spki_sha256())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pickled(self.kind(), "PublicKey"))
    }
}
