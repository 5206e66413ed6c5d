// SPDX-License-Identifier: Apache-2.0
//! How each kind of case is run on the crate, and judged as the corpus's README says.

mod documents;
mod messages;

use std::sync::Arc;

use ojak_httpsig::digest::{BodyDigest, DigestAlgorithm, check_content_digest, check_digest};
use ojak_httpsig::error::{Outcome, Reason, Refused};
use ojak_httpsig::key::{Algorithm, PrivateKey, PublicKey};
use ojak_httpsig::policy::{Coverage, Policy, Resolve};
use ojak_httpsig::target::Target;
use serde_json::Value;

/// A case, and the keys of its file.
pub struct Case<'a> {
    pub json: &'a Value,
    pub keys: &'a Value,
}

/// What came of a case.
pub enum Verdict {
    Pass,
    Fail(String),
}

/// What running a case showed: a refusal, an acceptance, or what was to be compared.
pub enum Seen {
    Accepted,
    Same(Result<(), String>),
}

pub type Run = Outcome<Seen>;

/// Compares, as the last step of a run.
#[allow(clippy::unnecessary_wraps)] // so that it can be what a run returns
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Run {
    Ok(Seen::Same(if got == want { Ok(()) } else { Err(format!("{what}: got {got:?}, want {want:?}")) }))
}

impl Case<'_> {
    pub fn id(&self) -> &str {
        self.text("id")
    }

    pub fn text(&self, name: &str) -> &str {
        self.json[name].as_str().expect("a text")
    }

    pub fn input(&self, name: &str) -> &Value {
        &self.json["inputs"][name]
    }

    pub fn expected(&self) -> &Value {
        &self.json["expected"]
    }

    pub fn private(&self) -> Outcome<PrivateKey> {
        let name = self.input("key").as_str().expect("a key's name");
        PrivateKey::from_pem(self.keys[name]["private_pem"].as_str().expect("PEM"), 2048)
    }

    pub fn policy(&self) -> Policy {
        let policy = self.input("policy");
        Policy {
            min_rsa_bits: u32::try_from(policy["min_rsa_bits"].as_u64().expect("bits")).expect("bits"),
            max_skew_s: policy["max_skew"].as_i64().expect("seconds"),
            max_age_s: policy["max_age"].as_i64(),
            queryless: policy["queryless"].as_bool().expect("a flag"),
            coverage: if policy["coverage"] == "none" { Coverage::Nothing } else { Coverage::ActivityPub },
        }
    }
}

/// The keys of a case, by their ids.
pub struct Keys<'a>(pub &'a Case<'a>);

impl Resolve for Keys<'_> {
    type Key = Arc<PublicKey>;

    fn resolve(&mut self, key_id: &str) -> Outcome<Option<Self::Key>> {
        let entry = &self.0.input("keys")[key_id];
        let record = match entry["key"].as_str() {
            Some(name) => &self.0.keys[name],
            None => entry,
        };
        let Some(pem) = record["public_pem"].as_str() else { return Ok(None) };
        let key = PublicKey::from_pem(pem, 1024)?;
        let key = match record["alg"].as_str() {
            Some(name) => key.pinned_to(Algorithm::named(name)?)?,
            None => key,
        };
        Ok(Some(Arc::new(key)))
    }
}

/// Bytes in base64; none for null.
pub fn base64(value: &Value) -> Option<Vec<u8>> {
    use base64::Engine as _;
    value.as_str().map(|text| base64::engine::general_purpose::STANDARD.decode(text).expect("base64"))
}

pub fn run(case: &Case<'_>) -> Verdict {
    let expected = case.expected();
    let alternatives: Vec<&Value> =
        expected["alternatives"].as_array().map(|all| all.iter().collect()).unwrap_or_default();
    let allowed = |word: &str| alternatives.iter().any(|alternative| *alternative == word);
    let result = expected["result"].as_str();
    match dispatch(case) {
        Err(Refused { reason, detail }) => {
            let listed =
                expected["reasons_ok"].as_array().is_some_and(|words| words.iter().any(|word| word == reason.as_str()));
            if result == Some("either") || allowed(&format!("reject:{reason}")) || (result == Some("reject") && listed)
            {
                Verdict::Pass
            } else {
                Verdict::Fail(format!("refused with {reason} ({detail}), want {expected}"))
            }
        }
        Ok(Seen::Accepted) if matches!(result, Some("accept" | "either")) || allowed("accept") => Verdict::Pass,
        Ok(Seen::Accepted) => Verdict::Fail(format!("accepted, want {expected}")),
        Ok(Seen::Same(_)) if result == Some("reject") && !allowed("accept") => {
            Verdict::Fail(format!("accepted, want {expected}"))
        }
        Ok(Seen::Same(Ok(()))) => Verdict::Pass,
        Ok(Seen::Same(Err(_))) if result == Some("reject") => Verdict::Pass,
        Ok(Seen::Same(Err(why))) => Verdict::Fail(why),
    }
}

