// SPDX-License-Identifier: Apache-2.0
//! PEM (RFC 7468), as it is found in the wild: any line ends, any line length.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::error::{Outcome, Reason, Refused, quoted};

/// The longest PEM text that is read: an RSA key of 8192 bits has about 6.5 kB.
const MAX_PEM_BYTES: usize = 32 * 1024;

/// The label and the bytes of the one PEM block in a text.
pub struct Block<'a> {
    /// What stands after BEGIN, such as `PUBLIC KEY`.
    pub label: &'a str,
    /// The decoded bytes.
    pub der: Zeroizing<Vec<u8>>,
}

/// The refusal of a key that cannot be read.
pub fn malformed(what: impl Into<std::borrow::Cow<'static, str>>) -> Refused {
    Refused::new(Reason::MalformedKey, what)
}

/// Reads the one block of a PEM text. Text before it is skipped, as RFC 7468 section 2 allows.
///
/// # Errors
/// `malformed_key`.
pub fn decode(text: &str) -> Outcome<Block<'_>> {
    if text.len() > MAX_PEM_BYTES {
        return Err(malformed(format!("the key has {} bytes of text; at most {MAX_PEM_BYTES} are read", text.len())));
    }
    let (_, rest) = text
        .split_once("-----BEGIN ")
        .ok_or_else(|| malformed("the key is not PEM: a line -----BEGIN … KEY----- is wanted"))?;
    let (label, rest) = rest
        .split_once("-----")
        .filter(|(label, _)| !label.contains(['\r', '\n']))
        .ok_or_else(|| malformed("the key's BEGIN line does not end in -----"))?;
    let end = format!("-----END {label}-----");
    let (body, after) = rest
        .split_once(end.as_str())
        .ok_or_else(|| malformed(format!("the key has no line -----END {}-----", shown(label))))?;
    if !without_escapes(after).trim().is_empty() {
        return Err(malformed("the key's text goes on after its END line; one PEM block is wanted"));
    }
    let body = without_escapes(body);
    if body.contains(':') {
        return Err(malformed("the key has PEM headers, as an encrypted one has; an unencrypted key is wanted"));
    }
    let mut packed = Zeroizing::new(Vec::with_capacity(body.len()));
    packed.extend(body.bytes().filter(|b| !b.is_ascii_whitespace()));
    let der =
        STANDARD.decode(packed.as_slice()).map_err(|_| malformed("the key's text is not base64, or was cut short"))?;
    Ok(Block { label, der: Zeroizing::new(der) })
}

/// A text whose line ends may be two characters, a backslash and an n, as environment files hold them.
fn without_escapes(text: &str) -> Zeroizing<String> {
    Zeroizing::new(if text.contains('\\') { text.replace("\\r", "").replace("\\n", "") } else { text.to_owned() })
}

/// A label for a sentence.
pub fn shown(label: &str) -> String {
    quoted(label).trim_matches('\'').to_owned()
}

/// Bytes as a PEM block with lines of 64 characters.
pub fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    let packed = Zeroizing::new(STANDARD.encode(der));
    let mut out = Zeroizing::new(String::with_capacity(packed.len() + packed.len() / 64 + 2 * label.len() + 40));
    out.push_str("-----BEGIN ");
    out.push_str(label);
    out.push_str("-----\n");
    for (index, c) in packed.chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            out.push('\n');
        }
        out.push(c);
    }
    out.push_str("\n-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}
