// SPDX-License-Identifier: Apache-2.0
//! Signing with every part chosen, signature bases, and the fields taken apart.

use std::borrow::Cow;

use ojak_httpsig::cavage::{self, CavageRequest};
use ojak_httpsig::error::{Outcome, Reason, Refused};
use ojak_httpsig::key::Algorithm;
use ojak_httpsig::message::Message as Core;
use ojak_httpsig::profile::added_fields;
use ojak_httpsig::rfc9421::{self, Component, Param, ParamValue, Rfc9421Request, inner_list, signature_base};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyMapping, PyString};

use crate::convert::argument;
use crate::errors::signature_refused;
use crate::keys::PrivateKey;
use crate::message::Message;
use crate::signing::signed;

type Fields = Vec<(&'static str, String)>;

/// A parameter of a signature as Python gives it.
enum Given {
    True,
    Integer(i64),
    Text(String),
}

type GivenParams = Vec<(String, Given)>;

/// A component's own parameters: a name, and a text or nothing for true.
type ComponentParams = Vec<(String, Option<String>)>;

fn refuse(py: Python<'_>, reason: Reason, detail: impl Into<Cow<'static, str>>) -> PyErr {
    signature_refused(py, &Refused::new(reason, detail))
}

/// Adds the fields that the caller wants added, and runs the rest with them.
fn completed<T>(
    message: &Message,
    add: &[String],
    now_s: Option<i64>,
    run: impl FnOnce(&Core<'_>) -> Outcome<T>,
) -> Outcome<(Fields, T)> {
    let names: Vec<&str> = add.iter().map(String::as_str).filter(|name| *name != "created").collect();
    let fields = message.0.with(&[], |core| added_fields(core, &names, now_s.unwrap_or_default()))?;
    if now_s.is_none() && add.iter().any(|name| name == "date" || name == "created") {
        return Err(Refused::new(Reason::InvalidParam, "date and created are added from now_s, which is not given"));
    }
    let more: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let outcome = message.0.with(&more, run)?;
    Ok((fields, outcome))
}

/// Sign by draft-cavage-12 with every part chosen, and give the header fields to add.
///
/// `algorithm` is `rsa-sha256`, `hs2019` or `ed25519`; `headers` are the names to cover, in order, among them
/// `(request-target)`, `(created)` and `(expires)`. `add` names what the message lacks and the signer adds: `host`,
/// `date`, `digest`, `content-digest`, `created`; times are `now_s`, in seconds since 1970. Raises `SignatureRefused`
/// with the reason `invalid_param`, `unknown_algorithm`, `algorithm_mismatch`, `malformed_signature` (nothing
/// covered), `missing_component`, `invalid_component`, `missing_param` or `invalid_header`.
/// (draft-cavage-http-signatures-12 section 2).
#[pyfunction]
#[pyo3(signature = (
    message, key, key_id, *, algorithm, headers, created_s = None, expires_s = None, add = None, now_s = None
))]
#[allow(clippy::too_many_arguments)]
pub fn sign_cavage(
    py: Python<'_>,
    message: &Message,
    key: &PrivateKey,
    key_id: &Bound<'_, PyString>,
    algorithm: &str,
    headers: Vec<Bound<'_, PyString>>,
    created_s: Option<i64>,
    expires_s: Option<i64>,
    add: Option<Vec<String>>,
    now_s: Option<i64>,
) -> PyResult<Fields> {
    let key_id = argument(key_id, Reason::InvalidParam, "key id")?;
    let add = add.unwrap_or_default();
    let created_s = created_s.or_else(|| if add.iter().any(|name| name == "created") { now_s } else { None });
    let headers = texts(&headers, Reason::InvalidComponent, "header name")?;
    let headers: Vec<&str> = headers.iter().map(AsRef::as_ref).collect();
    let request = CavageRequest { key_id: &key_id, algorithm, headers: &headers, created_s, expires_s };
    signed(py, key, || {
        let (mut fields, signature) = completed(message, &add, now_s, |core| cavage::sign(core, &key.0, &request))?;
        fields.push(("Signature", signature));
        Ok(fields)
    })
}

