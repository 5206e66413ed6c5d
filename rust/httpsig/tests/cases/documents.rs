// SPDX-License-Identifier: Apache-2.0
//! Cases about documents and collections: FEP-8b32, FEP-8fcf, canonical JSON.

use std::collections::HashSet;

use ojak_httpsig::error::{Outcome, Reason};
use ojak_httpsig::fep8b32::{self, ProofKey};
use ojak_httpsig::fep8fcf::{CollectionSync, FollowersDigest};
use ojak_httpsig::jcs;
use ojak_httpsig::json::Json;
use ojak_httpsig::key::PublicKey;
use serde_json::Value;

use super::{Case, Run, Seen, base64, not_known, same};

pub fn followers_digest(case: &Case<'_>) -> Run {
    let mut digest = FollowersDigest::new(case.input("instance").as_str().expect("a URL"))?;
    let followers: HashSet<&str> =
        case.input("followers").as_array().expect("ids").iter().filter_map(Value::as_str).collect();
    for follower in followers {
        digest.toggle(follower);
    }
    same("digest", &digest.hex().as_str(), &case.expected()["digest"].as_str().unwrap_or_default())
}

fn params(sync: &CollectionSync) -> Value {
    sync.params.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
}

pub fn header_make(case: &Case<'_>) -> Run {
    let text = |name: &str| case.input(name).as_str().expect("a text");
    let made = CollectionSync::new(text("collectionId"), text("url"), text("digest"))?;
    same("params", &params(&CollectionSync::parse(&made.header())?), &case.expected()["header_params"])
}

pub fn header_parse(case: &Case<'_>) -> Run {
    let sync = CollectionSync::parse(case.input("value").as_str().expect("a value"))?;
    sync.check(case.input("actor").as_str(), case.input("followers").as_str())?;
    same("params", &params(&sync), &case.expected()["params"])
}

fn document(case: &Case<'_>) -> Outcome<Json> {
    Json::parse(case.input("document").to_string().as_bytes())
}

pub fn proof_sign(case: &Case<'_>) -> Run {
    let text = |name: &str| case.input(name).as_str().expect("a text");
    let document = document(case)?;
    let proof = fep8b32::make(&document, &case.private()?, text("verification_method"), text("created"))?;
    let Json::Object(mut members) = document else { return Err(not_known(Reason::NotJson)) };
    members.push(("proof".to_owned(), proof.clone()));
    let hash = fep8b32::hash(&Json::Object(members))?;
    let hash = hash.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    if let Some(wanted) = case.expected()["hash_hex"].as_str()
        && hash != wanted
    {
        return same("hash", &hash.as_str(), &wanted);
    }
    let wanted = Json::parse(case.expected()["proof"].to_string().as_bytes())?;
    same("proof", &jcs::canonical(&proof), &jcs::canonical(&wanted))
}

struct Found(PublicKey, String);

impl ProofKey for Found {
    fn key(&self) -> &PublicKey {
        &self.0
    }

    fn controller(&self) -> &str {
        &self.1
    }
}

pub fn proof_check(case: &Case<'_>) -> Run {
    let resolve = |method: &str| -> Outcome<Option<Found>> {
        let key = &case.input("keys")[method];
        let Some(multibase) = key["multibase"].as_str() else { return Ok(None) };
        let controller = key["controller"].as_str().expect("an id").to_owned();
        Ok(Some(Found(PublicKey::from_multikey(multibase, 2048)?, controller)))
    };
    fep8b32::check(&document(case)?, resolve, 1_780_000_000)?;
    Ok(Seen::Accepted)
}

pub fn canonicalize(case: &Case<'_>) -> Run {
    let canonical = jcs::canonicalize(&base64(case.input("json_b64")).expect("JSON"))?;
    let wanted = base64(&case.expected()["canonical_b64"]).unwrap_or_default();
    same("canonical", &canonical.as_bytes(), &wanted.as_slice())
}
