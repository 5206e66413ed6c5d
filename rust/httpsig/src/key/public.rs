// SPDX-License-Identifier: Apache-2.0
//! A public key, parsed once.

use std::fmt;
use std::fmt::Write as _;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PSS_2048_8192_SHA512, VerificationAlgorithm,
};

use crate::error::{Outcome, Reason, Refused};
use crate::key::der::{self, KeyType};
use crate::key::multikey::{self, Multikey};
use crate::key::pem::{self, malformed};
use crate::key::{Algorithm, KeyKind, MAX_RSA_BITS, MIN_LEGACY_RSA_BITS};

/// The encodings of the points of small order of Ed25519, without their sign bit: a signature by such a "key" fits
/// any message.
const SMALL_ORDER: [[u8; 32]; 7] = [
    [0; 32],
    {
        let mut one = [0; 32];
        one[0] = 1;
        one
    },
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    near_p(0xec),
    near_p(0xed),
    near_p(0xee),
];

/// A number next to the field's prime p = 2²⁵⁵ - 19, whose lowest byte is 0xed.
const fn near_p(lowest: u8) -> [u8; 32] {
    let mut number = [0xff; 32];
    number[0] = lowest;
    number[31] = 0x7f;
    number
}

/// A public key to verify with.
pub struct PublicKey {
    kind: KeyKind,
    bits: u32,
    pinned: Option<Algorithm>,
    /// The key bytes inside the SPKI: RSAPublicKey, 32 bytes of Ed25519, or a P-256 point.
    bytes: Vec<u8>,
    parsed: ParsedPublicKey,
    /// RSA-PSS wants the key parsed for it; only RSA keys of 2048 bits or more have it.
    parsed_pss: Option<ParsedPublicKey>,
}

impl PublicKey {
    /// Reads a PEM public key: SPKI, or RSA in PKCS#1.
    ///
    /// # Errors
    /// `malformed_key`, `unsupported_key`, and `weak_key` for RSA below `min_rsa_bits` (at least 1024).
    pub fn from_pem(text: &str, min_rsa_bits: u32) -> Outcome<Self> {
        let block = pem::decode(text)?;
        match block.label {
            "PUBLIC KEY" => Self::from_spki(&block.der, min_rsa_bits),
            "RSA PUBLIC KEY" => Self::from_bytes(KeyType::Rsa, &block.der, min_rsa_bits),
            label if label.ends_with("PRIVATE KEY") => {
                Err(malformed("this is a private key; a public one (-----BEGIN PUBLIC KEY-----) is wanted here"))
            }
            label => Err(Refused::new(
                Reason::UnsupportedKey,
                format!("a {} is not a public key that can be read here; PUBLIC KEY is wanted", pem::shown(label)),
            )),
        }
    }

    /// Reads the DER of a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// As [`PublicKey::from_pem`].
    pub fn from_spki(spki: &[u8], min_rsa_bits: u32) -> Outcome<Self> {
        let (key_type, bytes) = der::spki(spki)?;
        Self::from_bytes(key_type, bytes, min_rsa_bits)
    }

    /// Reads a multikey (FEP-521a, `publicKeyMultibase`).
    ///
    /// # Errors
    /// As [`PublicKey::from_pem`].
    pub fn from_multikey(text: &str, min_rsa_bits: u32) -> Outcome<Self> {
        match multikey::decode(text)? {
            Multikey::Ed25519Public(bytes) => Self::from_bytes(KeyType::Ed25519, &bytes, min_rsa_bits),
            Multikey::RsaPublic(bytes) => Self::from_bytes(KeyType::Rsa, &bytes, min_rsa_bits),
            Multikey::Ed25519Secret(_) => Err(malformed("this multikey is a secret key; a public one is wanted here")),
        }
    }

