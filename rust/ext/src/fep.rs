// SPDX-License-Identifier: Apache-2.0
//! FEP-8fcf, FEP-8b32 and canonical JSON.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ojak_httpsig::error::{Outcome, Reason, Refused};
use ojak_httpsig::fep8b32::{self, ProofKey};
use ojak_httpsig::json::Json;
use ojak_httpsig::{fep8fcf, jcs, key};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::convert::argument;
use crate::errors::{as_key_refusal, signature_refused};
use crate::keys::{PrivateKey, PublicKey};

/// The digest of the followers of an actor that live on one instance, kept as they come and go (FEP-8fcf).
///
/// Adding and removing are the same operation on it, so each has to be told exactly once.
///
/// Start for the instance of a URL, such as an inbox: with no followers, or from a digest kept in hex.
///
/// Raises `SignatureRefused` (`invalid_url`, `invalid_param`).
#[pyclass(frozen, module = "ojak._ojak", skip_from_py_object)]
pub struct FollowersDigest(Mutex<fep8fcf::FollowersDigest>);

impl FollowersDigest {
    fn lock(&self) -> MutexGuard<'_, fep8fcf::FollowersDigest> {
        // Nothing that holds the lock can panic half-way; and a digest is whole at every step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn toggle(&self, follower: &Bound<'_, PyString>) -> PyResult<bool> {
        let follower = argument(follower, Reason::InvalidUrl, "follower's id")?;
        Ok(self.lock().toggle(&follower))
    }
}

#[pymethods]
impl FollowersDigest {
    #[new]
    #[pyo3(signature = (instance, digest = None))]
    fn new(instance: &Bound<'_, PyString>, digest: Option<&str>) -> PyResult<Self> {
        let url = argument(instance, Reason::InvalidUrl, "instance's URL")?;
        match digest {
            None => fep8fcf::FollowersDigest::new(&url),
            Some(hex) => fep8fcf::FollowersDigest::resume(&url, hex),
        }
        .map(|digest| Self(Mutex::new(digest)))
        .map_err(|refused| signature_refused(instance.py(), &refused))
    }

    /// Digest a whole collection of ids; those that live elsewhere are left out, repeated ones count once.
    #[staticmethod]
    fn of(instance: &Bound<'_, PyString>, followers: &Bound<'_, PyAny>) -> PyResult<Self> {
        let digest = Self::new(instance, None)?;
        let mut seen = std::collections::HashSet::new();
        for follower in followers.try_iter()? {
            let follower = follower?;
            let follower = follower.cast::<PyString>()?;
            // A collection holds each of its members once, however often a list of it names them.
            if seen.insert(argument(follower, Reason::InvalidUrl, "follower's id")?.into_owned()) {
                digest.toggle(follower)?;
            }
        }
        Ok(digest)
    }

    /// Add a follower that was none. Says whether it lives on the instance; if not, nothing changes.
    fn add(&self, follower: &Bound<'_, PyString>) -> PyResult<bool> {
        self.toggle(follower)
    }

    /// Remove a follower that was one. Says whether it lives on the instance; if not, nothing changes.
    fn remove(&self, follower: &Bound<'_, PyString>) -> PyResult<bool> {
        self.toggle(follower)
    }

    /// Say whether a follower lives on the instance: same scheme, host and port.
    fn holds(&self, follower: &Bound<'_, PyString>) -> PyResult<bool> {
        let follower = argument(follower, Reason::InvalidUrl, "follower's id")?;
        Ok(self.lock().holds(&follower))
    }

    /// The digest, as 64 hex digits.
    #[getter]
    fn hex(&self) -> String {
        self.lock().hex()
    }

    fn __repr__(&self) -> String {
        format!("FollowersDigest({:?})", self.hex())
    }
}

/// A `Collection-Synchronization` header (FEP-8fcf).
///
/// Make a header to send. Raises `SignatureRefused` (`invalid_param`).
#[pyclass(frozen, module = "ojak._ojak", skip_from_py_object)]
pub struct CollectionSync(fep8fcf::CollectionSync);

#[pymethods]
impl CollectionSync {
    #[new]
    fn new(py: Python<'_>, collection_id: &str, url: &str, digest: &str) -> PyResult<Self> {
        fep8fcf::CollectionSync::new(collection_id, url, digest)
            .map(Self)
            .map_err(|refused| signature_refused(py, &refused))
    }

