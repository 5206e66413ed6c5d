// SPDX-License-Identifier: Apache-2.0
//! Signing what is sent.

use ojak_httpsig::error::{Outcome, Reason};
use ojak_httpsig::key::KeyKind;
use ojak_httpsig::policy::Scheme;
use ojak_httpsig::profile::{self, Outgoing};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::convert::{Headers, argument};
use crate::digest::BodyDigest;
use crate::errors::signature_refused;
use crate::keys::PrivateKey;

/// Runs something that signs, without the GIL if it takes long enough that others should have it meanwhile.
pub fn signed<T: Send>(py: Python<'_>, key: &PrivateKey, run: impl Send + FnOnce() -> Outcome<T>) -> PyResult<T> {
    let outcome = if key.0.kind() == KeyKind::Rsa { py.detach(run) } else { run() };
    outcome.map_err(|refused| signature_refused(py, &refused))
}

/// Sign a request as Ojak sends it (SPEC section 6), and give the header fields to send.
///
/// `scheme` is `cavage` (`(request-target) host date digest`, `rsa-sha256` for RSA and `hs2019` for Ed25519) or
/// `rfc9421` (`"@method" "@target-uri" "@authority" "content-digest"`, parameters created, keyid, alg). `url` is
/// absolute; path and query are signed byte for byte. `digest` is that of the body, None for a request without one.
/// `now_s` is the time of the signature in seconds since 1970. `headers` are the caller's own fields to cover too.
/// `accept_signature` is an Accept-Signature to answer by RFC 9421: its first signature that this key can make, with
/// what it asks for (each component once) and what the profile covers in any case.
///
/// The answer holds Host, Date, the digest and the signature, in order, and not the caller's own fields. RSA signs
/// without the GIL. Raises `SignatureRefused` with the reason `invalid_url`, `invalid_header`, `invalid_param` or
/// `algorithm_mismatch`. (draft-cavage-http-signatures-12, RFC 9421)
#[pyfunction]
#[pyo3(signature = (key, key_id, scheme, method, url, digest, now_s, headers = None, *, accept_signature = None))]
#[allow(clippy::too_many_arguments)]
pub fn sign<'py>(
    py: Python<'py>,
    key: &PrivateKey,
    key_id: &Bound<'py, PyString>,
    scheme: &Bound<'py, PyString>,
    method: &Bound<'py, PyString>,
    url: &Bound<'py, PyString>,
    digest: Option<&BodyDigest>,
    now_s: i64,
    headers: Option<&Bound<'py, PyAny>>,
    accept_signature: Option<&Bound<'py, PyString>>,
) -> PyResult<Vec<(&'static str, String)>> {
    let refuse = |refused| signature_refused(py, &refused);
    let scheme = Scheme::named(&argument(scheme, Reason::InvalidParam, "scheme")?).map_err(refuse)?;
    let key_id = argument(key_id, Reason::InvalidParam, "key id")?;
    let method = argument(method, Reason::InvalidHeader, "method")?;
    let url = argument(url, Reason::InvalidUrl, "URL")?;
    let headers = headers.map(Headers::read).transpose()?.unwrap_or_default();
    let covered = headers.pairs();
    let accept =
        accept_signature.map(|text| argument(text, Reason::MalformedSignature, "Accept-Signature")).transpose()?;
    let outgoing = Outgoing {
        method: &method,
        url: &url,
        digest: digest.map(|digest| &digest.0),
        covered: &covered,
        now_s,
        accept_signature: accept.as_deref(),
    };
    signed(py, key, || profile::sign(&key.0, &key_id, scheme, &outgoing))
}