    pub(crate) fn from_bytes(key_type: KeyType, bytes: &[u8], min_rsa_bits: u32) -> Outcome<Self> {
        let (kind, bits, pinned) = match key_type {
            KeyType::Rsa => (KeyKind::Rsa, der::rsa_public_bits(bytes)?, None),
            KeyType::RsaPss => (KeyKind::Rsa, der::rsa_public_bits(bytes)?, Some(Algorithm::RsaPssSha512)),
            KeyType::Ed25519 => (KeyKind::Ed25519, 256, None),
            KeyType::P256 => (KeyKind::P256, 256, None),
        };
        if kind == KeyKind::Rsa {
            check_rsa_bits(bits, min_rsa_bits.max(MIN_LEGACY_RSA_BITS))?;
        }
        if kind == KeyKind::Ed25519 {
            check_ed25519(bytes)?;
        }
        let algorithm: &'static dyn VerificationAlgorithm = match kind {
            KeyKind::Rsa => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
            KeyKind::Ed25519 => &ED25519,
            KeyKind::P256 => &ECDSA_P256_SHA256_FIXED,
        };
        let parsed = ParsedPublicKey::new(algorithm, bytes)
            .map_err(|_| malformed(format!("the key's bytes are not those of a public key of kind {kind}")))?;
        let parsed_pss = match kind {
            KeyKind::Rsa => ParsedPublicKey::new(&RSA_PSS_2048_8192_SHA512, bytes).ok(),
            _ => None,
        };
        Ok(Self { kind, bits, pinned, bytes: bytes.to_vec(), parsed, parsed_pss })
    }

    /// The same key, for one algorithm only, as its record says.
    ///
    /// # Errors
    /// `algorithm_mismatch` if the algorithm does not go with the key.
    pub fn pinned_to(mut self, algorithm: Algorithm) -> Outcome<Self> {
        algorithm.check(self.kind, self.pinned)?;
        self.pinned = Some(algorithm);
        Ok(self)
    }

    /// What kind the key is of.
    #[must_use]
    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The size: of the modulus for RSA, 256 otherwise.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// The one algorithm that the key is for, if its record names one.
    #[must_use]
    pub const fn pinned(&self) -> Option<Algorithm> {
        self.pinned
    }

    /// What a signature by this key uses where it names no algorithm.
    #[must_use]
    pub fn default_algorithm(&self) -> Algorithm {
        self.pinned.unwrap_or(Algorithm::of(self.kind))
    }

    /// The DER of the SubjectPublicKeyInfo.
    #[must_use]
    pub fn spki(&self) -> Vec<u8> {
        let key_type = match self.kind {
            KeyKind::Rsa => KeyType::Rsa,
            KeyKind::Ed25519 => KeyType::Ed25519,
            KeyKind::P256 => KeyType::P256,
        };
        der::to_spki(key_type, &self.bytes)
    }

    /// The key as SPKI PEM, which every server reads.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem::encode("PUBLIC KEY", &self.spki()).to_string()
    }

    /// The key as a multikey (FEP-521a).
    ///
    /// # Errors
    /// `unsupported_key` for another kind than Ed25519.
    pub fn to_multikey(&self) -> Outcome<String> {
        if self.kind == KeyKind::Ed25519 {
            return Ok(multikey::ed25519_public(&self.bytes));
        }
        Err(Refused::new(
            Reason::UnsupportedKey,
            format!("only an Ed25519 key is written as a multikey, not {}", self.kind),
        ))
    }

    /// The SHA-256 of the SPKI in hex: a name for the key that is safe to show.
    #[must_use]
    pub fn spki_sha256(&self) -> String {
        let mut out = String::with_capacity(64);
        for byte in digest::digest(&digest::SHA256, &self.spki()).as_ref() {
            // Writing to a String does not fail.
            let _ = write!(out, "{byte:02x}");
        }
        out
    }

    /// Verifies a signature over data.
    ///
    /// # Errors
    /// `algorithm_mismatch` if the algorithm does not go with the key, `weak_key` for PSS with a key below 2048 bits,
    /// `signature_mismatch` if the signature is not that of the key.
    pub fn verify(&self, algorithm: Algorithm, data: &[u8], signature: &[u8]) -> Outcome<()> {
        algorithm.check(self.kind, self.pinned)?;
        let key = if algorithm == Algorithm::RsaPssSha512 {
            self.parsed_pss
                .as_ref()
                .ok_or_else(|| Refused::new(Reason::WeakKey, "RSA-PSS is verified with keys of 2048 bits or more"))?
        } else {
            &self.parsed
        };
        key.verify_sig(data, signature).map_err(|_| {
            Refused::new(Reason::SignatureMismatch, "the signature is not that of the key over what it says it covers")
        })
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("kind", &self.kind).field("bits", &self.bits).finish_non_exhaustive()
    }
}

pub(crate) fn check_rsa_bits(bits: u32, min_bits: u32) -> Outcome<()> {
    if bits < min_bits {
        return Err(Refused::new(
            Reason::WeakKey,
            format!("the RSA key has {bits} bits; at least {min_bits} are wanted"),
        ));
    }
    if bits > MAX_RSA_BITS {
        return Err(Refused::new(
            Reason::UnsupportedKey,
            format!("the RSA key has {bits} bits; at most {MAX_RSA_BITS} are used"),
        ));
    }
    Ok(())
}

fn check_ed25519(bytes: &[u8]) -> Outcome<()> {
    let Ok(mut point) = <[u8; 32]>::try_from(bytes) else {
        return Err(malformed(format!("an Ed25519 key has 32 bytes, not {}", bytes.len())));
    };
    point[31] &= 0x7f;
    if SMALL_ORDER.contains(&point) {
        return Err(Refused::new(
            Reason::WeakKey,
            "the Ed25519 key is a point of small order: anything would verify with it",
        ));
    }
    Ok(())
}
