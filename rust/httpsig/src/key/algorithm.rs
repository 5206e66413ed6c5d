// SPDX-License-Identifier: Apache-2.0
//! Kinds of key, and the algorithms that go with each (RFC 9421 section 3.3).

use std::fmt;

use crate::error::{Outcome, Reason, Refused, quoted};

/// What kind a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// RSA.
    Rsa,
    /// Ed25519.
    Ed25519,
    /// ECDSA over P-256.
    P256,
}

impl KeyKind {
    /// The word for the kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rsa => "rsa",
            Self::Ed25519 => "ed25519",
            Self::P256 => "p256",
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256: what the fediverse uses.
    RsaV15Sha256,
    /// RSASSA-PSS with SHA-512.
    RsaPssSha512,
    /// ECDSA over P-256 with SHA-256, as 64 raw bytes.
    EcdsaP256Sha256,
    /// Ed25519.
    Ed25519,
}

impl Algorithm {
    /// The name in the registry of RFC 9421 section 6.2.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RsaV15Sha256 => "rsa-v1_5-sha256",
            Self::RsaPssSha512 => "rsa-pss-sha512",
            Self::EcdsaP256Sha256 => "ecdsa-p256-sha256",
            Self::Ed25519 => "ed25519",
        }
    }

    /// An algorithm by its name in the registry.
    ///
    /// # Errors
    /// `unknown_algorithm`.
    pub fn named(name: &str) -> Outcome<Self> {
        match name {
            "rsa-v1_5-sha256" => Ok(Self::RsaV15Sha256),
            "rsa-pss-sha512" => Ok(Self::RsaPssSha512),
            "ecdsa-p256-sha256" => Ok(Self::EcdsaP256Sha256),
            "ed25519" => Ok(Self::Ed25519),
            _ => Err(Refused::new(
                Reason::UnknownAlgorithm,
                format!(
                    "the algorithm {} is not known; rsa-v1_5-sha256, rsa-pss-sha512, ecdsa-p256-sha256 or ed25519 is \
                     wanted",
                    quoted(name)
                ),
            )),
        }
    }

    /// The kind of key that the algorithm needs.
    #[must_use]
    pub const fn kind(self) -> KeyKind {
        match self {
            Self::RsaV15Sha256 | Self::RsaPssSha512 => KeyKind::Rsa,
            Self::EcdsaP256Sha256 => KeyKind::P256,
            Self::Ed25519 => KeyKind::Ed25519,
        }
    }

    /// What a key of a kind means where no algorithm is named.
    #[must_use]
    pub const fn of(kind: KeyKind) -> Self {
        match kind {
            KeyKind::Rsa => Self::RsaV15Sha256,
            KeyKind::Ed25519 => Self::Ed25519,
            KeyKind::P256 => Self::EcdsaP256Sha256,
        }
    }

    /// Checks that a key can be used with the algorithm: right kind, and not pinned to another.
    ///
    /// # Errors
    /// `algorithm_mismatch`.
    pub fn check(self, kind: KeyKind, pinned: Option<Self>) -> Outcome<()> {
        if self.kind() != kind {
            return Err(Refused::new(
                Reason::AlgorithmMismatch,
                format!("the algorithm {self} does not go with a key of kind {kind}"),
            ));
        }
        match pinned {
            Some(only) if only != self => {
                Err(Refused::new(Reason::AlgorithmMismatch, format!("the key is for {only} only, not for {self}")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
