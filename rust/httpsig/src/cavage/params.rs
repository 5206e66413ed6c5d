// SPDX-License-Identifier: Apache-2.0
//! The parameters of a cavage `Signature` (draft-cavage-12 section 2.1), parsed strictly.

use std::borrow::Cow;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::message::{Message, is_token_byte, trim_ows};

/// The most parameters that a signature may have.
const MAX_PARAMS: usize = 32;
/// The longest value of a `Signature` field: an RSA signature of 8192 bits takes 1.4 kB of it.
pub const MAX_FIELD_BYTES: usize = 16 * 1024;

/// Parameters in the order in which they stand; each name is there once.
pub type RawParams<'a> = Vec<(&'a str, &'a str)>;

/// The parameters that mean something.
#[derive(Clone, Debug)]
pub struct CavageParams<'a> {
    /// `keyId`.
    pub key_id: &'a str,
    /// `algorithm`, in lower case, if given.
    pub algorithm: Option<String>,
    /// `created`, as it is written.
    pub created: Option<&'a str>,
    /// `created`, in seconds.
    pub created_s: Option<i64>,
    /// `expires`, as it is written.
    pub expires: Option<&'a str>,
    /// `expires`, in whole seconds.
    pub expires_s: Option<i64>,
    /// The covered names, in lower case.
    pub headers: Vec<Cow<'a, str>>,
    /// `signature`, still in base64.
    pub signature: &'a str,
}

fn malformed(what: impl Into<Cow<'static, str>>) -> Refused {
    Refused::new(Reason::MalformedSignature, what)
}

/// Parses a parameter list: names, `=`, quoted strings or tokens, commas, white space around them. The old form
/// that begins with `Signature ` is taken too.
///
/// # Errors
/// `malformed_signature`, `duplicate_param`.
pub fn parse(text: &str) -> Outcome<RawParams<'_>> {
    if text.len() > MAX_FIELD_BYTES {
        return Err(malformed(format!("the Signature has {} bytes; at most {MAX_FIELD_BYTES} are read", text.len())));
    }
    let mut rest = without_prefix(trim_ows(text));
    let mut params: RawParams<'_> = Vec::with_capacity(8);
    loop {
        let (name, after) = split_token(rest);
        if name.is_empty() {
            return Err(malformed("the Signature is not a list of parameters such as keyId=\"…\",signature=\"…\""));
        }
        let after = trim_start(after)
            .strip_prefix('=')
            .ok_or_else(|| malformed(format!("the Signature's parameter {} has no value", quoted(name))))?;
        let (value, after) = split_value(name, trim_start(after))?;
        if params.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Err(Refused::new(
                Reason::DuplicateParam,
                format!("the Signature has the parameter {} twice", quoted(name)),
            ));
        }
        if params.len() == MAX_PARAMS {
            return Err(malformed(format!("the Signature has more than {MAX_PARAMS} parameters")));
        }
        params.push((name, value));
        let after = trim_start(after);
        if after.is_empty() {
            return Ok(params);
        }
        rest = after.strip_prefix(',').map(trim_start).ok_or_else(|| {
            malformed(format!("something other than a comma follows the Signature's parameter {}", quoted(name)))
        })?;
    }
}

fn trim_start(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

fn without_prefix(text: &str) -> &str {
    match text.split_at_checked(10) {
        // A parameter of that name with a space before its equals sign is no prefix.
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("signature ") && !trim_start(rest).starts_with('=') => {
            trim_start(rest)
        }
        _ => text,
    }
}

fn split_token(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|b| !is_token_byte(b)).unwrap_or(text.len()))
}

fn split_value<'a>(name: &str, text: &'a str) -> Outcome<(&'a str, &'a str)> {
    if let Some(inside) = text.strip_prefix('"') {
        let (value, after) = inside
            .split_once('"')
            .ok_or_else(|| malformed(format!("the Signature's parameter {} has no closing quote", quoted(name))))?;
        // The draft's strings have no need of escapes, and readers differ on them.
        if value.contains('\\') || value.bytes().any(|b| b < 0x20 && b != b'\t') {
            return Err(malformed(format!(
                "the Signature's parameter {} has a backslash or control character",
                quoted(name)
            )));
        }
        return Ok((value, after));
    }
    let (value, after) = split_token(text);
    if value.is_empty() {
        return Err(malformed(format!(
            "the Signature's parameter {} has neither a quoted string nor a token",
            quoted(name)
        )));
    }
    Ok((value, after))
}

impl<'a> CavageParams<'a> {
    /// Picks out what means something.
    ///
    /// # Errors
    /// `missing_param`, `malformed_signature`.
    pub fn from_raw(raw: &RawParams<'a>) -> Outcome<Self> {
        let get =
            |wanted: &str| raw.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value);
        let required = |wanted: &str| {
            get(wanted)
                .filter(|value| !value.is_empty())
                .ok_or_else(|| Refused::new(Reason::MissingParam, format!("the Signature has no parameter {wanted}")))
        };
        let algorithm = get("algorithm").map(str::to_ascii_lowercase);
        let headers = match get("headers") {
            Some(list) => list.split(' ').filter(|name| !name.is_empty()).map(lower).collect(),
            // Without a list, (created) is covered (section 2.1.6); under the names of the time before it, the date.
            None if algorithm.as_deref().is_none_or(times_allowed) => vec![Cow::Borrowed("(created)")],
            None => vec![Cow::Borrowed("date")],
        };
        if headers.is_empty() {
            return Err(malformed("the Signature's list of headers is empty: it would cover nothing"));
        }
        Ok(Self {
            key_id: required("keyId")?,
            algorithm,
            created: get("created"),
            created_s: time(get("created"), "created")?,
            expires: get("expires"),
            expires_s: time(get("expires").map(whole), "expires")?,
            headers,
            signature: required("signature")?,
        })
    }
}

/// Whether (created) and (expires) may be covered under an algorithm's name (section 2.3).
pub fn times_allowed(algorithm: &str) -> bool {
    !["rsa", "hmac", "ecdsa"].iter().any(|prefix| algorithm.starts_with(prefix))
}

fn lower(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// A time without its fraction, which section 2.1.5 allows for expires and 2.1.4 forbids for created.
fn whole(value: &str) -> &str {
    match value.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit()) => whole,
        _ => value,
    }
}

/// A time in whole seconds.
fn time(value: Option<&str>, name: &str) -> Outcome<Option<i64>> {
    let Some(value) = value else { return Ok(None) };
    if value.is_empty() || value.len() > 15 || !value.bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed(format!("the Signature's {name} {} is not a whole number of seconds", quoted(value))));
    }
    Ok(value.parse().ok())
}

/// The text of a message's one cavage signature: from `Signature`, else from `Authorization`.
///
/// # Errors
/// `missing_signature`, `malformed_signature` if there are two.
pub fn params_of<'m>(message: &'m Message<'_>) -> Outcome<&'m str> {
    let mut found = message.values("signature");
    if let Some(text) = found.next() {
        if found.next().is_some() {
            return Err(malformed("the message has more than one Signature field"));
        }
        return Ok(text);
    }
    let mut found = message.values("authorization").filter(|text| without_prefix(text).len() < text.len());
    match (found.next(), found.next()) {
        (Some(text), None) => Ok(text),
        (Some(_), Some(_)) => Err(malformed("the message has more than one Authorization field with a signature")),
        _ => Err(Refused::new(Reason::MissingSignature, "the message has no Signature field")),
    }
}
