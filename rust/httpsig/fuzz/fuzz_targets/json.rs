// SPDX-License-Identifier: Apache-2.0
//! JSON, its canonical form, and proofs in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ojak_httpsig::error::Outcome;
use ojak_httpsig::fep8b32::{self, ProofKey};
use ojak_httpsig::jcs;
use ojak_httpsig::json::Json;
use ojak_httpsig::key::PublicKey;

enum NoKey {}

impl ProofKey for NoKey {
    fn key(&self) -> &PublicKey {
        match *self {}
    }

    fn controller(&self) -> &str {
        match *self {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = Json::parse(bytes) else { return };
    let canonical = jcs::canonical(&value);
    let again = Json::parse(canonical.as_bytes()).expect("what is written reads back");
    assert_eq!(jcs::canonical(&again), canonical, "its own form");
    let _ = fep8b32::hash(&value);
    let unknown = |_: &str| -> Outcome<Option<NoKey>> { Ok(None) };
    assert!(fep8b32::check(&value, unknown, 0).is_err(), "nothing passes without a key");
});
