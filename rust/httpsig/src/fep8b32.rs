// SPDX-License-Identifier: Apache-2.0
//! Object integrity proofs (FEP-8b32) by the cryptosuite eddsa-jcs-2022 (W3C vc-di-eddsa section 3.3).

use aws_lc_rs::digest::{SHA256, digest};

use crate::date;
use crate::error::{Outcome, Reason, Refused, quoted};
use crate::jcs;
use crate::json::Json;
use crate::key::{Algorithm, KeyKind, PrivateKey, PublicKey, multikey};

const SUITE: &str = "eddsa-jcs-2022";
const SIGNATURE_BYTES: usize = 64;

/// A key to check a proof with, and the actor it belongs to.
pub trait ProofKey {
    /// The key.
    fn key(&self) -> &PublicKey;
    /// The id of the actor or DID whose document holds the key.
    fn controller(&self) -> &str;
}

fn malformed(what: impl Into<std::borrow::Cow<'static, str>>) -> Refused {
    Refused::new(Reason::MalformedProof, what)
}

fn members(document: &Json) -> Outcome<&[(String, Json)]> {
    match document {
        Json::Object(members) => Ok(members),
        _ => Err(Refused::new(Reason::NotJson, "the document is not a JSON object")),
    }
}

/// Makes a proof for a document that has none, and answers it.
///
/// # Errors
/// `unsupported_key` for another key than Ed25519, `invalid_param` for a document that has a proof or a linked data
/// signature already (the proof has to come first) and for a time that is none.
pub fn make(document: &Json, key: &PrivateKey, verification_method: &str, created: &str) -> Outcome<Json> {
    if key.kind() != KeyKind::Ed25519 {
        return Err(Refused::new(
            Reason::UnsupportedKey,
            format!("a proof by {SUITE} is made with an Ed25519 key, not {}", key.kind()),
        ));
    }
    for name in ["proof", "signature"] {
        if document.get(name).is_some() {
            return Err(Refused::new(
                Reason::InvalidParam,
                format!("the document has a {name} already; an integrity proof is made before it"),
            ));
        }
    }
    if timestamp_s(created).is_none() {
        return Err(Refused::new(
            Reason::InvalidParam,
            format!("the time {} is not of the form 2026-01-02T03:04:05Z", quoted(created)),
        ));
    }
    let mut proof = Vec::with_capacity(7);
    if let Some(context) = document.get("@context") {
        proof.push(("@context".to_owned(), context.clone()));
    }
    for (name, value) in [
        ("type", "DataIntegrityProof"),
        ("cryptosuite", SUITE),
        ("verificationMethod", verification_method),
        ("proofPurpose", "assertionMethod"),
        ("created", created),
    ] {
        proof.push((name.to_owned(), Json::String(value.to_owned())));
    }
    let hash = hash_of(members(document)?, &proof);
    let signature = key.sign(Algorithm::Ed25519, &hash)?;
    proof.push(("proofValue".to_owned(), Json::String(multikey::base58_multibase(&signature))));
    Ok(Json::Object(proof))
}

/// What is signed: SHA-256 of the proof's options, and SHA-256 of the document without proof and linked data signature.
///
/// # Errors
/// `proof_missing`, `malformed_proof`, `context_mismatch`.
pub fn hash(document: &Json) -> Outcome<Vec<u8>> {
    hash_with(document, proof_of(document)?)
}

fn hash_with(document: &Json, proof: &[(String, Json)]) -> Outcome<Vec<u8>> {
    let context = proof.iter().find(|(name, _)| name == "@context").map(|(_, value)| value);
    let Some(context) = context else { return Ok(hash_of(members(document)?, proof)) };
    // vc-di-eddsa 3.3.2: the document's context begins with the proof's, and is replaced by it.
    let own = listed(document.get("@context"));
    if !own.starts_with(&listed(Some(context))) {
        return Err(Refused::new(
            Reason::ContextMismatch,
            "the document's @context does not begin with that of its proof",
        ));
    }
    let secured: Vec<(String, Json)> = members(document)?
        .iter()
        .map(|(name, value)| (name.clone(), if name == "@context" { context.clone() } else { value.clone() }))
        .collect();
    Ok(hash_of(&secured, proof))
}

/// A context as a list of canonical texts: one string is a list of one.
fn listed(context: Option<&Json>) -> Vec<String> {
    match context {
        None => Vec::new(),
        Some(Json::Array(items)) => items.iter().map(jcs::canonical).collect(),
        Some(single) => vec![jcs::canonical(single)],
    }
}

fn hash_of(document: &[(String, Json)], proof: &[(String, Json)]) -> Vec<u8> {
    let without = |members: &[(String, Json)], left_out: &[&str]| {
        let kept = members.iter().filter(|(name, _)| !left_out.contains(&name.as_str())).cloned().collect();
        digest(&SHA256, jcs::canonical(&Json::Object(kept)).as_bytes())
    };
    let mut hash = without(proof, &["proofValue"]).as_ref().to_vec();
    // FEP-8b32: a linked data signature is removed before the proof is looked at.
    hash.extend(without(document, &["proof", "signature"]).as_ref());
    hash
}

