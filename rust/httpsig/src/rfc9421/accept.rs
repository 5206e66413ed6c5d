// SPDX-License-Identifier: Apache-2.0
//! Answering an `Accept-Signature` (RFC 9421 section 5): signing what another server asks for.

use sfv::Version;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::key::Algorithm;
use crate::rfc9421::component::Component;
use crate::rfc9421::sign::ParamValue;
use crate::rfc9421::{MAX_COMPONENTS, MAX_FIELD_BYTES};
use crate::sf::{self, Bare, Value};

/// How long a signature is good for when an end is asked for.
const ASKED_EXPIRY_S: i64 = 300;

/// A parameter of a signature that was asked for, with the value it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedValue {
    /// An integer.
    Integer(i64),
    /// A string.
    String(String),
}

impl<'a> From<&'a AskedValue> for ParamValue<'a> {
    fn from(value: &'a AskedValue) -> Self {
        match value {
            AskedValue::Integer(number) => Self::Integer(*number),
            AskedValue::String(text) => Self::String(text),
        }
    }
}

/// A signature that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The label.
    pub label: String,
    /// What is to be covered, each component once.
    pub components: Vec<Component<'static>>,
    /// The parameters, in the order in which they were asked for.
    pub params: Vec<(String, AskedValue)>,
}

/// Reads an Accept-Signature and answers the first signature in it that this key can make.
///
/// What it names twice is covered once. Parameters that are only named (`;created`) are filled in; those with a value
/// have to fit the key, or are taken over (`nonce`, `tag`).
///
/// # Errors
/// `malformed_signature`, and where none can be made, the reason against the first: `invalid_component`,
/// `unknown_algorithm`, `algorithm_mismatch`, `unknown_key` for another key id, `invalid_param`.
pub fn answer(text: &str, key_id: &str, algorithm: Algorithm, now_s: i64) -> Outcome<Asked> {
    if text.len() > MAX_FIELD_BYTES {
        return Err(malformed(format!(
            "the Accept-Signature has {} bytes; at most {MAX_FIELD_BYTES} are read",
            text.len()
        )));
    }
    let members = sf::dictionary(text, Version::Rfc8941)
        .map_err(|refused| malformed(format!("the Accept-Signature cannot be read: {}", refused.detail)))?;
    let mut first: Option<Refused> = None;
    for member in &members {
        let Value::List(list) = &member.value else {
            first
                .get_or_insert_with(|| malformed("the Accept-Signature has a member that is not a list of components"));
            continue;
        };
        match asked(member.key, list, key_id, algorithm, now_s) {
            Ok(asked) => return Ok(asked),
            Err(refused) => {
                first.get_or_insert(refused);
            }
        }
    }
    Err(first.unwrap_or_else(|| malformed("the Accept-Signature is empty")))
}

fn malformed(what: impl Into<std::borrow::Cow<'static, str>>) -> Refused {
    Refused::new(Reason::MalformedSignature, what)
}

fn asked(label: &str, list: &sf::InnerList<'_>, key_id: &str, algorithm: Algorithm, now_s: i64) -> Outcome<Asked> {
    let mut components: Vec<Component<'static>> = Vec::new();
    for item in list.items.iter().take(MAX_COMPONENTS) {
        let component = Component::from_item(item)?.into_owned();
        if component.of_request() || component.name == "@status" {
            return Err(Refused::new(
                Reason::InvalidComponent,
                format!("the component {} is not one of a request", quoted(&component.name)),
            ));
        }
        if !components.iter().any(|known| known.same_as(&component)) {
            components.push(component);
        }
    }
    let mut params: Vec<(String, AskedValue)> = Vec::new();
    for (name, value) in &list.params {
        let value = match (*name, value) {
            ("created", _) => AskedValue::Integer(now_s),
            ("expires", _) => AskedValue::Integer(now_s.saturating_add(ASKED_EXPIRY_S)),
            ("keyid", Bare::String(wanted)) if wanted.as_str() != key_id => {
                return Err(Refused::new(
                    Reason::UnknownKey,
                    format!("a signature by the key {} is asked for", quoted(wanted.as_str())),
                ));
            }
            ("keyid", _) => AskedValue::String(key_id.to_owned()),
            ("alg", Bare::String(wanted)) if Algorithm::named(wanted.as_str())? != algorithm => {
                return Err(Refused::new(
                    Reason::AlgorithmMismatch,
                    format!(
                        "a signature by {} is asked for, and the key signs by {algorithm}",
                        quoted(wanted.as_str())
                    ),
                ));
            }
            ("alg", _) => AskedValue::String(algorithm.as_str().to_owned()),
            ("nonce" | "tag", Bare::String(text)) => AskedValue::String(text.as_str().to_owned()),
            _ => {
                return Err(Refused::new(
                    Reason::InvalidParam,
                    format!("the parameter {} is asked for with no value that could be given", quoted(name)),
                ));
            }
        };
        params.retain(|(known, _)| known != name);
        params.push(((*name).to_owned(), value));
    }
    for (name, value) in [
        ("created", AskedValue::Integer(now_s)),
        ("keyid", AskedValue::String(key_id.to_owned())),
        ("alg", AskedValue::String(algorithm.as_str().to_owned())),
    ] {
        if !params.iter().any(|(known, _)| known == name) {
            params.push((name.to_owned(), value));
        }
    }
    Ok(Asked { label: label.to_owned(), components, params })
}
