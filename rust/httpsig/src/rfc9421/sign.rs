// SPDX-License-Identifier: Apache-2.0
//! Signing by RFC 9421, with every part chosen by the caller.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sfv::Version;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::key::{Algorithm, PrivateKey};
use crate::message::Message;
use crate::rfc9421::base::signature_base;
use crate::rfc9421::component::Component;
use crate::sf;

/// The value of a signature parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamValue<'a> {
    /// An integer, such as a time in seconds.
    Integer(i64),
    /// A string.
    String(&'a str),
    /// True: the parameter's name alone.
    True,
}

/// What to sign, and how it is written.
#[derive(Clone, Debug)]
pub struct Rfc9421Request<'a> {
    /// The label: a key of a structured dictionary.
    pub label: &'a str,
    /// What to sign with.
    pub algorithm: Algorithm,
    /// What to cover, in order.
    pub components: &'a [Component<'a>],
    /// The parameters, in the order in which they are written.
    pub params: &'a [(&'a str, ParamValue<'a>)],
    /// Whether the message's own signatures stay beside the new one.
    pub append: bool,
}

/// The fields of a signed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The value of `Signature-Input`.
    pub signature_input: String,
    /// The value of `Signature`.
    pub signature: String,
}

fn invalid(what: impl Into<Cow<'static, str>>) -> Refused {
    Refused::new(Reason::InvalidParam, what)
}

impl Rfc9421Request<'_> {
    /// The inner list with its parameters, as it stands in Signature-Input.
    ///
    /// # Errors
    /// `invalid_param`, `duplicate_param`, `invalid_component`.
    pub fn inner_list(&self) -> Outcome<String> {
        inner_list(self.components, self.params)
    }
}

/// An inner list of components with its parameters, in canonical form.
///
/// # Errors
/// `invalid_param`, `duplicate_param`, `invalid_component`.
pub fn inner_list(components: &[Component<'_>], params: &[(&str, ParamValue<'_>)]) -> Outcome<String> {
    let mut out = String::with_capacity(256);
    out.push('(');
    for (index, component) in components.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        component.push_identifier(&mut out)?;
    }
    out.push(')');
    for (index, (name, value)) in params.iter().enumerate() {
        sf::check_key(name).map_err(|_| invalid(format!("{} cannot be the name of a parameter", quoted(name))))?;
        if params.iter().take(index).any(|(earlier, _)| earlier == name) {
            return Err(Refused::new(Reason::DuplicateParam, format!("the parameter {} is given twice", quoted(name))));
        }
        check_type(name, *value)?;
        out.push(';');
        out.push_str(name);
        match value {
            ParamValue::Integer(number) => {
                if !(-999_999_999_999_999..=999_999_999_999_999).contains(number) {
                    return Err(invalid(format!("the parameter {name} is {number}; at most 15 digits are allowed")));
                }
                // Writing to a String does not fail.
                let _ = write!(out, "={number}");
            }
            ParamValue::String(text) => {
                out.push('=');
                sf::push_string(&mut out, text)
                    .map_err(|_| invalid(format!("the parameter {name} holds something else than printable ASCII")))?;
            }
            ParamValue::True => {}
        }
    }
    Ok(out)
}

/// The parameters that section 2.3 knows have a type each.
fn check_type(name: &str, value: ParamValue<'_>) -> Outcome<()> {
    let fits = match name {
        "created" | "expires" => matches!(value, ParamValue::Integer(number) if number >= 0),
        "nonce" | "alg" | "keyid" | "tag" => matches!(value, ParamValue::String(_)),
        _ => true,
    };
    if fits { Ok(()) } else { Err(invalid(format!("the parameter {name} has a value of the wrong type"))) }
}

/// Signs a message.
///
/// # Errors
/// `invalid_param` for a label or parameter that cannot be written or does not fit, `algorithm_mismatch`, and those
/// of [`signature_base`].
pub fn sign(message: &Message<'_>, key: &PrivateKey, request: &Rfc9421Request<'_>) -> Outcome<Signed> {
    sf::check_key(request.label).map_err(|_| {
        invalid(format!(
            "{} cannot be a label: lower-case letters, digits, _, -, . and * are allowed",
            quoted(request.label)
        ))
    })?;
    for (name, value) in request.params {
        if *name == "alg" && *value != ParamValue::String(request.algorithm.as_str()) {
            return Err(Refused::new(
                Reason::AlgorithmMismatch,
                format!("the parameter alg differs from the algorithm {}", request.algorithm),
            ));
        }
    }
    let inner = request.inner_list()?;
    let base = signature_base(message, request.components, &inner)?;
    let signature = key.sign(request.algorithm, base.as_bytes())?;
    let mut signed = if request.append {
        existing(message, request.label)?
    } else {
        Signed { signature_input: String::new(), signature: String::new() }
    };
    for out in [&mut signed.signature_input, &mut signed.signature] {
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(request.label);
        out.push('=');
    }
    signed.signature_input.push_str(&inner);
    signed.signature.reserve(signature.len() * 4 / 3 + 8);
    signed.signature.push(':');
    STANDARD.encode_string(&signature, &mut signed.signature);
    signed.signature.push(':');
    Ok(signed)
}

/// The signature fields that a message has already.
fn existing(message: &Message<'_>, label: &str) -> Outcome<Signed> {
    let read = |field: &str| -> Outcome<String> {
        let text = message.joined(field).unwrap_or_default();
        let members = sf::dictionary(&text, Version::Rfc8941)
            .map_err(|refused| Refused::new(Reason::MalformedSignature, refused.detail))?;
        if members.iter().any(|member| member.key == label) {
            return Err(invalid(format!("the message has a signature with the label {label} already")));
        }
        drop(members);
        Ok(text.into_owned())
    };
    Ok(Signed { signature_input: read("signature-input")?, signature: read("signature")? })
}