/// Give the signing string. Raises as `sign_cavage` does. (draft-cavage-http-signatures-12 section 2.3).
#[pyfunction]
#[pyo3(signature = (message, *, algorithm, headers, created_s = None, expires_s = None))]
pub fn cavage_base(
    py: Python<'_>,
    message: &Message,
    algorithm: &str,
    headers: Vec<Bound<'_, PyString>>,
    created_s: Option<i64>,
    expires_s: Option<i64>,
) -> PyResult<String> {
    let headers = texts(&headers, Reason::InvalidComponent, "header name")?;
    let headers: Vec<&str> = headers.iter().map(AsRef::as_ref).collect();
    let request = CavageRequest { key_id: "", algorithm, headers: &headers, created_s, expires_s };
    message.0.with(&[], |core| request.base(core)).map_err(|refused| signature_refused(py, &refused))
}

/// Take a cavage `Signature` apart into its parameters, in order.
///
/// Raises `SignatureRefused` (`malformed_signature`, `duplicate_param`). (draft-cavage-http-signatures-12 section 2.1).
#[pyfunction]
pub fn parse_cavage(text: &Bound<'_, PyString>) -> PyResult<Vec<(String, String)>> {
    let py = text.py();
    let text = argument(text, Reason::MalformedSignature, "Signature")?;
    let raw = cavage::parse(&text).map_err(|refused| signature_refused(py, &refused))?;
    Ok(raw.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Sign by RFC 9421 with every part chosen, and give the header fields to add.
///
/// `algorithm` is a name of section 6.2. `components` are names, or pairs of a name and its parameters (`sf`, `key`,
/// `bs`, `tr`, `req`, `name`). `params` are written in the order given: whole numbers, texts, True. With `append` the
/// message's own signatures stay beside the new one. `add` and `now_s` are as with `sign_cavage`. Raises
/// `SignatureRefused` with the reason `invalid_param`, `duplicate_param`, `unknown_algorithm`, `algorithm_mismatch`,
/// `invalid_component`, `duplicate_component`, `missing_component`, `ambiguous_component`, `malformed_sf`,
/// `malformed_signature` (the message's own) or `invalid_header`. (RFC 9421 section 3.1).
#[pyfunction]
#[pyo3(signature = (
    message, key, *, algorithm, components, params, label = "sig1", append = false, add = None, now_s = None
))]
#[allow(clippy::too_many_arguments)]
pub fn sign_rfc9421(
    py: Python<'_>,
    message: &Message,
    key: &PrivateKey,
    algorithm: &str,
    components: Vec<Bound<'_, PyAny>>,
    params: Vec<Bound<'_, PyAny>>,
    label: &str,
    append: bool,
    add: Option<Vec<String>>,
    now_s: Option<i64>,
) -> PyResult<Fields> {
    let components = read_components(&components)?;
    let params = read_params(&params)?;
    let algorithm = Algorithm::named(algorithm).map_err(|refused| signature_refused(py, &refused))?;
    let add = add.unwrap_or_default();
    signed(py, key, || {
        let components = checked(&components)?;
        let mut params = given(&params);
        if let Some(now_s) = now_s.filter(|_| add.iter().any(|name| name == "created"))
            && !params.iter().any(|(name, _)| *name == "created")
        {
            params.insert(0, ("created", ParamValue::Integer(now_s)));
        }
        let request = Rfc9421Request { label, algorithm, components: &components, params: &params, append };
        let (mut fields, signed) = completed(message, &add, now_s, |core| rfc9421::sign(core, &key.0, &request))?;
        fields.push(("Signature-Input", signed.signature_input));
        fields.push(("Signature", signed.signature));
        Ok(fields)
    })
}

/// Give the signature base. Raises as `sign_rfc9421` does. (RFC 9421 section 2.5).
#[pyfunction]
pub fn rfc9421_base(
    py: Python<'_>,
    message: &Message,
    components: Vec<Bound<'_, PyAny>>,
    params: Vec<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let components = read_components(&components)?;
    let params = read_params(&params)?;
    checked(&components)
        .and_then(|components| {
            let inner = inner_list(&components, &given(&params))?;
            message.0.with(&[], |core| signature_base(core, &components, &inner))
        })
        .map_err(|refused| signature_refused(py, &refused))
}

