// SPDX-License-Identifier: Apache-2.0
//! Signature-Input, Accept-Signature, and structured fields in canonical form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ojak_httpsig::key::Algorithm;
use ojak_httpsig::{rfc9421, sf};

fuzz_target!(|text: &str| {
    if let Ok(labels) = rfc9421::canonical_labels(text) {
        let written: Vec<String> = labels.iter().map(|(label, list)| format!("{label}={list}")).collect();
        let again = rfc9421::canonical_labels(&written.join(", ")).expect("what is written reads back");
        assert_eq!(again, labels, "the canonical form is its own");
    }
    if let Ok(canonical) = sf::canonical("x-any", text) {
        assert_eq!(sf::canonical("x-any", &canonical).as_deref(), Ok(canonical.as_str()));
    }
    if let Ok(asked) = rfc9421::answer(text, "https://a.example/#k", Algorithm::Ed25519, 1_760_000_000) {
        for (index, component) in asked.components.iter().enumerate() {
            assert!(!asked.components[index + 1..].contains(component), "each component once");
        }
    }
});
