// SPDX-License-Identifier: Apache-2.0
//! Signing by draft-cavage-12, with every part chosen by the caller.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cavage::base::{Covered, signing_string};
use crate::cavage::params::times_allowed;
use crate::error::{Outcome, Reason, Refused, quoted};
use crate::key::{Algorithm, KeyKind, PrivateKey};
use crate::message::Message;

/// The latest time that a signature may name: as many digits as RFC 8941 gives to an integer.
const MAX_TIME_S: i64 = 999_999_999_999_999;

/// What to sign, and how it is named.
#[derive(Clone, Copy, Debug)]
pub struct CavageRequest<'a> {
    /// The key's id: printable ASCII without quotes or backslashes.
    pub key_id: &'a str,
    /// `rsa-sha256` or `hs2019`.
    pub algorithm: &'a str,
    /// The names to cover, in order.
    pub headers: &'a [&'a str],
    /// The `created` parameter, in seconds.
    pub created_s: Option<i64>,
    /// The `expires` parameter, in seconds.
    pub expires_s: Option<i64>,
}

impl CavageRequest<'_> {
    /// The algorithm behind the name.
    ///
    /// # Errors
    /// `unknown_algorithm`, `algorithm_mismatch`, `unsupported_key` for a kind of key that cavage does not know.
    pub fn algorithm_for(name: Option<&str>, kind: KeyKind) -> Outcome<Algorithm> {
        let needed = match name {
            Some("rsa-sha256") => Some(KeyKind::Rsa),
            Some("ed25519" | "ed25519-sha512") => Some(KeyKind::Ed25519),
            Some("hs2019") | None => None,
            Some(other) => {
                return Err(Refused::new(
                    Reason::UnknownAlgorithm,
                    format!("the algorithm {} is not known; rsa-sha256, hs2019 or ed25519 is wanted", quoted(other)),
                ));
            }
        };
        if needed.is_some_and(|needed| needed != kind) {
            return Err(Refused::new(
                Reason::AlgorithmMismatch,
                format!("the algorithm {} does not go with a key of kind {kind}", name.unwrap_or_default()),
            ));
        }
        match kind {
            KeyKind::Rsa => Ok(Algorithm::RsaV15Sha256),
            KeyKind::Ed25519 => Ok(Algorithm::Ed25519),
            KeyKind::P256 => {
                Err(Refused::new(Reason::UnsupportedKey, "a P-256 key is not used with cavage signatures"))
            }
        }
    }

    /// The signing string over a message.
    ///
    /// # Errors
    /// As [`signing_string`].
    pub fn base(&self, message: &Message<'_>) -> Outcome<String> {
        let text = |value: Option<i64>| value.map(|value| value.to_string());
        let (created, expires) = (text(self.created_s), text(self.expires_s));
        let covered = Covered {
            created: created.as_deref(),
            expires: expires.as_deref(),
            times_allowed: times_allowed(self.algorithm),
            without_query: false,
        };
        if self.headers.iter().all(|name| is_lower(name)) {
            return signing_string(message, self.headers.iter().copied(), covered);
        }
        let lowered: Vec<String> = self.headers.iter().map(|name| name.to_ascii_lowercase()).collect();
        signing_string(message, lowered.iter().map(String::as_str), covered)
    }
}

fn is_lower(name: &str) -> bool {
    !name.bytes().any(|b| b.is_ascii_uppercase())
}

/// Signs a message. Answers the value of the `Signature` field, in the one form that every server reads: no space
/// after commas, everything quoted but created and expires, headers and algorithm always named.
///
/// # Errors
/// `invalid_param` for a key id that would break out of its quotes, and those of [`CavageRequest::base`] and
/// [`CavageRequest::algorithm_for`].
pub fn sign(message: &Message<'_>, key: &PrivateKey, request: &CavageRequest<'_>) -> Outcome<String> {
    check_key_id(request.key_id)?;
    let algorithm = CavageRequest::algorithm_for(Some(request.algorithm), key.kind())?;
    let base = request.base(message)?;
    let signature = key.sign(algorithm, base.as_bytes())?;
    let mut out = String::with_capacity(request.key_id.len() + signature.len() * 4 / 3 + 160);
    out.push_str("keyId=\"");
    out.push_str(request.key_id);
    out.push_str("\",algorithm=\"");
    out.push_str(request.algorithm);
    out.push('"');
    push_time(&mut out, "created", request.created_s)?;
    push_time(&mut out, "expires", request.expires_s)?;
    out.push_str(",headers=\"");
    for (index, name) in request.headers.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.extend(name.chars().map(|c| c.to_ascii_lowercase()));
    }
    out.push_str("\",signature=\"");
    STANDARD.encode_string(&signature, &mut out);
    out.push('"');
    Ok(out)
}

fn push_time(out: &mut String, name: &str, value: Option<i64>) -> Outcome<()> {
    let Some(value) = value else { return Ok(()) };
    if !(0..=MAX_TIME_S).contains(&value) {
        return Err(Refused::new(
            Reason::InvalidParam,
            format!("the time {name} is {value}; 0 to {MAX_TIME_S} is allowed"),
        ));
    }
    // Writing to a String does not fail.
    let _ = write!(out, ",{name}={value}");
    Ok(())
}

/// Checks that a key id can stand between quotes.
pub(crate) fn check_key_id(key_id: &str) -> Outcome<()> {
    let fits = !key_id.is_empty()
        && key_id.len() <= 4096
        && key_id.bytes().all(|b| (0x20..=0x7e).contains(&b) && b != b'"' && b != b'\\');
    if fits {
        return Ok(());
    }
    Err(Refused::new(
        Reason::InvalidParam,
        format!(
            "the key id {} is not printable ASCII without quotes and backslashes, of 1 to 4096 characters",
            quoted(key_id)
        ),
    ))
}
