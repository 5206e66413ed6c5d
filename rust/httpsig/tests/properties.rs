// SPDX-License-Identifier: Apache-2.0
//! Properties: what is written reads back, what is changed is refused, and nothing a stranger sends makes a panic.
// A test says what it expects by panicking.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::{Arc, LazyLock};

use ojak_httpsig::digest::{BodyDigest, check_content_digest, check_digest};
use ojak_httpsig::error::{Outcome, Reason};
use ojak_httpsig::fep8fcf::{CollectionSync, FollowersDigest};
use ojak_httpsig::json::Json;
use ojak_httpsig::key::{PrivateKey, PublicKey};
use ojak_httpsig::message::{Field, Message};
use ojak_httpsig::policy::{Policy, Resolve, Scheme, Verified};
use ojak_httpsig::profile::{self, Outgoing};
use ojak_httpsig::target::Target;
use ojak_httpsig::{cavage, date, jcs, rfc9421, sf};
use proptest::collection::vec;
use proptest::prelude::*;

static KEY: LazyLock<PrivateKey> = LazyLock::new(|| PrivateKey::generate_ed25519().expect("a key"));
static PUBLIC: LazyLock<Arc<PublicKey>> = LazyLock::new(|| Arc::new(KEY.public_key().expect("a key")));
const KEY_ID: &str = "https://alice.example/users/alice#ed25519-key";
const NOW_S: i64 = 1_760_000_000;

struct One;

impl Resolve for One {
    type Key = Arc<PublicKey>;

    fn resolve(&mut self, key_id: &str) -> Outcome<Option<Self::Key>> {
        Ok((key_id == KEY_ID).then(|| Arc::clone(&PUBLIC)))
    }
}

fn scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![Just(Scheme::Cavage), Just(Scheme::Rfc9421)]
}

