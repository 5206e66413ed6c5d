// SPDX-License-Identifier: Apache-2.0
//! Verifying by draft-cavage-12, as an inbox must.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cavage::base::{Covered, signing_string};
use crate::cavage::params::{CavageParams, params_of, parse, times_allowed};
use crate::cavage::sign::CavageRequest;
use crate::date;
use crate::error::{Outcome, Reason, Refused};
use crate::message::{Message, Start};
use crate::policy::{Coverage, Policy, Resolve, Scheme, Verified, check_body, check_host, uncovered};

/// Verifies the one cavage signature of a message. Cheap checks come before the key is asked for, the key before the
/// signature, and the body is hashed only for a signature that is right.
///
/// # Errors
/// Any [`Reason`] that fits.
pub fn verify<R: Resolve>(message: &Message<'_>, resolver: &mut R, policy: &Policy, now_s: i64) -> Outcome<Verified> {
    let raw = parse(params_of(message)?)?;
    let params = CavageParams::from_raw(&raw)?;
    if let Some(name) = params.algorithm.as_deref() {
        known(name)?;
    }
    let covers = |name: &str| params.headers.iter().any(|covered| covered == name);
    let covered = Covered {
        created: params.created,
        expires: params.expires,
        times_allowed: params.algorithm.as_deref().is_none_or(times_allowed),
        without_query: false,
    };
    if policy.coverage == Coverage::ActivityPub {
        check_coverage(message, covers)?;
    }
    let base = signing_string(message, params.headers.iter().map(AsRef::as_ref), covered)?;
    let made_s = if covers("(created)") {
        params.created_s
    } else if covers("date") {
        let text = message.joined("date").unwrap_or_default();
        Some(date::parse(&text, now_s)?)
    } else {
        None
    };
    // A time that is given but not covered says nothing for the signature; against it, it counts (sections 2.1.4
    // and 2.1.5).
    policy.check_time(params.created_s.filter(|created_s| *created_s > now_s), params.expires_s, now_s)?;
    policy.check_time(made_s, None, now_s)?;
    let signature = STANDARD
        .decode(params.signature)
        .map_err(|_| Refused::new(Reason::MalformedSignature, "the Signature's parameter signature is not base64"))?;
    let key = policy.key(resolver, params.key_id)?;
    let key = key.as_ref();
    let algorithm = CavageRequest::algorithm_for(params.algorithm.as_deref(), key.kind())?;
    let mut queryless = false;
    if let Err(refused) = key.verify(algorithm, base.as_bytes(), &signature) {
        if refused.reason != Reason::SignatureMismatch || !may_leave_out_query(message, policy) {
            return Err(refused);
        }
        let covered = Covered { without_query: true, ..covered };
        let base = signing_string(message, params.headers.iter().map(AsRef::as_ref), covered)?;
        key.verify(algorithm, base.as_bytes(), &signature).map_err(|_| refused)?;
        queryless = true;
    }
    if covers("digest") {
        check_body(message, "digest")?;
    }
    Ok(Verified {
        key_id: params.key_id.to_owned(),
        scheme: Scheme::Cavage,
        algorithm,
        label: None,
        covered: params.headers.iter().map(|name| name.clone().into_owned()).collect(),
        queryless,
    })
}

/// A name that no key can make good is refused before a key is asked for.
fn known(name: &str) -> Outcome<()> {
    use crate::key::KeyKind::{Ed25519, Rsa};
    match CavageRequest::algorithm_for(Some(name), Rsa).or_else(|_| CavageRequest::algorithm_for(Some(name), Ed25519)) {
        Err(refused) if refused.reason == Reason::UnknownAlgorithm => Err(refused),
        _ => Ok(()),
    }
}

fn check_coverage(message: &Message<'_>, covers: impl Fn(&str) -> bool) -> Outcome<()> {
    if !covers("(request-target)") {
        return Err(uncovered("(request-target)"));
    }
    if !covers("host") {
        return Err(uncovered("host"));
    }
    check_host(message)?;
    if !covers("date") && !covers("(created)") {
        return Err(uncovered("date or (created)"));
    }
    if message.needs_digest() && !covers("digest") {
        return Err(uncovered("digest"));
    }
    Ok(())
}

/// Whether the policy lets this message be signed without its query.
fn may_leave_out_query(message: &Message<'_>, policy: &Policy) -> bool {
    policy.queryless
        && matches!(&message.start, Start::Request { method, target, .. } if *method == "GET" && target.query.is_some())
}
