// SPDX-License-Identifier: Apache-2.0
//! Keys: PEM, DER and multikeys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ojak_httpsig::key::{PrivateKey, PublicKey};

fuzz_target!(|bytes: &[u8]| {
    for key in [PublicKey::from_spki(bytes, 1024), PrivateKey::from_pkcs8(bytes).and_then(|key| key.public_key())] {
        if let Ok(key) = key {
            let again = PublicKey::from_spki(&key.spki(), 1024).expect("what is written reads back");
            assert_eq!(again.spki_sha256(), key.spki_sha256());
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = PrivateKey::from_pem(text, 2048);
        let _ = PublicKey::from_pem(text, 1024);
        let _ = PrivateKey::from_multikey(text);
        if let Ok(key) = PublicKey::from_multikey(text, 1024)
            && let Ok(written) = key.to_multikey()
        {
            assert_eq!(written, text, "one writing for one key");
        }
    }
});
