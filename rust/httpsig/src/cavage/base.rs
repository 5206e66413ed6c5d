// SPDX-License-Identifier: Apache-2.0
//! The signing string (draft-cavage-12 section 2.3).

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::message::{Message, is_token, joined};

/// The most names that a signature may cover.
pub const MAX_COVERED: usize = 64;
/// The longest signing string, in bytes: a name may be covered more than once.
const MAX_BASE_BYTES: usize = 256 * 1024;

/// What stands in a signing string besides the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered<'a> {
    /// The `created` parameter, as it is written.
    pub created: Option<&'a str>,
    /// The `expires` parameter, as it is written.
    pub expires: Option<&'a str>,
    /// Whether (created) and (expires) may be covered: not with an algorithm that begins with rsa, hmac or ecdsa.
    pub times_allowed: bool,
    /// Whether (request-target) leaves out the query, as some servers sign a GET.
    pub without_query: bool,
}

/// Builds the signing string over names, which are in lower case.
///
/// # Errors
/// `malformed_signature` for no name at all or too many, `invalid_component` for an unknown pseudo-header,
/// `missing_component` for a field that the message lacks, `missing_param` for (created) or (expires) without their
/// parameter, `algorithm_mismatch` where those are not allowed, `invalid_header` for a value outside ASCII.
pub fn signing_string<'n>(
    message: &Message<'_>,
    names: impl Iterator<Item = &'n str> + Clone,
    covered: Covered<'_>,
) -> Outcome<String> {
    let count = names.clone().take(MAX_COVERED + 1).count();
    if count == 0 || count > MAX_COVERED {
        return Err(Refused::new(
            Reason::MalformedSignature,
            format!("a signature covers 1 to {MAX_COVERED} names; this one would cover {count} or more"),
        ));
    }
    let mut out = String::with_capacity(320);
    for (index, name) in names.enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str(name);
        out.push_str(": ");
        match name {
            "(request-target)" => push_request_target(&mut out, message, covered.without_query)?,
            "(created)" => push_time(&mut out, name, covered.created, covered)?,
            "(expires)" => push_time(&mut out, name, covered.expires, covered)?,
            _ if is_token(name) => {
                let value = joined(&message.fields, name).ok_or_else(|| missing(name))?;
                if !value.is_ascii() {
                    return Err(Refused::new(
                        Reason::InvalidHeader,
                        format!("the covered header {} has a value outside ASCII", quoted(name)),
                    ));
                }
                out.push_str(&value);
                if out.len() > MAX_BASE_BYTES {
                    return Err(Refused::new(
                        Reason::MalformedSignature,
                        format!("a signature covers at most {MAX_BASE_BYTES} bytes; this one would cover more"),
                    ));
                }
            }
            _ => {
                return Err(Refused::new(
                    Reason::InvalidComponent,
                    format!("{} is neither a header name nor a known pseudo-header", quoted(name)),
                ));
            }
        }
    }
    Ok(out)
}

fn push_request_target(out: &mut String, message: &Message<'_>, without_query: bool) -> Outcome<()> {
    let Some(method) = message.method() else {
        return Err(Refused::new(Reason::InvalidComponent, "(request-target) is of requests, not of responses"));
    };
    out.extend(method.chars().map(|c| c.to_ascii_lowercase()));
    out.push(' ');
    message.push_request_target(out, without_query);
    Ok(())
}

fn push_time(out: &mut String, name: &str, value: Option<&str>, covered: Covered<'_>) -> Outcome<()> {
    if !covered.times_allowed {
        return Err(Refused::new(
            Reason::AlgorithmMismatch,
            format!(
                "{name} cannot be covered with an algorithm whose name begins with rsa, hmac or ecdsa; hs2019 is wanted"
            ),
        ));
    }
    let value = value.ok_or_else(|| {
        Refused::new(Reason::MissingParam, format!("{name} is covered, but the parameter itself is missing"))
    })?;
    out.push_str(value);
    Ok(())
}

fn missing(name: &str) -> Refused {
    Refused::new(Reason::MissingComponent, format!("the covered header {} is not in the message", quoted(name)))
}