fn signed(scheme: Scheme, method: &str, url: &str, body: &[u8], more: &[Field<'_>]) -> Vec<(String, String)> {
    let digest = BodyDigest::new(body);
    let outgoing = Outgoing { method, url, digest: Some(&digest), covered: more, now_s: NOW_S, accept_signature: None };
    let fields = profile::sign(&KEY, KEY_ID, scheme, &outgoing).expect("signed");
    let own = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    own.chain(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).collect()
}

fn verified(method: &str, url: &str, body: &[u8], fields: &[(String, String)]) -> Outcome<Verified> {
    let fields: Vec<Field<'_>> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let message = Message::request(method, url, &fields, Some(body))?;
    ojak_httpsig::verify(&message, &mut One, &Policy::default(), NOW_S, None, None)
}

fn url() -> impl Strategy<Value = String> {
    (
        "[a-z][a-z0-9-]{0,8}[a-z]\\.example",
        prop::option::of(1..=65535_u16),
        "(/[!-\"$-~]{0,12}){0,3}",
        prop::option::of("[!-\"$-~]{0,20}"),
    )
        .prop_map(|(host, port, path, query)| {
            // A question mark in the path would begin the query; both are fine, but each in its place.
            let path = path.replace('?', "_");
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            format!("https://{host}{port}{path}{query}")
        })
}

proptest! {
    // A finding becomes a named test, not a file of seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_signed_verifies(
        scheme in scheme(),
        method in "POST|PUT|GET|DELETE",
        url in url(),
        body in vec(any::<u8>(), 0..64),
        value in "[ -~]{0,40}",
    ) {
        let fields = signed(scheme, &method, &url, &body, &[("X-Extra", &value)]);
        let verified = verified(&method, &url, &body, &fields);
        prop_assert!(verified.is_ok(), "{:?}", verified);
        let verified = verified.unwrap();
        prop_assert_eq!(verified.scheme, scheme);
        prop_assert_eq!(verified.key_id.as_str(), KEY_ID);
        prop_assert!(verified.covered.iter().any(|name| name.trim_matches('"') == "x-extra"));
    }

    #[test]
    fn what_is_changed_is_refused(
        scheme in scheme(),
        url in url(),
        at in any::<prop::sample::Index>(),
        bit in 0..7_u8,
        field in any::<prop::sample::Index>(),
    ) {
        let body = b"{\"id\":\"https://alice.example/1\"}";
        let mut fields = signed(scheme, "POST", &url, body, &[]);
        let (name, value) = field.get(&fields).clone();
        let mut bytes = value.clone().into_bytes();
        let position = at.index(bytes.len());
        bytes[position] ^= 1 << bit;
        let Ok(changed) = String::from_utf8(bytes) else { return Ok(()) };
        let place = fields.iter().position(|(known, _)| *known == name).unwrap();
        fields[place].1 = changed.clone();
        // What the change leaves the same in meaning may pass: case where case does not matter, and a Date or Host
        // that is sent beside an RFC 9421 signature, which does not cover them.
        let uncovered = scheme == Scheme::Rfc9421 && (name == "Date" || name == "Host");
        let same_meaning = changed.eq_ignore_ascii_case(&value) && !value.contains('=') ;
        if let Ok(verified) = verified("POST", &url, body, &fields) {
            let params_only =
                name.starts_with("Signature") && verified.key_id == KEY_ID && harmless(scheme, &value, &changed);
            prop_assert!(uncovered || same_meaning || params_only, "{name}: {value} became {changed}");
        }
    }

    #[test]
    fn a_changed_body_is_refused(
        scheme in scheme(),
        body in vec(any::<u8>(), 1..64),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let url = "https://remote.example/inbox";
        let fields = signed(scheme, "POST", url, &body, &[]);
        let mut changed = body.clone();
        let position = at.index(changed.len());
        changed[position] ^= 1 << bit;
        prop_assert_eq!(verified("POST", url, &changed, &fields).unwrap_err().reason, Reason::DigestMismatch);
    }

    #[test]
    fn another_target_is_refused(scheme in scheme(), one in url(), other in url()) {
        prop_assume!(Target::parse(&one).unwrap() != Target::parse(&other).unwrap());
        let fields = signed(scheme, "POST", &one, b"x", &[]);
        prop_assert!(verified("POST", &other, b"x", &fields).is_err());
    }

    #[test]
    fn dates_read_back(at_s in 0..=253_402_300_799_i64, now_s in 0..=4_102_444_800_i64) {
        prop_assert_eq!(date::parse(&date::format(at_s).unwrap(), now_s).unwrap(), at_s);
    }

    #[test]
    fn a_target_is_its_own_form(url in url()) {
        let target = Target::parse(&url).unwrap();
        let again = target.target_uri();
        prop_assert_eq!(Target::parse(&again).unwrap(), target.clone());
        prop_assert!(url.ends_with(&target.request_target()) || target.request_target().starts_with('/'));
    }

    #[test]
    fn digests_check(body in vec(any::<u8>(), 0..256)) {
        let digest = BodyDigest::new(&body);
        prop_assert!(check_digest(&digest.digest, &body).is_ok());
        prop_assert!(check_content_digest(&digest.content_digest, &body).is_ok());
    }

    #[test]
    fn multikeys_read_back(seed in any::<[u8; 32]>()) {
        let key = PrivateKey::from_ed25519_seed(&seed).unwrap();
        let again = PrivateKey::from_multikey(&key.to_multikey().unwrap()).unwrap();
        prop_assert_eq!(again.public_key().unwrap().spki(), key.public_key().unwrap().spki());
        let pem = key.to_pem().unwrap();
        let again = PrivateKey::from_pem(&pem, 2048).unwrap();
        prop_assert_eq!(again.public_key().unwrap().spki(), key.public_key().unwrap().spki());
    }

    #[test]
    fn canonical_json_is_its_own_form(text in json_text(), noise in "[ \t\n\r]{0,3}") {
        let canonical = jcs::canonicalize(format!("{noise}{text}{noise}").as_bytes()).unwrap();
        prop_assert_eq!(jcs::canonicalize(canonical.as_bytes()).unwrap(), canonical.clone());
        let read = |text: &str| doubles(serde_json::from_str(text).unwrap());
        prop_assert_eq!(read(&text), read(&canonical), "another parser reads the same");
    }

    #[test]
    fn followers_add_up_in_any_order(
        mut ids in vec("https://a\\.example/[a-z]{1,8}", 0..12),
        gone in vec("https://a\\.example/[0-9]{1,4}", 0..6),
    ) {
        let mut digest = FollowersDigest::new("https://a.example/inbox").unwrap();
        for id in ids.iter().chain(&gone) {
            digest.toggle(id);
        }
        ids.reverse();
        let mut other = FollowersDigest::new("https://A.EXAMPLE:443").unwrap();
        for id in &ids {
            prop_assert!(other.toggle(id));
        }
        for id in &gone {
            digest.toggle(id);
        }
        prop_assert_eq!(digest.hex(), other.hex());
        let resumed = FollowersDigest::resume("https://a.example", &digest.hex()).unwrap();
        prop_assert_eq!(resumed.hex(), digest.hex());
    }

    #[test]
    fn nothing_makes_a_panic(text in ".{0,200}", bytes in vec(any::<u8>(), 0..200)) {
        let _ = cavage::parse(&text);
        let _ = rfc9421::canonical_labels(&text);
        let _ = rfc9421::answer(&text, "k", ojak_httpsig::key::Algorithm::Ed25519, NOW_S);
        let _ = sf::canonical("x", &text);
        let _ = Target::parse(&text);
        let _ = Target::parse(&format!("https://{text}"));
        let _ = date::parse(&text, NOW_S);
        let _ = check_digest(&text, &bytes);
        let _ = check_content_digest(&text, &bytes);
        let _ = CollectionSync::parse(&text);
        let _ = PrivateKey::from_pem(&text, 2048);
        let _ = PublicKey::from_pem(&text, 1024);
        let _ = PublicKey::from_spki(&bytes, 1024);
        let _ = PrivateKey::from_pkcs8(&bytes);
        let _ = PublicKey::from_multikey(&text, 1024);
        let _ = PublicKey::from_multikey(&format!("z{text}"), 1024);
        let _ = Json::parse(&bytes);
        let _ = Json::parse(text.as_bytes());
    }

    #[test]
    fn a_message_of_anything_is_verified_or_refused(
        method in "[ -~]{0,8}|POST|GET",
        url in "https://a\\.example/[ -~]{0,20}",
        fields in vec((
            "Signature|Signature-Input|Host|Date|Digest|[ -~]{1,8}",
            ".{0,60}|sig1=\\(\"@method\".{0,40}\\).{0,40}|keyId=\"k\",.{0,60}",
        ), 0..6),
        body in vec(any::<u8>(), 0..20),
    ) {
        let fields: Vec<(String, String)> = fields;
        for scheme in [None, Some(Scheme::Cavage), Some(Scheme::Rfc9421)] {
            let borrowed: Vec<Field<'_>> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            if let Ok(message) = Message::request(&method, &url, &borrowed, Some(&body)) {
                let outcome = ojak_httpsig::verify(&message, &mut One, &Policy::default(), NOW_S, scheme, None);
                prop_assert!(outcome.is_err());
            }
        }
    }
}