/// Give the labels of a `Signature-Input` or `Accept-Signature`, each with its inner list in canonical form.
///
/// Members that are not inner lists are left out. Raises `SignatureRefused` (`malformed_signature`,
/// `duplicate_param`). (RFC 9421 section 4.1).
#[pyfunction]
pub fn parse_signature_input(text: &Bound<'_, PyString>) -> PyResult<Vec<(String, String)>> {
    let py = text.py();
    let text = argument(text, Reason::MalformedSignature, "Signature-Input")?;
    rfc9421::canonical_labels(&text).map_err(|refused| signature_refused(py, &refused))
}

/// Components as Python gives them: names, or pairs of a name and a mapping of parameters.
fn read_components(components: &[Bound<'_, PyAny>]) -> PyResult<Vec<(String, ComponentParams)>> {
    let mut out = Vec::with_capacity(components.len());
    for component in components {
        let py = component.py();
        if let Ok(name) = component.cast::<PyString>() {
            out.push((argument(name, Reason::InvalidComponent, "component")?.into_owned(), Vec::new()));
            continue;
        }
        let (name, mapping): (String, Bound<'_, PyAny>) = component.extract()?;
        let mut params = Vec::new();
        for pair in mapping.cast::<PyMapping>()?.items()? {
            let (param, value): (String, Bound<'_, PyAny>) = pair.extract()?;
            match value.cast::<PyBool>() {
                Ok(flag) if flag.is_true() => params.push((param, None)),
                Ok(_) => {
                    return Err(refuse(
                        py,
                        Reason::InvalidComponent,
                        "a component's parameter is true or a text, not false",
                    ));
                }
                Err(_) => params.push((param, Some(value.extract()?))),
            }
        }
        out.push((name, params));
    }
    Ok(out)
}

fn checked(components: &[(String, ComponentParams)]) -> Outcome<Vec<Component<'_>>> {
    components
        .iter()
        .map(|(name, params)| {
            let params = params
                .iter()
                .map(|(param, value)| Param::named(param, value.as_deref().map(Cow::Borrowed)))
                .collect::<Outcome<Vec<_>>>()?;
            Component::new(name.as_str(), params)
        })
        .collect()
}

/// Signature parameters as Python gives them: pairs of a name and true, a whole number or a text.
fn read_params(params: &[Bound<'_, PyAny>]) -> PyResult<GivenParams> {
    params
        .iter()
        .map(|pair| {
            let (name, value): (Bound<'_, PyString>, Bound<'_, PyAny>) = pair.extract()?;
            let name = argument(&name, Reason::InvalidParam, "name of a parameter")?.into_owned();
            let given = if let Ok(flag) = value.cast::<PyBool>() {
                flag.is_true().then_some(Given::True)
            } else if let Ok(text) = value.cast::<PyString>() {
                Some(Given::Text(argument(text, Reason::InvalidParam, "value of a parameter")?.into_owned()))
            } else {
                value.extract::<i64>().ok().map(Given::Integer)
            };
            let given = given.ok_or_else(|| {
                let detail =
                    format!("the parameter {name:?} is neither true, nor a text, nor a whole number of 15 digits");
                refuse(pair.py(), Reason::InvalidParam, detail)
            })?;
            Ok((name, given))
        })
        .collect()
}

fn texts<'a>(texts: &'a [Bound<'_, PyString>], reason: Reason, what: &str) -> PyResult<Vec<Cow<'a, str>>> {
    texts.iter().map(|text| argument(text, reason, what)).collect()
}

fn given(params: &GivenParams) -> Vec<(&str, ParamValue<'_>)> {
    params
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Given::Integer(number) => ParamValue::Integer(*number),
                Given::Text(text) => ParamValue::String(text),
                Given::True => ParamValue::True,
            };
            (name.as_str(), value)
        })
        .collect()
}
