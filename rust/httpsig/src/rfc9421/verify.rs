// SPDX-License-Identifier: Apache-2.0
//! Verifying by RFC 9421 (section 3.2), as an inbox must.

use sfv::Version;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::key::Algorithm;
use crate::message::{Message, Start};
use crate::policy::{Coverage, Policy, Resolve, Scheme, Verified, check_body, check_host, uncovered};
use crate::rfc9421::base::signature_base;
use crate::rfc9421::component::{Component, Param};
use crate::rfc9421::{MAX_COMPONENTS, MAX_FIELD_BYTES, MAX_LABELS};
use crate::sf::{self, Bare, InnerList, Member, Value};

fn malformed(what: impl Into<std::borrow::Cow<'static, str>>) -> Refused {
    Refused::new(Reason::MalformedSignature, what)
}

/// Verifies a message by the signature with a label, or by the first that passes if none is named.
///
/// # Errors
/// Any [`Reason`] that fits; where several signatures fail, that of the one that came furthest.
pub fn verify<R: Resolve>(
    message: &Message<'_>,
    resolver: &mut R,
    policy: &Policy,
    now_s: i64,
    label: Option<&str>,
) -> Outcome<Verified> {
    let input_text = field(message, "signature-input")?;
    let signature_text = field(message, "signature")?;
    let inputs = members(&input_text, "Signature-Input")?;
    let signatures = members(&signature_text, "Signature")?;
    if inputs.is_empty() {
        return Err(Refused::new(Reason::MissingSignature, "the message's Signature-Input is empty"));
    }
    if let Some(label) = label {
        let input = inputs.iter().find(|member| member.key == label).ok_or_else(|| {
            Refused::new(
                Reason::LabelNotFound,
                format!("the message has no signature with the label {}", quoted(label)),
            )
        })?;
        return one(message, input, &signatures, resolver, policy, now_s);
    }
    let mut furthest: Option<Refused> = None;
    for input in inputs.iter().take(MAX_LABELS) {
        match one(message, input, &signatures, resolver, policy, now_s) {
            Ok(verified) => return Ok(verified),
            Err(refused) if furthest.as_ref().is_none_or(|best| stage(refused.reason) > stage(best.reason)) => {
                furthest = Some(refused);
            }
            Err(_) => {}
        }
    }
    Err(furthest.unwrap_or_else(|| malformed("the message's Signature-Input has no label")))
}

/// How far a signature came before it was refused.
const fn stage(reason: Reason) -> u8 {
    match reason {
        Reason::MissingSignature | Reason::MalformedSignature => 0,
        Reason::UnknownKey => 2,
        Reason::WeakKey | Reason::AlgorithmMismatch | Reason::UnsupportedKey | Reason::MalformedKey => 3,
        Reason::SignatureMismatch => 4,
        Reason::DigestMissing | Reason::DigestMalformed | Reason::DigestUnsupported | Reason::DigestMismatch => 5,
        _ => 1,
    }
}

fn field<'m>(message: &'m Message<'_>, name: &str) -> Outcome<std::borrow::Cow<'m, str>> {
    let text = message
        .joined(name)
        .ok_or_else(|| Refused::new(Reason::MissingSignature, format!("the message has no {name} field")))?;
    if text.len() > MAX_FIELD_BYTES {
        return Err(malformed(format!("the {name} has {} bytes; at most {MAX_FIELD_BYTES} are read", text.len())));
    }
    Ok(text)
}

fn members<'t>(text: &'t str, name: &str) -> Outcome<Vec<Member<'t>>> {
    let members = sf::dictionary(text, Version::Rfc8941)
        .map_err(|refused| malformed(format!("the {name} cannot be read: {}", refused.detail)))?;
    // The last of two would win by RFC 8941; two readers that disagree on it are what an attacker looks for.
    match sf::repeated(members.iter().map(|member| member.key)) {
        Some(label) => Err(malformed(format!("the {name} has the label {} twice", quoted(label)))),
        None => Ok(members),
    }
}

/// The parameters that mean something (section 2.3).
struct SignatureParams<'a> {
    created_s: Option<i64>,
    expires_s: Option<i64>,
    alg: Option<&'a str>,
    key_id: &'a str,
}

