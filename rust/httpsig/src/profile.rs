// SPDX-License-Identifier: Apache-2.0
//! The profile in which Ojak signs what it sends (SPEC section 6): what every server reads. This is the hot path.

use crate::cavage::{self, CavageRequest};
use crate::date;
use crate::digest::BodyDigest;
use crate::error::{Outcome, Reason, Refused};
use crate::key::{KeyKind, PrivateKey};
use crate::message::{Field, Message, Start};
use crate::policy::Scheme;
use crate::rfc9421::{self, Component, ParamValue, Rfc9421Request};
use crate::target::Target;

/// The label of a signature by RFC 9421; one label, since some receivers fail on two.
const LABEL: &str = "sig1";

/// A request to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The absolute URL, as it will be sent.
    pub url: &'a str,
    /// The digests of the body; `None` for a request without one.
    pub digest: Option<&'a BodyDigest>,
    /// Header fields of the caller's that are covered beside the profile's own.
    pub covered: &'a [Field<'a>],
    /// The time of the signature, in seconds since 1970.
    pub now_s: i64,
    /// The value of an `Accept-Signature` to answer, by RFC 9421.
    pub accept_signature: Option<&'a str>,
}

/// Signs a request. Answers the header fields to send, in order: Host, Date, the digest, the signature. The caller's
/// own covered fields are not among them.
///
/// # Errors
/// `invalid_url`, `invalid_header`, `invalid_param`, `algorithm_mismatch`.
pub fn sign(
    key: &PrivateKey,
    key_id: &str,
    scheme: Scheme,
    outgoing: &Outgoing<'_>,
) -> Outcome<Vec<(&'static str, String)>> {
    if outgoing.accept_signature.is_some() && scheme == Scheme::Cavage {
        return Err(Refused::new(Reason::InvalidParam, "an Accept-Signature is answered by RFC 9421, not by cavage"));
    }
    if let Some((name, _)) = outgoing.covered.iter().find(|(name, _)| is_own(name)) {
        return Err(Refused::new(
            Reason::InvalidParam,
            format!("the header {name} is the signature's own; it cannot be given beside it"),
        ));
    }
    let mut sent = Vec::with_capacity(5);
    sent.push(("Host", Target::parse(outgoing.url)?.authority.into_owned()));
    sent.push(("Date", date::format(outgoing.now_s)?));
    if let Some(digest) = outgoing.digest {
        sent.push(match scheme {
            Scheme::Cavage => ("Digest", digest.digest.clone()),
            Scheme::Rfc9421 => ("Content-Digest", digest.content_digest.clone()),
        });
    }
    let own = sent.iter().map(|(name, value)| (*name, value.as_str()));
    let fields: Vec<Field<'_>> = own.chain(outgoing.covered.iter().copied()).collect();
    let message = Message::request(outgoing.method, outgoing.url, &fields, None)?;
    match scheme {
        Scheme::Cavage => {
            let signature = sign_cavage(&message, key, key_id, outgoing)?;
            sent.push(("Signature", signature));
        }
        Scheme::Rfc9421 => {
            let signed = sign_rfc9421(&message, key, key_id, outgoing)?;
            sent.push(("Signature-Input", signed.signature_input));
            sent.push(("Signature", signed.signature));
        }
    }
    Ok(sent)
}

/// The fields that a signature brings itself.
fn is_own(name: &str) -> bool {
    ["host", "date", "digest", "content-digest", "signature", "signature-input"]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(name))
}

fn sign_cavage(message: &Message<'_>, key: &PrivateKey, key_id: &str, outgoing: &Outgoing<'_>) -> Outcome<String> {
    let mut names: Vec<&str> = Vec::with_capacity(outgoing.covered.len() + 4);
    names.extend(["(request-target)", "host", "date"]);
    if outgoing.digest.is_some() {
        names.push("digest");
    }
    for (name, _) in outgoing.covered {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name);
        }
    }
    // rsa-sha256 by name: some readers take hs2019 with a large RSA key for another hash.
    let algorithm = if key.kind() == KeyKind::Rsa { "rsa-sha256" } else { "hs2019" };
    let request = CavageRequest { key_id, algorithm, headers: &names, created_s: None, expires_s: None };
    cavage::sign(message, key, &request)
}

fn sign_rfc9421(
    message: &Message<'_>,
    key: &PrivateKey,
    key_id: &str,
    outgoing: &Outgoing<'_>,
) -> Outcome<rfc9421::Signed> {
    let mut components = Vec::with_capacity(outgoing.covered.len() + 4);
    for name in ["@method", "@target-uri", "@authority"] {
        components.push(Component::new(name, Vec::new())?);
    }
    if outgoing.digest.is_some() {
        components.push(Component::new("content-digest", Vec::new())?);
    }
    for (name, _) in outgoing.covered {
        let name = name.to_ascii_lowercase();
        if !components.iter().any(|known| known.name == name) {
            components.push(Component::new(name, Vec::new())?);
        }
    }
    let algorithm = key.default_algorithm();
    let Some(accept) = outgoing.accept_signature else {
        let params = [
            ("created", ParamValue::Integer(outgoing.now_s)),
            ("keyid", ParamValue::String(key_id)),
            // Always named: some receivers need it, and others guess another hash for large keys.
            ("alg", ParamValue::String(algorithm.as_str())),
        ];
        let request =
            Rfc9421Request { label: LABEL, algorithm, components: &components, params: &params, append: false };
        return rfc9421::sign(message, key, &request);
    };
    let mut asked = rfc9421::answer(accept, key_id, algorithm, outgoing.now_s)?;
    // Never less than the profile: who asks for little must not get a signature that fits another request.
    for component in components {
        if !asked.components.contains(&component) {
            asked.components.push(component);
        }
    }
    let params: Vec<_> = asked.params.iter().map(|(name, value)| (name.as_str(), value.into())).collect();
    let request = Rfc9421Request {
        label: &asked.label,
        algorithm,
        components: &asked.components,
        params: &params,
        append: false,
    };
    rfc9421::sign(message, key, &request)
}

/// Fields that a signer adds to a request that lacks them: `host`, `date`, `digest`, `content-digest`.
///
/// # Errors
/// `invalid_param` for another name.
pub fn added_fields(message: &Message<'_>, names: &[&str], now_s: i64) -> Outcome<Vec<(&'static str, String)>> {
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        let body = message.body.unwrap_or_default();
        let field = match (*name, &message.start) {
            ("host", Start::Request { target, .. }) => ("Host", target.authority.clone().into_owned()),
            ("date", _) => ("Date", date::format(now_s)?),
            ("digest", _) => ("Digest", BodyDigest::new(body).digest),
            ("content-digest", _) => ("Content-Digest", BodyDigest::new(body).content_digest),
            _ => {
                return Err(Refused::new(
                    Reason::InvalidParam,
                    format!(
                        "{name} cannot be added to such a message; host, date, digest or content-digest is allowed"
                    ),
                ));
            }
        };
        if message.values(name).next().is_none() {
            out.push(field);
        }
    }
    Ok(out)
}
