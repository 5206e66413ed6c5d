// SPDX-License-Identifier: Apache-2.0
//! A private key, parsed once. Its only way out is [`PrivateKey::to_pem`].

use std::fmt;

use aws_lc_rs::encoding::{AsBigEndian as _, AsDer as _};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA512,
    RsaKeyPair,
};
use zeroize::Zeroizing;

use crate::error::{Outcome, Reason, Refused};
use crate::key::der::{self, KeyType};
use crate::key::multikey::{self, Multikey};
use crate::key::pem::{self, malformed};
use crate::key::public::check_rsa_bits;
use crate::key::{Algorithm, KeyKind, MIN_RSA_BITS, PublicKey};

enum Pair {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    #[cfg(feature = "stub-key")]
    Stub(KeyKind),
}

/// A private key to sign with. aws-lc keeps it, and clears it when it is dropped.
pub struct PrivateKey {
    pair: Pair,
    bits: u32,
    pinned: Option<Algorithm>,
}

impl PrivateKey {
    /// Reads a PEM private key: PKCS#8, or RSA in PKCS#1.
    ///
    /// # Errors
    /// `malformed_key`, `unsupported_key`, and `weak_key` for RSA below `min_rsa_bits`, or below 2048 in any case.
    pub fn from_pem(text: &str, min_rsa_bits: u32) -> Outcome<Self> {
        let key = Self::read_pem(text)?;
        if key.kind() == KeyKind::Rsa {
            check_rsa_bits(key.bits, min_rsa_bits)?;
        }
        Ok(key)
    }

    fn read_pem(text: &str) -> Outcome<Self> {
        let block = pem::decode(text)?;
        match block.label {
            "PRIVATE KEY" => Self::from_pkcs8(&block.der),
            "RSA PRIVATE KEY" => Self::from_rsa(&block.der, None),
            "PUBLIC KEY" | "RSA PUBLIC KEY" => {
                Err(malformed("this is a public key; a private one (-----BEGIN PRIVATE KEY-----) is wanted here"))
            }
            "ENCRYPTED PRIVATE KEY" => Err(Refused::new(
                Reason::UnsupportedKey,
                "the private key is encrypted; one without a password (-----BEGIN PRIVATE KEY-----) is wanted",
            )),
            label => Err(Refused::new(
                Reason::UnsupportedKey,
                format!(
                    "a {} is not a private key that can be read here; PRIVATE KEY (PKCS#8) is wanted",
                    pem::shown(label)
                ),
            )),
        }
    }

