// SPDX-License-Identifier: Apache-2.0
//! Verifying what arrives.

use std::sync::Arc;

use ojak_httpsig::error::{Outcome, Reason, Refused};
use ojak_httpsig::key::{self, Algorithm};
use ojak_httpsig::message::Message;
use ojak_httpsig::policy::{self, Coverage, Resolve, Scheme};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::convert::{Headers, argument};
use crate::errors::{as_key_refusal, signature_refused};
use crate::keys::PublicKey;

/// What a verifier demands. The default is that of an inbox, with the ages of Mastodon's rules.
///
/// Make a policy.
///
/// `min_rsa_bits`: the fewest bits of an RSA key (1024 to 8192). `max_skew_s`: how far clocks may be apart.
/// `max_age_s`: how old a signature may be before the skew is added; None for any age. `queryless`: a GET may be
/// signed by cavage without its query, tried only after the full target failed. `coverage`: `activitypub` demands
/// what an inbox needs, `none` nothing. Raises `SignatureRefused` (`invalid_param`).
#[pyclass(frozen, module = "ojak._ojak", skip_from_py_object)]
#[derive(Clone)]
pub struct Policy(policy::Policy);

#[pymethods]
impl Policy {
    #[new]
    #[pyo3(
        signature = (
            *, min_rsa_bits = 2048, max_skew_s = 3600, max_age_s = Some(43_200), queryless = false,
            coverage = "activitypub"
        ),
        // By default PyO3 shows no value for an Option.
        text_signature = "(*, min_rsa_bits=2048, max_skew_s=3600, max_age_s=43200, queryless=False, \
                          coverage='activitypub')"
    )]
    fn new(
        py: Python<'_>,
        min_rsa_bits: u32,
        max_skew_s: i64,
        max_age_s: Option<i64>,
        queryless: bool,
        coverage: &str,
    ) -> PyResult<Self> {
        let bad = |detail: String| signature_refused(py, &Refused::new(Reason::InvalidParam, detail));
        let coverage = match coverage {
            "activitypub" => Coverage::ActivityPub,
            "none" => Coverage::Nothing,
            other => return Err(bad(format!("coverage is {other:?}; activitypub or none is allowed"))),
        };
        if !(1024..=8192).contains(&min_rsa_bits) {
            return Err(bad(format!("min_rsa_bits is {min_rsa_bits}; 1024 to 8192 is allowed")));
        }
        if max_skew_s < 0 || max_age_s.is_some_and(|age_s| age_s < 0) {
            return Err(bad("max_skew_s and max_age_s cannot be negative".to_owned()));
        }
        Ok(Self(policy::Policy { min_rsa_bits, max_skew_s, max_age_s, queryless, coverage }))
    }

    /// The fewest bits of an RSA key.
    #[getter]
    fn min_rsa_bits(&self) -> u32 {
        self.0.min_rsa_bits
    }

    /// How far clocks may be apart, in seconds.
    #[getter]
    fn max_skew_s(&self) -> i64 {
        self.0.max_skew_s
    }

    /// How old a signature may be, in seconds, before the skew is added.
    #[getter]
    fn max_age_s(&self) -> Option<i64> {
        self.0.max_age_s
    }

    /// Whether a GET may be signed without its query.
    #[getter]
    fn queryless(&self) -> bool {
        self.0.queryless
    }

    /// What has to be covered.
    #[getter]
    fn coverage(&self) -> &'static str {
        match self.0.coverage {
            Coverage::ActivityPub => "activitypub",
            Coverage::Nothing => "none",
        }
    }
}

/// A signature that passed.
#[pyclass(frozen, module = "ojak._ojak", skip_from_py_object)]
pub struct Verified(policy::Verified);

#[pymethods]
impl Verified {
    /// The id of the key. Whose key that is, the caller has to know.
    #[getter]
    fn key_id(&self) -> &str {
        &self.0.key_id
    }

    /// How the message was signed.
    #[getter]
    fn scheme(&self) -> &'static str {
        self.0.scheme.as_str()
    }

    /// What it was signed with, by its scheme's name for it: `rsa-sha256` (cavage), `rsa-v1_5-sha256`, ….
    #[getter]
    fn algorithm(&self) -> &'static str {
        self.0.algorithm_name()
    }

    /// The signature's label (RFC 9421).
    #[getter]
    fn label(&self) -> Option<&str> {
        self.0.label.as_deref()
    }

    /// What is covered: names (cavage), or component identifiers as they stand (RFC 9421).
    #[getter]
    fn covered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.covered)
    }

    /// Whether the query was left out of what was signed.
    #[getter]
    fn queryless(&self) -> bool {
        self.0.queryless
    }

    fn __repr__(&self) -> String {
        format!("Verified(key_id={:?}, scheme={:?}, algorithm={:?})", self.0.key_id, self.scheme(), self.algorithm())
    }
}

/// A Python function from a key id to a key. A `KeyRefused` is what is wrong with that one key; whatever else it
/// raises ends the verification and goes up as it is.
struct Resolver<'py> {
    function: Bound<'py, PyAny>,
    raised: Option<PyErr>,
}

