// SPDX-License-Identifier: Apache-2.0
//! Whole messages: lines of the input are method, URL, and header fields; what follows an empty line is the body.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ojak_httpsig::error::Outcome;
use ojak_httpsig::key::{PrivateKey, PublicKey};
use ojak_httpsig::message::{Field, Message};
use ojak_httpsig::policy::{Coverage, Policy, Resolve, Scheme};
use ojak_httpsig::verify;

static KEY: LazyLock<Arc<PublicKey>> = LazyLock::new(|| {
    let key = PrivateKey::from_ed25519_seed(&[7; 32]).and_then(|key| key.public_key());
    Arc::new(key.expect("a key"))
});

struct Any;

impl Resolve for Any {
    type Key = Arc<PublicKey>;

    fn resolve(&mut self, _: &str) -> Outcome<Option<Self::Key>> {
        Ok(Some(Arc::clone(&KEY)))
    }
}

fuzz_target!(|text: &str| {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (Some(method), Some(url)) = (lines.next(), lines.next()) else { return };
    let fields: Vec<Field<'_>> = lines.filter_map(|line| line.split_once(": ")).collect();
    let Ok(message) = Message::request(method, url, &fields, Some(body.as_bytes())) else { return };
    let lenient = Policy { max_age_s: None, queryless: true, coverage: Coverage::Nothing, ..Policy::default() };
    for policy in [&Policy::default(), &lenient] {
        for scheme in [Scheme::Cavage, Scheme::Rfc9421] {
            // The private key is not in the corpus, so a pass would be a forgery.
            assert!(verify(&message, &mut Any, policy, 1_760_000_000, Some(scheme), None).is_err());
        }
    }
});