impl<'a> SignatureParams<'a> {
    fn of(list: &'a InnerList<'_>) -> Outcome<Self> {
        if sf::repeated_param(&list.params).is_some() {
            return Err(Refused::new(Reason::DuplicateParam, "the signature has a parameter twice"));
        }
        let get = |wanted: &str| list.params.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let text = |name: &str| match get(name) {
            None => Ok(None),
            Some(Bare::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(malformed(format!("the signature's parameter {name} is not a quoted string"))),
        };
        let time = |name: &str| match get(name) {
            None => Ok(None),
            Some(Bare::Integer(number)) => Ok(Some(i64::from(*number))),
            Some(_) => Err(malformed(format!("the signature's parameter {name} is not a whole number of seconds"))),
        };
        text("nonce")?;
        text("tag")?;
        Ok(Self {
            created_s: time("created")?,
            expires_s: time("expires")?,
            alg: text("alg")?,
            key_id: text("keyid")?
                .ok_or_else(|| Refused::new(Reason::MissingParam, "the signature has no parameter keyid"))?,
        })
    }
}

fn one<R: Resolve>(
    message: &Message<'_>,
    input: &Member<'_>,
    signatures: &[Member<'_>],
    resolver: &mut R,
    policy: &Policy,
    now_s: i64,
) -> Outcome<Verified> {
    let Value::List(list) = &input.value else {
        return Err(malformed(format!("the Signature-Input under {} is not a list of components", quoted(input.key))));
    };
    let signature = bytes_of(signatures, input.key)?;
    if list.items.len() > MAX_COMPONENTS {
        return Err(malformed(format!("the signature covers more than {MAX_COMPONENTS} components")));
    }
    let components = list.items.iter().map(Component::from_item).collect::<Outcome<Vec<_>>>()?;
    let params = SignatureParams::of(list)?;
    let named = params.alg.map(Algorithm::named).transpose()?;
    if policy.coverage == Coverage::ActivityPub {
        if params.created_s.is_none() {
            return Err(Refused::new(Reason::MissingParam, "the signature has no parameter created"));
        }
        check_coverage(message, &components)?;
    }
    let mut canonical = String::with_capacity(256);
    sf::push_inner_list(&mut canonical, list)?;
    let base = signature_base(message, &components, &canonical)?;
    policy.check_time(params.created_s, params.expires_s, now_s)?;
    let key = policy.key(resolver, params.key_id)?;
    let key = key.as_ref();
    let algorithm = named.unwrap_or_else(|| key.default_algorithm());
    key.verify(algorithm, base.as_bytes(), signature)?;
    for field in ["content-digest", "digest"] {
        if components.iter().any(|component| component.name == field && !component.params.iter().any(elsewhere)) {
            check_body(message, field)?;
        }
    }
    Ok(Verified {
        key_id: params.key_id.to_owned(),
        scheme: Scheme::Rfc9421,
        algorithm,
        label: Some(input.key.to_owned()),
        covered: components
            .iter()
            .map(|component| {
                let mut identifier = String::new();
                component.push_identifier(&mut identifier).map(|()| identifier)
            })
            .collect::<Outcome<Vec<_>>>()?,
        queryless: false,
    })
}

/// Whether a parameter takes the value from somewhere else than the message's own header.
const fn elsewhere(param: &Param<'_>) -> bool {
    matches!(param, Param::Req | Param::Tr)
}

fn bytes_of<'s>(signatures: &'s [Member<'_>], label: &str) -> Outcome<&'s [u8]> {
    let member = signatures.iter().find(|member| member.key == label).ok_or_else(|| {
        Refused::new(
            Reason::MissingSignature,
            format!("the Signature field has nothing under the label {}", quoted(label)),
        )
    })?;
    match &member.value {
        Value::Item(item) => match &item.bare {
            Bare::ByteSequence(bytes) => Ok(bytes),
            _ => Err(malformed(format!("the Signature under {} is not a byte sequence", quoted(label)))),
        },
        Value::List(_) => Err(malformed(format!("the Signature under {} is not a byte sequence", quoted(label)))),
    }
}

fn check_coverage(message: &Message<'_>, components: &[Component<'_>]) -> Outcome<()> {
    let covers = |name: &str| components.iter().any(|component| component.is(name));
    match &message.start {
        Start::Response { .. } => {
            if !covers("@status") {
                return Err(uncovered("@status"));
            }
        }
        Start::Request { target, .. } => {
            if !covers("@method") {
                return Err(uncovered("@method"));
            }
            if covers("host") {
                check_host(message)?;
            }
            let in_parts = (covers("@authority") || covers("host"))
                && (covers("@request-target") || (covers("@path") && (target.query.is_none() || covers("@query"))));
            if !covers("@target-uri") && !in_parts {
                return Err(uncovered("the target: @target-uri, or @authority with @path and @query"));
            }
            if message.needs_digest() && !covers_digest(components) {
                return Err(uncovered("content-digest"));
            }
        }
    }
    Ok(())
}

/// Whether the whole Content-Digest is covered, in whatever writing.
fn covers_digest(components: &[Component<'_>]) -> bool {
    components.iter().any(|component| {
        component.name == "content-digest"
            && component.params.iter().all(|param| matches!(param, Param::Sf | Param::Bs))
    })
}