/// Whether a change to a signature field leaves what it says the same: spaces between parameters, an unknown
/// parameter's name, the label, or the case of a cavage parameter's name.
fn harmless(scheme: Scheme, before: &str, after: &str) -> bool {
    match scheme {
        Scheme::Cavage => {
            let meaning = |text: &str| {
                let raw = cavage::parse(text).ok()?;
                let params = cavage::CavageParams::from_raw(&raw).ok()?;
                Some((params.key_id.to_owned(), params.headers.join(" "), params.signature.to_owned()))
            };
            meaning(before) == meaning(after)
        }
        Scheme::Rfc9421 => {
            // A changed label is changed in one of the two fields only, so it never passes; the rest is covered.
            rfc9421::canonical_labels(before).ok() == rfc9421::canonical_labels(after).ok()
        }
    }
}

/// A value whose numbers are all doubles, as RFC 8785 takes them.
fn doubles(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        // Minus zero is zero in canonical form.
        Value::Number(number) => Value::from(number.as_f64().unwrap() + 0.0),
        Value::Array(items) => items.into_iter().map(doubles).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, doubles(value))).collect(),
        other => other,
    }
}

fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        any::<i32>().prop_map(|number| number.to_string()),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(|number| format!("{number:e}")),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::btree_map(any::<String>(), inner, 0..5).prop_map(|members| {
                let members: Vec<String> = members
                    .into_iter()
                    .map(|(name, value)| format!("{} : {value}", serde_json::to_string(&name).unwrap()))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}
