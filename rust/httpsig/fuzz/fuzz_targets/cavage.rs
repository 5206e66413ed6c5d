// SPDX-License-Identifier: Apache-2.0
//! The parameters of a cavage signature, and the header that has the same syntax.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ojak_httpsig::cavage::{CavageParams, parse};
use ojak_httpsig::fep8fcf::CollectionSync;

fuzz_target!(|text: &str| {
    if let Ok(raw) = parse(text) {
        for (index, (name, _)) in raw.iter().enumerate() {
            assert!(!raw.iter().skip(index + 1).any(|(other, _)| other.eq_ignore_ascii_case(name)), "each name once");
        }
        if let Ok(params) = CavageParams::from_raw(&raw) {
            assert!(!params.headers.is_empty() && !params.key_id.is_empty(), "something by somebody");
        }
    }
    if let Ok(sync) = CollectionSync::parse(text)
        && let Ok(made) = CollectionSync::new(sync.get("collectionId"), sync.get("url"), sync.get("digest"))
    {
        let again = CollectionSync::parse(&made.header()).expect("what is written reads back");
        assert_eq!(again.params, made.params);
    }
});
