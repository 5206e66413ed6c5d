// SPDX-License-Identifier: Apache-2.0
//! The values of components in a message (RFC 9421 sections 2.1 and 2.2).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sfv::Version;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::message::{Field, Message, Start, joined, values};
use crate::rfc9421::MAX_STRUCTURED_BYTES;
use crate::rfc9421::component::{Component, Param};
use crate::sf::{self, Value};
use crate::target::Target;

/// Appends the value of a component.
///
/// # Errors
/// `invalid_component` for one that does not go with such a message, `missing_component`, `ambiguous_component`,
/// `malformed_sf` where `;sf` or `;key` meet a field that is not structured, `invalid_header` for one outside ASCII.
pub fn push(out: &mut String, message: &Message<'_>, component: &Component<'_>) -> Outcome<()> {
    if component.of_request() {
        let Start::Response { request, .. } = &message.start else {
            return Err(invalid("a component with req is of responses only"));
        };
        let request = request.as_ref().ok_or_else(|| {
            Refused::new(Reason::MissingComponent, "the request that the response answers is not known")
        })?;
        return push_own(out, request, component);
    }
    push_own(out, message, component)
}

fn invalid(what: impl Into<std::borrow::Cow<'static, str>>) -> Refused {
    Refused::new(Reason::InvalidComponent, what)
}

fn push_own(out: &mut String, message: &Message<'_>, component: &Component<'_>) -> Outcome<()> {
    if !component.name.starts_with('@') {
        return push_field(out, message, component);
    }
    match (&message.start, component.name.as_ref()) {
        (Start::Response { status, .. }, "@status") => {
            // Writing to a String does not fail.
            let _ = write!(out, "{status}");
            Ok(())
        }
        (Start::Request { .. }, "@request-target") => {
            message.push_request_target(out, false);
            Ok(())
        }
        (Start::Request { method, target, .. }, name) if name != "@status" => {
            push_derived(out, method, target, component)
        }
        (_, name) => Err(invalid(format!("{name} does not go with such a message"))),
    }
}

fn push_derived(out: &mut String, method: &str, target: &Target<'_>, component: &Component<'_>) -> Outcome<()> {
    match component.name.as_ref() {
        "@method" => out.push_str(method),
        "@target-uri" => target.push_target_uri(out),
        "@authority" => out.push_str(&target.authority),
        "@scheme" => out.push_str(target.scheme),
        "@path" => out.push_str(target.path),
        "@query" => {
            out.push('?');
            out.push_str(target.query.unwrap_or_default());
        }
        "@query-param" => {
            let name = component.params.iter().find_map(|param| match param {
                Param::Name(name) => Some(name.as_ref()),
                _ => None,
            });
            push_query_param(out, target, name.unwrap_or_default())?;
        }
        name => return Err(invalid(format!("there is no derived component {}", quoted(name)))),
    }
    Ok(())
}

/// Section 2.2.8: the query is read as a form, and names and values are written with percent signs again.
fn push_query_param(out: &mut String, target: &Target<'_>, wanted: &str) -> Outcome<()> {
    let mut found = target.query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (reencoded(name) == wanted).then_some(value)
    });
    let value = found.next().ok_or_else(|| {
        Refused::new(Reason::MissingComponent, format!("the query has no parameter {}", quoted(wanted)))
    })?;
    if found.next().is_some() {
        return Err(Refused::new(
            Reason::AmbiguousComponent,
            format!("the query has the parameter {} more than once", quoted(wanted)),
        ));
    }
    out.push_str(&reencoded(value));
    Ok(())
}

/// A form's text decoded and encoded anew, by the rules of the URL standard's form encoding but with %20 for a space.
fn reencoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => match after.split_first_chunk::<2>() {
                Some(([high, low], after)) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    bytes.push(hex(*high) << 4 | hex(*low));
                    rest = after;
                }
                _ => bytes.push(b'%'),
            },
            other => bytes.push(*other),
        }
    }
    let mut out = String::with_capacity(text.len());
    for byte in String::from_utf8_lossy(&bytes).bytes() {
        if byte.is_ascii_alphanumeric() || b"*-._".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.to_ascii_uppercase().wrapping_sub(b'A').wrapping_add(10),
    }
}

fn push_field(out: &mut String, message: &Message<'_>, component: &Component<'_>) -> Outcome<()> {
    let name = component.name.as_ref();
    let trailer = component.params.contains(&Param::Tr);
    let fields: &[Field<'_>] = if trailer { &message.trailers } else { &message.fields };
    let value = joined(fields, name).ok_or_else(|| {
        let place = if trailer { "trailer" } else { "header" };
        Refused::new(Reason::MissingComponent, format!("the covered {place} {} is not in the message", quoted(name)))
    })?;
    if component.params.contains(&Param::Bs) {
        for (index, line) in values(fields, name).enumerate() {
            out.push_str(if index > 0 { ", :" } else { ":" });
            STANDARD.encode_string(line, out);
            out.push(':');
        }
        return Ok(());
    }
    if !value.is_ascii() {
        return Err(Refused::new(
            Reason::InvalidHeader,
            format!("the covered header {} has a value outside ASCII; bs would take it", quoted(name)),
        ));
    }
    if component.is_structured() && value.len() > MAX_STRUCTURED_BYTES {
        return Err(Refused::new(
            Reason::MalformedSf,
            format!("the header {} is longer than {MAX_STRUCTURED_BYTES} bytes, too long for sf and key", quoted(name)),
        ));
    }
    let key = component.params.iter().find_map(|param| match param {
        Param::Key(key) => Some(key.as_ref()),
        _ => None,
    });
    if let Some(key) = key {
        return push_member(out, name, &value, key);
    }
    if component.params.contains(&Param::Sf) {
        out.push_str(&sf::canonical(name, &value)?);
    } else {
        out.push_str(&value);
    }
    Ok(())
}

fn push_member(out: &mut String, name: &str, value: &str, key: &str) -> Outcome<()> {
    let members = sf::dictionary(value, Version::Rfc9651)?;
    let mut found = members.iter().filter(|member| member.key == key);
    let member = found.next().ok_or_else(|| {
        Refused::new(Reason::MissingComponent, format!("the header {} has no member {}", quoted(name), quoted(key)))
    })?;
    if found.next().is_some() {
        return Err(Refused::new(
            Reason::AmbiguousComponent,
            format!("the header {} has the member {} more than once", quoted(name), quoted(key)),
        ));
    }
    match &member.value {
        Value::Item(item) => sf::push_item(out, item),
        Value::List(list) => sf::push_inner_list(out, list),
    }
}