struct Handle(Arc<key::PublicKey>);

impl AsRef<key::PublicKey> for Handle {
    fn as_ref(&self) -> &key::PublicKey {
        &self.0
    }
}

impl Resolve for Resolver<'_> {
    type Key = Handle;

    fn resolve(&mut self, key_id: &str) -> Outcome<Option<Handle>> {
        let failed = || Refused::new(Reason::UnknownKey, "the key could not be looked up");
        if self.raised.is_some() {
            return Err(failed());
        }
        let py = self.function.py();
        let found = self.function.call1((key_id,)).and_then(|answer| {
            if answer.is_none() {
                return Ok(None);
            }
            let key = answer.cast::<PublicKey>()?;
            Ok(Some(Handle(Arc::clone(&key.get().0))))
        });
        found.map_err(|error| {
            as_key_refusal(py, &error).unwrap_or_else(|| {
                self.raised = Some(error);
                failed()
            })
        })
    }
}

/// Verify the signature of a request, as an inbox must.
///
/// `url` is the absolute URL that was asked for. `resolve` gives the key of a key id, or None; a `KeyRefused` that it
/// raises counts against that signature, and anything else it raises goes up as it is. `now_s` is the time in seconds
/// since 1970. Without `scheme`, a message with a Signature-Input is verified by RFC 9421 and no other. Without
/// `label`, the first signature that passes wins. Raises `SignatureRefused`, whose `reason` is a word of `REASONS`.
/// (draft-cavage-http-signatures-12, RFC 9421 section 3.2)
#[pyfunction]
#[pyo3(signature = (method, url, headers, body, resolve, *, now_s, policy = None, scheme = None, label = None))]
#[allow(clippy::too_many_arguments)]
pub fn verify<'py>(
    py: Python<'py>,
    method: &Bound<'py, PyString>,
    url: &Bound<'py, PyString>,
    headers: &Bound<'py, PyAny>,
    body: Option<&[u8]>,
    resolve: Bound<'py, PyAny>,
    now_s: i64,
    policy: Option<&Policy>,
    scheme: Option<&str>,
    label: Option<&str>,
) -> PyResult<Verified> {
    let refuse = |refused| signature_refused(py, &refused);
    let method = argument(method, Reason::InvalidHeader, "method")?;
    let url = argument(url, Reason::InvalidUrl, "URL")?;
    let headers = Headers::read(headers)?;
    let fields = headers.pairs();
    let message = Message::request(&method, &url, &fields, body).map_err(refuse)?;
    run(py, resolve, policy, scheme, |resolver, policy, scheme| {
        ojak_httpsig::verify(&message, resolver, policy, now_s, scheme, label)
    })
}

/// Verify the signature of a request or response. As `verify`, for a message that is there already.
#[pyfunction]
#[pyo3(signature = (message, resolve, *, now_s, policy = None, scheme = None, label = None))]
pub fn verify_message(
    py: Python<'_>,
    message: &crate::message::Message,
    resolve: Bound<'_, PyAny>,
    now_s: i64,
    policy: Option<&Policy>,
    scheme: Option<&str>,
    label: Option<&str>,
) -> PyResult<Verified> {
    run(py, resolve, policy, scheme, |resolver, policy, scheme| {
        message.0.with(&[], |core| ojak_httpsig::verify(core, resolver, policy, now_s, scheme, label))
    })
}

fn run<'py>(
    py: Python<'py>,
    resolve: Bound<'py, PyAny>,
    policy: Option<&Policy>,
    scheme: Option<&str>,
    verify: impl FnOnce(&mut Resolver<'py>, &policy::Policy, Option<Scheme>) -> Outcome<policy::Verified>,
) -> PyResult<Verified> {
    let refuse = |refused| signature_refused(py, &refused);
    let scheme = scheme.map(Scheme::named).transpose().map_err(refuse)?;
    let default;
    let policy = if let Some(policy) = policy {
        &policy.0
    } else {
        default = policy::Policy::default();
        &default
    };
    let mut resolver = Resolver { function: resolve, raised: None };
    let outcome = verify(&mut resolver, policy, scheme);
    match (outcome, resolver.raised) {
        (_, Some(error)) => Err(error),
        (Ok(verified), None) => Ok(Verified(verified)),
        (Err(refused), None) => Err(refuse(refused)),
    }
}

/// Check one signature over data. `algorithm` is a name of RFC 9421 section 6.2.
///
/// Raises `SignatureRefused` with the reason `unknown_algorithm`, `algorithm_mismatch`, `weak_key` or
/// `signature_mismatch`.
#[pyfunction]
pub fn verify_raw(py: Python<'_>, key: &PublicKey, algorithm: &str, signature: &[u8], data: &[u8]) -> PyResult<()> {
    Algorithm::named(algorithm)
        .and_then(|algorithm| key.0.verify(algorithm, data, signature))
        .map_err(|refused| signature_refused(py, &refused))
}
