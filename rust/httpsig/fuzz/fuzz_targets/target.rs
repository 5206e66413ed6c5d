// SPDX-License-Identifier: Apache-2.0
//! URLs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ojak_httpsig::target::{Target, origin};

fuzz_target!(|url: &str| {
    if let Ok(target) = Target::parse(url) {
        let uri = target.target_uri();
        assert!(uri.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "safe on the wire");
        assert_eq!(Target::parse(&uri).as_ref(), Ok(&target), "its own form");
        assert_eq!(origin(url), Ok((target.scheme, target.authority.clone())), "one reading of the authority");
        assert!(target.is_authority(&target.authority));
    }
});