    /// Read a header that arrived, and check it against who sent it: the actor's id, and its followers' id.
    ///
    /// Whether the signature covered it, the verifier says. Raises `SignatureRefused` with the reason
    /// `malformed_signature`, `duplicate_param`, `missing_param`, `wrong_collection` or `wrong_authority`.
    #[staticmethod]
    #[pyo3(signature = (value, *, actor = None, followers = None))]
    fn parse(value: &Bound<'_, PyString>, actor: Option<&str>, followers: Option<&str>) -> PyResult<Self> {
        let text = argument(value, Reason::MalformedSignature, "Collection-Synchronization")?;
        fep8fcf::CollectionSync::parse(&text)
            .and_then(|sync| sync.check(actor, followers).map(|()| Self(sync)))
            .map_err(|refused| signature_refused(value.py(), &refused))
    }

    /// The followers collection.
    #[getter]
    fn collection_id(&self) -> &str {
        self.0.get("collectionId")
    }

    /// Where the partial collection can be fetched.
    #[getter]
    fn url(&self) -> &str {
        self.0.get("url")
    }

    /// The digest in hex.
    #[getter]
    fn digest(&self) -> &str {
        self.0.get("digest")
    }

    /// All parameters, in order.
    #[getter]
    fn params(&self) -> Vec<(String, String)> {
        self.0.params.clone()
    }

    /// Give the header's value.
    fn header(&self) -> String {
        self.0.header()
    }

    fn __repr__(&self) -> String {
        format!("CollectionSync({:?})", self.0.header())
    }
}

fn parsed(py: Python<'_>, document: &[u8]) -> PyResult<Json> {
    Json::parse(document).map_err(|refused| signature_refused(py, &refused))
}

/// Give a JSON text of at most 4 MiB in canonical form.
///
/// Raises `SignatureRefused` (`not_json`, `duplicate_key`). (RFC 8785).
#[pyfunction]
pub fn canonical_json<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let canonical = jcs::canonicalize(text).map_err(|refused| signature_refused(py, &refused))?;
    Ok(PyBytes::new(py, canonical.as_bytes()))
}

/// Make an integrity proof, as JSON, for a document given as JSON. See `ojak.signing.sign_document`.
#[pyfunction]
pub fn make_proof<'py>(
    py: Python<'py>,
    document: &[u8],
    key: &PrivateKey,
    verification_method: &str,
    created: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let document = parsed(py, document)?;
    let proof = fep8b32::make(&document, &key.0, verification_method, created)
        .map_err(|refused| signature_refused(py, &refused))?;
    Ok(PyBytes::new(py, jcs::canonical(&proof).as_bytes()))
}

/// Give the 64 bytes that the proof of a document given as JSON signs. See `ojak.signing.proof_hash`.
#[pyfunction]
pub fn hash_proof<'py>(py: Python<'py>, document: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let hash = fep8b32::hash(&parsed(py, document)?).map_err(|refused| signature_refused(py, &refused))?;
    Ok(PyBytes::new(py, &hash))
}

struct Held<'py> {
    key: Bound<'py, PublicKey>,
    controller: String,
}

impl ProofKey for Held<'_> {
    fn key(&self) -> &key::PublicKey {
        &self.key.get().0
    }

    fn controller(&self) -> &str {
        &self.controller
    }
}

/// Check the integrity proof of a document given as JSON. See `ojak.signing.verify_document`.
#[pyfunction]
#[pyo3(signature = (document, resolve, *, now_s))]
pub fn check_proof(document: &[u8], resolve: Bound<'_, PyAny>, now_s: i64) -> PyResult<String> {
    let py = resolve.py();
    let document = parsed(py, document)?;
    let mut raised: Option<PyErr> = None;
    let look_up = |method: &str| -> Outcome<Option<Held<'_>>> {
        let found = resolve.call1((method,)).and_then(|answer| {
            if answer.is_none() {
                return Ok(None);
            }
            let (key, controller): (Bound<'_, PyAny>, String) = answer.extract()?;
            Ok(Some(Held { key: key.cast_into::<PublicKey>()?, controller }))
        });
        found.map_err(|error| {
            as_key_refusal(py, &error).unwrap_or_else(|| {
                raised = Some(error);
                Refused::new(Reason::UnknownKey, "the key could not be looked up")
            })
        })
    };
    let outcome = fep8b32::check(&document, look_up, now_s);
    match (outcome, raised) {
        (_, Some(error)) => Err(error),
        (Ok(method), None) => Ok(method),
        (Err(refused), None) => Err(signature_refused(py, &refused)),
    }
}
