// SPDX-License-Identifier: Apache-2.0
//! Digests of a body: `Digest` (RFC 3230, as the fediverse uses it) and `Content-Digest` (RFC 9530).

use aws_lc_rs::{constant_time, digest as hash};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sfv::Version;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::message::trim_ows;
use crate::sf::{self, Bare, Value};

/// A digest algorithm that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// SHA-256, the one that every server reads.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl DigestAlgorithm {
    /// An algorithm by its name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("sha-256") {
            Some(Self::Sha256)
        } else if name.eq_ignore_ascii_case("sha-512") {
            Some(Self::Sha512)
        } else {
            None
        }
    }

    const fn digest_name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Sha512 => "SHA-512",
        }
    }

    const fn content_digest_name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha-256",
            Self::Sha512 => "sha-512",
        }
    }

    fn hash(self, body: &[u8]) -> hash::Digest {
        let algorithm = match self {
            Self::Sha256 => &hash::SHA256,
            Self::Sha512 => &hash::SHA512,
        };
        hash::digest(algorithm, body)
    }
}

/// The digest fields of one body, computed once and used for each attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyDigest {
    /// The value of `Digest`, such as `SHA-256=…` (exactly one algorithm by default: some servers compare each part).
    pub digest: String,
    /// The value of `Content-Digest`, such as `sha-256=:…:`.
    pub content_digest: String,
}

impl BodyDigest {
    /// SHA-256 of a body, as every server reads it.
    #[must_use]
    pub fn new(body: &[u8]) -> Self {
        Self::with(body, &[DigestAlgorithm::Sha256])
    }

    /// Digests of a body by several algorithms, in the order given.
    #[must_use]
    pub fn with(body: &[u8], algorithms: &[DigestAlgorithm]) -> Self {
        let (mut digest, mut content_digest) = (String::new(), String::new());
        for algorithm in algorithms {
            let encoded = STANDARD.encode(algorithm.hash(body));
            if !digest.is_empty() {
                digest.push(',');
                content_digest.push_str(", ");
            }
            digest.push_str(algorithm.digest_name());
            digest.push('=');
            digest.push_str(&encoded);
            content_digest.push_str(algorithm.content_digest_name());
            content_digest.push_str("=:");
            content_digest.push_str(&encoded);
            content_digest.push(':');
        }
        Self { digest, content_digest }
    }
}

/// The hashes of a body, each computed at most once however often a field names it.
struct Hashes<'b> {
    body: &'b [u8],
    known: Vec<(DigestAlgorithm, hash::Digest)>,
}

impl<'b> Hashes<'b> {
    const fn of(body: &'b [u8]) -> Self {
        Self { body, known: Vec::new() }
    }

    fn get(&mut self, algorithm: DigestAlgorithm) -> hash::Digest {
        if let Some((_, digest)) = self.known.iter().find(|(known, _)| *known == algorithm) {
            return *digest;
        }
        let digest = algorithm.hash(self.body);
        self.known.push((algorithm, digest));
        digest
    }
}

/// Checks a `Digest` field against a body. Every algorithm that is known has to match, and one has to be known.
///
/// # Errors
/// `digest_malformed`, `digest_unsupported`, `digest_mismatch`.
pub fn check_digest(value: &str, body: &[u8]) -> Outcome<()> {
    let mut hashes = Hashes::of(body);
    // A list may have empty elements (RFC 9110 section 5.6.1.2).
    for part in value.split(',').map(trim_ows).filter(|part| !part.is_empty()) {
        let Some((name, encoded)) = part.split_once('=') else {
            return Err(malformed("Digest", part));
        };
        if let Some(algorithm) = DigestAlgorithm::named(name) {
            let claimed = STANDARD.decode(encoded).map_err(|_| malformed("Digest", part))?;
            compare("Digest", algorithm, &claimed, &hashes.get(algorithm))?;
        }
    }
    if hashes.known.is_empty() { Err(unsupported("Digest")) } else { Ok(()) }
}

/// Checks a `Content-Digest` field against a body. Every algorithm that is known has to match, and one has to be known.
///
/// # Errors
/// `digest_malformed`, `digest_unsupported`, `digest_mismatch`.
pub fn check_content_digest(value: &str, body: &[u8]) -> Outcome<()> {
    let members = sf::dictionary(value, Version::Rfc8941).map_err(|_| malformed("Content-Digest", value))?;
    let mut known = false;
    for (index, member) in members.iter().enumerate() {
        let Some(algorithm) = DigestAlgorithm::named(member.key) else { continue };
        // RFC 8941 lets the last of equal keys win; a message in which they differ is not one to guess about.
        if members.iter().skip(index + 1).any(|other| other.key == member.key) {
            return Err(malformed("Content-Digest", value));
        }
        let Value::Item(item) = &member.value else { return Err(malformed("Content-Digest", value)) };
        let Bare::ByteSequence(claimed) = &item.bare else { return Err(malformed("Content-Digest", value)) };
        compare("Content-Digest", algorithm, claimed, &algorithm.hash(body))?;
        known = true;
    }
    if known { Ok(()) } else { Err(unsupported("Content-Digest")) }
}

fn compare(field: &str, algorithm: DigestAlgorithm, claimed: &[u8], actual: &hash::Digest) -> Outcome<()> {
    let name = algorithm.content_digest_name();
    if claimed.len() != actual.as_ref().len() {
        return Err(Refused::new(
            Reason::DigestMalformed,
            format!("the {field} has {} bytes under {name}; {} are wanted", claimed.len(), actual.as_ref().len()),
        ));
    }
    constant_time::verify_slices_are_equal(claimed, actual.as_ref())
        .map_err(|_| Refused::new(Reason::DigestMismatch, format!("the {field} under {name} is not that of the body")))
}

fn malformed(field: &str, part: &str) -> Refused {
    let wanted = if field == "Digest" { "SHA-256=<base64>" } else { "sha-256=:<base64>:" };
    Refused::new(Reason::DigestMalformed, format!("the {field} {} is not of the form {wanted}", quoted(part)))
}

fn unsupported(field: &str) -> Refused {
    Refused::new(
        Reason::DigestUnsupported,
        format!("the {field} has no algorithm that is known; sha-256 or sha-512 is wanted"),
    )
}