fn dispatch(case: &Case<'_>) -> Run {
    match (case.text("scheme"), case.text("op")) {
        ("cavage", "sign") => messages::sign_cavage(case),
        ("rfc9421", "sign") => messages::sign_rfc9421(case),
        ("cavage" | "rfc9421", "verify") => messages::verify(case),
        ("cavage", "base") => messages::base_cavage(case),
        ("rfc9421", "base") => messages::base_rfc9421(case),
        (_, "cavage-header") => messages::cavage_header(case),
        (_, "signature-input") => messages::signature_input(case),
        ("url", _) => url(case),
        (_, "make") => make_digest(case),
        (_, "check") => check(case),
        (_, "key") => key(case),
        (_, "followers-digest") => documents::followers_digest(case),
        (_, "header-make") => documents::header_make(case),
        (_, "header-parse") => documents::header_parse(case),
        ("fep8b32", "sign") => documents::proof_sign(case),
        ("fep8b32", _) => documents::proof_check(case),
        (_, "canonicalize") => documents::canonicalize(case),
        (scheme, op) => panic!("no runner for {scheme}/{op}"),
    }
}

fn url(case: &Case<'_>) -> Run {
    let target = Target::parse(case.input("url").as_str().expect("a URL"))?;
    let got = serde_json::json!({
        "host_header": target.authority, "request_target": target.request_target(), "target_uri": target.target_uri(),
        "authority": target.authority, "path": target.path, "query": target.query_component(), "scheme": target.scheme,
    });
    let mut want = case.expected().clone();
    if let Some(fields) = want.as_object_mut() {
        fields.remove("alternatives");
    }
    same("url", &got, &want)
}

fn make_digest(case: &Case<'_>) -> Run {
    let body = base64(case.input("body_b64")).unwrap_or_default();
    let algorithms: Vec<_> = case
        .input("algorithms")
        .as_array()
        .expect("algorithms")
        .iter()
        .map(|name| DigestAlgorithm::named(name.as_str().expect("a name")).expect("a known one"))
        .collect();
    let digest = BodyDigest::with(&body, &algorithms);
    let got = serde_json::json!({ "Digest": digest.digest, "Content-Digest": digest.content_digest });
    same("digest", &got, case.expected())
}

fn check(case: &Case<'_>) -> Run {
    let body = base64(case.input("body_b64")).unwrap_or_default();
    let value = case.input("value").as_str().expect("a value");
    if case.input("field") == "Digest" { check_digest(value, &body) } else { check_content_digest(value, &body) }?;
    Ok(Seen::Accepted)
}

fn key(case: &Case<'_>) -> Run {
    let text = case.input("text").as_str().expect("a text");
    let min_bits = case.input("min_rsa_bits").as_u64().and_then(|bits| u32::try_from(bits).ok()).unwrap_or(1024);
    let multibase = case.input("format") == "multibase";
    let key = match (case.input("private") == true, multibase) {
        (true, false) => PrivateKey::from_pem(text, min_bits)?.public_key()?,
        (true, true) => PrivateKey::from_multikey(text)?.public_key()?,
        (false, false) => PublicKey::from_pem(text, min_bits)?,
        (false, true) => PublicKey::from_multikey(text, min_bits)?,
    };
    let got = serde_json::json!({ "type": key.kind().as_str(), "bits": key.bits(), "spki_sha256": key.spki_sha256() });
    let mut want = case.expected().clone();
    if let Some(fields) = want.as_object_mut() {
        fields.remove("alternatives");
    }
    same("key", &got, &want)
}

/// A refusal for what a harness itself finds to be missing.
pub fn not_known(reason: Reason) -> Refused {
    Refused::new(reason, "the case does not hold it")
}
