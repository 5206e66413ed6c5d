// SPDX-License-Identifier: Apache-2.0
//! The JSON Canonicalization Scheme (RFC 8785).

use std::fmt::Write as _;

use crate::error::Outcome;
use crate::json::Json;

/// A JSON text in canonical form.
///
/// # Errors
/// `not_json`, `duplicate_key`.
pub fn canonicalize(text: &[u8]) -> Outcome<String> {
    Ok(canonical(&Json::parse(text)?))
}

/// A value in canonical form.
#[must_use]
pub fn canonical(value: &Json) -> String {
    let mut out = String::new();
    push(&mut out, value);
    out
}

/// Appends a value in canonical form.
pub fn push(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        // Section 3.2.2.3: as ECMAScript writes it, which has no minus before a zero.
        Json::Number(number) if *number == 0.0 => out.push('0'),
        Json::Number(number) => out.push_str(ryu_js::Buffer::new().format_finite(*number)),
        Json::String(text) => push_string(out, text),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push(out, item);
            }
            out.push(']');
        }
        Json::Object(members) => push_object(out, members),
    }
}

fn push_object(out: &mut String, members: &[(String, Json)]) {
    let mut sorted: Vec<&(String, Json)> = members.iter().collect();
    // Section 3.2.3: by UTF-16 code units, which differs from the order of code points beyond the BMP.
    sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    out.push('{');
    for (index, (name, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_string(out, name);
        out.push(':');
        push(out, value);
    }
    out.push('}');
}

fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