    /// Reads the DER of a PKCS#8 private key.
    ///
    /// # Errors
    /// As [`PrivateKey::from_pem`].
    pub fn from_pkcs8(pkcs8: &[u8]) -> Outcome<Self> {
        let held = der::pkcs8(pkcs8)?;
        match held.key_type {
            KeyType::Rsa => Self::from_rsa(held.key, None),
            KeyType::RsaPss => Self::from_rsa(held.key, Some(Algorithm::RsaPssSha512)),
            KeyType::Ed25519 => {
                let seed = der::ed25519_seed(held.key)?;
                match held.public {
                    None => Self::from_ed25519_seed(seed),
                    Some(public) => Ed25519KeyPair::from_seed_and_public_key(seed, public)
                        .map(|pair| Self { pair: Pair::Ed25519(pair), bits: 256, pinned: None })
                        .map_err(|_| malformed("the Ed25519 key's private and public halves do not belong together")),
                }
            }
            KeyType::P256 => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)
                .map(|pair| Self { pair: Pair::P256(pair), bits: 256, pinned: None })
                .map_err(|_| malformed("the key's bytes are not those of a P-256 private key")),
        }
    }

    fn from_rsa(pkcs1: &[u8], pinned: Option<Algorithm>) -> Outcome<Self> {
        let bits = der::rsa_private_bits(pkcs1)?;
        check_rsa_bits(bits, MIN_RSA_BITS)?;
        let pair = RsaKeyPair::from_der(pkcs1)
            .map_err(|_| malformed("the RSA key's numbers do not belong together, or its bytes were damaged"))?;
        Ok(Self { pair: Pair::Rsa(pair), bits, pinned })
    }

    /// An Ed25519 key from its 32-byte seed.
    ///
    /// # Errors
    /// `malformed_key` for another length.
    pub fn from_ed25519_seed(seed: &[u8]) -> Outcome<Self> {
        Ed25519KeyPair::from_seed_unchecked(seed)
            .map(|pair| Self { pair: Pair::Ed25519(pair), bits: 256, pinned: None })
            .map_err(|_| malformed(format!("an Ed25519 seed has 32 bytes, not {}", seed.len())))
    }

    /// Reads a multikey (FEP-521a, `secretKeyMultibase`).
    ///
    /// # Errors
    /// `malformed_key`, `unsupported_key`.
    pub fn from_multikey(text: &str) -> Outcome<Self> {
        match multikey::decode(text)? {
            Multikey::Ed25519Secret(seed) => Self::from_ed25519_seed(seed.as_slice()),
            Multikey::Ed25519Public(_) | Multikey::RsaPublic(_) => {
                Err(malformed("this multikey is a public key; a secret one is wanted here"))
            }
        }
    }

    /// A new RSA key.
    ///
    /// # Errors
    /// `invalid_param` for another size than 2048, 3072, 4096 or 8192 bits.
    pub fn generate_rsa(bits: u32) -> Outcome<Self> {
        let size = match bits {
            2048 => KeySize::Rsa2048,
            3072 => KeySize::Rsa3072,
            4096 => KeySize::Rsa4096,
            8192 => KeySize::Rsa8192,
            _ => {
                return Err(Refused::new(
                    Reason::InvalidParam,
                    format!("an RSA key of {bits} bits is not made; 2048, 3072, 4096 or 8192 is allowed"),
                ));
            }
        };
        let pair = RsaKeyPair::generate(size).map_err(|_| no_randomness())?;
        Ok(Self { pair: Pair::Rsa(pair), bits, pinned: None })
    }

    /// A new Ed25519 key.
    ///
    /// # Errors
    /// `unsupported_key` if the system gives no random bytes.
    pub fn generate_ed25519() -> Outcome<Self> {
        let pair = Ed25519KeyPair::generate().map_err(|_| no_randomness())?;
        Ok(Self { pair: Pair::Ed25519(pair), bits: 256, pinned: None })
    }

    /// A key that answers zeros instead of signatures.
    #[cfg(feature = "stub-key")]
    #[must_use]
    pub const fn stub(kind: KeyKind) -> Self {
        Self { pair: Pair::Stub(kind), bits: 2048, pinned: None }
    }

    /// What kind the key is of.
    #[must_use]
    pub const fn kind(&self) -> KeyKind {
        match self.pair {
            #[cfg(feature = "stub-key")]
            Pair::Stub(kind) => kind,
            Pair::Rsa(_) => KeyKind::Rsa,
            Pair::Ed25519(_) => KeyKind::Ed25519,
            Pair::P256(_) => KeyKind::P256,
        }
    }

    /// The size: of the modulus for RSA, 256 otherwise.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// What the key signs with where no algorithm is asked for.
    #[must_use]
    pub fn default_algorithm(&self) -> Algorithm {
        self.pinned.unwrap_or(Algorithm::of(self.kind()))
    }

    /// The public half.
    ///
    /// # Errors
    /// `malformed_key` if aws-lc cannot give it, which a loaded key rules out.
    pub fn public_key(&self) -> Outcome<PublicKey> {
        let key = match &self.pair {
            Pair::Rsa(pair) => PublicKey::from_bytes(KeyType::Rsa, pair.public_key().as_ref(), MIN_RSA_BITS),
            Pair::Ed25519(pair) => PublicKey::from_bytes(KeyType::Ed25519, pair.public_key().as_ref(), MIN_RSA_BITS),
            Pair::P256(pair) => PublicKey::from_bytes(KeyType::P256, pair.public_key().as_ref(), MIN_RSA_BITS),
            #[cfg(feature = "stub-key")]
            Pair::Stub(_) => Err(malformed("a stub has no public key")),
        }?;
        match self.pinned {
            Some(algorithm) => key.pinned_to(algorithm),
            None => Ok(key),
        }
    }

    /// The key as PKCS#8 PEM: its only way out.
    ///
    /// # Errors
    /// `malformed_key` if aws-lc cannot write it, which a loaded key rules out.
    pub fn to_pem(&self) -> Outcome<Zeroizing<String>> {
        let failed = |_| malformed("the key cannot be written as PKCS#8");
        let der = match &self.pair {
            Pair::Rsa(pair) => Zeroizing::new(pair.as_der().map_err(failed)?.as_ref().to_vec()),
            // Version 1, which every reader knows; version 2 carries the public key too, and some refuse it.
            Pair::Ed25519(pair) => Zeroizing::new(pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec()),
            Pair::P256(pair) => Zeroizing::new(pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec()),
            #[cfg(feature = "stub-key")]
            Pair::Stub(_) => return Err(malformed("a stub has no key")),
        };
        Ok(pem::encode("PRIVATE KEY", &der))
    }

    /// The key as a secret multikey (FEP-521a).
    ///
    /// # Errors
    /// `unsupported_key` for another kind than Ed25519.
    pub fn to_multikey(&self) -> Outcome<Zeroizing<String>> {
        if let Pair::Ed25519(pair) = &self.pair {
            let seed =
                pair.seed().and_then(|seed| seed.as_be_bytes()).map_err(|_| malformed("the key gives no seed"))?;
            return Ok(multikey::ed25519_secret(seed.as_ref()));
        }
        Err(Refused::new(
            Reason::UnsupportedKey,
            format!("only an Ed25519 key is written as a multikey, not {}", self.kind()),
        ))
    }

    /// Signs data.
    ///
    /// # Errors
    /// `algorithm_mismatch` if the algorithm does not go with the key.
    pub fn sign(&self, algorithm: Algorithm, data: &[u8]) -> Outcome<Vec<u8>> {
        algorithm.check(self.kind(), self.pinned)?;
        let failed = |_| Refused::new(Reason::UnsupportedKey, "the key could not sign");
        match &self.pair {
            Pair::Rsa(pair) => {
                let padding: &'static dyn aws_lc_rs::signature::RsaEncoding =
                    if algorithm == Algorithm::RsaPssSha512 { &RSA_PSS_SHA512 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &SystemRandom::new(), data, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Pair::Ed25519(pair) => pair.try_sign(data).map(|signature| signature.as_ref().to_vec()).map_err(failed),
            #[cfg(feature = "stub-key")]
            Pair::Stub(kind) => Ok(vec![0; if *kind == KeyKind::Rsa { 256 } else { 64 }]),
            Pair::P256(pair) => {
                pair.sign(&SystemRandom::new(), data).map(|signature| signature.as_ref().to_vec()).map_err(failed)
            }
        }
    }
}

fn no_randomness() -> Refused {
    Refused::new(Reason::UnsupportedKey, "the system gave no random bytes to make a key from")
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("kind", &self.kind()).field("bits", &self.bits).finish_non_exhaustive()
    }
}