fn proof_of(document: &Json) -> Outcome<&[(String, Json)]> {
    members(document)?;
    match document.get("proof") {
        Some(Json::Object(proof)) => Ok(proof),
        Some(_) => Err(malformed("the document's proof is not one JSON object")),
        None => Err(Refused::new(Reason::ProofMissing, "the document has no proof")),
    }
}

/// Checks a document's proof. Answers the verification method.
///
/// # Errors
/// `proof_missing`, `malformed_proof`, `unsupported_cryptosuite`, `wrong_purpose`, `context_mismatch`, `expired`,
/// `unknown_key`, `unsupported_key`, `key_owner_mismatch`, `signature_mismatch`.
pub fn check<K: ProofKey>(
    document: &Json,
    mut resolve: impl FnMut(&str) -> Outcome<Option<K>>,
    now_s: i64,
) -> Outcome<String> {
    let proof = proof_of(document)?;
    let text = |name: &str| {
        proof
            .iter()
            .find(|(known, _)| known == name)
            .and_then(|(_, value)| value.as_str())
            .ok_or_else(|| malformed(format!("the proof has no text under {name}")))
    };
    if text("type")? != "DataIntegrityProof" || text("cryptosuite")? != SUITE {
        return Err(Refused::new(
            Reason::UnsupportedCryptosuite,
            format!("the proof is not a DataIntegrityProof by {SUITE}"),
        ));
    }
    if text("proofPurpose")? != "assertionMethod" {
        return Err(Refused::new(Reason::WrongPurpose, "the proof's purpose is not assertionMethod"));
    }
    let method = text("verificationMethod")?;
    let value = text("proofValue")?;
    let signature =
        multikey::multibase(value).map_err(|_| malformed("the proofValue is not multibase of base58btc"))?;
    if signature.len() != SIGNATURE_BYTES {
        return Err(malformed(format!("the proofValue holds {} bytes; {SIGNATURE_BYTES} are wanted", signature.len())));
    }
    check_times(proof, now_s)?;
    let hash = hash_with(document, proof)?;
    let found = resolve(method)?
        .ok_or_else(|| Refused::new(Reason::UnknownKey, format!("no key is known under the id {}", quoted(method))))?;
    if found.key().kind() != KeyKind::Ed25519 {
        return Err(Refused::new(
            Reason::UnsupportedKey,
            format!("a proof by {SUITE} is checked with an Ed25519 key, not {}", found.key().kind()),
        ));
    }
    if owner_of(document) != Some(found.controller()) {
        return Err(Refused::new(Reason::KeyOwnerMismatch, "the proof's key does not belong to the document's owner"));
    }
    found.key().verify(Algorithm::Ed25519, &hash, &signature)?;
    Ok(method.to_owned())
}

/// Whose a document is: an activity's actor, an object's author, else the actor that it is itself.
fn owner_of(document: &Json) -> Option<&str> {
    let named = document.get("actor").or_else(|| document.get("attributedTo")).or_else(|| document.get("id"))?;
    match named {
        Json::Array(items) => match items.as_slice() {
            [single] => id_of(single),
            _ => None,
        },
        other => id_of(other),
    }
}

fn id_of(value: &Json) -> Option<&str> {
    value.as_str().or_else(|| value.get("id").and_then(Json::as_str))
}

fn check_times(proof: &[(String, Json)], now_s: i64) -> Outcome<()> {
    for name in ["created", "expires"] {
        let Some((_, value)) = proof.iter().find(|(known, _)| known == name) else { continue };
        let at_s = value
            .as_str()
            .and_then(timestamp_s)
            .ok_or_else(|| malformed(format!("the proof's {name} is not a time such as 2026-01-02T03:04:05Z")))?;
        if name == "expires" && at_s < now_s {
            return Err(Refused::new(Reason::Expired, "the proof has expired"));
        }
    }
    Ok(())
}

/// Seconds since 1970 of an XML Schema dateTimeStamp.
fn timestamp_s(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once('T')?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let end = fraction.bytes().position(|b| !b.is_ascii_digit())?;
            if end == 0 {
                return None;
            }
            fraction.get(end..)?
        }
        None => rest,
    };
    let offset_s = match rest {
        "Z" => 0,
        zone => {
            let (sign, zone) = zone.split_at_checked(1)?;
            let (hours, minutes) = zone.split_once(':')?;
            let minutes_east = date::digits(hours, 2)? * 60 + date::digits(minutes, 2)?;
            match sign {
                "+" if minutes_east <= 14 * 60 => minutes_east * 60,
                "-" if minutes_east <= 14 * 60 => -minutes_east * 60,
                _ => return None,
            }
        }
    };
    let mut parts = date.split('-');
    let (year, month, day) =
        (date::digits(parts.next()?, 4)?, date::digits(parts.next()?, 2)?, date::digits(parts.next()?, 2)?);
    if parts.next().is_some() {
        return None;
    }
    Some(date::seconds(year, month, day, clock)? - offset_s)
}
