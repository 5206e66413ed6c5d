// SPDX-License-Identifier: Apache-2.0
//! What a verifier demands, and what it answers.

use crate::digest::{check_content_digest, check_digest};
use crate::error::{Outcome, Reason, Refused, quoted};
use crate::key::{Algorithm, KeyKind, MIN_RSA_BITS, PublicKey};
use crate::message::{Message, Start};

/// How a signature is laid into a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// draft-cavage-http-signatures-12.
    Cavage,
    /// RFC 9421.
    Rfc9421,
}

impl Scheme {
    /// The word for the scheme.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cavage => "cavage",
            Self::Rfc9421 => "rfc9421",
        }
    }

    /// A scheme by its word.
    ///
    /// # Errors
    /// `invalid_param`.
    pub fn named(name: &str) -> Outcome<Self> {
        match name {
            "cavage" => Ok(Self::Cavage),
            "rfc9421" => Ok(Self::Rfc9421),
            _ => Err(Refused::new(
                Reason::InvalidParam,
                format!("the scheme {} is not known; cavage or rfc9421 is allowed", quoted(name)),
            )),
        }
    }
}

/// What a signature has to cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Nothing: cryptography and syntax only, for tests of a specification's own examples.
    Nothing,
    /// What an inbox needs: method, target, host, time, and the digest of a body.
    ActivityPub,
}

/// What a verifier demands. The default is that of an inbox, with the ages of Mastodon's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The fewest bits of an RSA key; 1024 has to be asked for.
    pub min_rsa_bits: u32,
    /// How far clocks may be apart, in seconds.
    pub max_skew_s: i64,
    /// How old a signature may be, in seconds, before the skew is added; `None` for any age.
    pub max_age_s: Option<i64>,
    /// Whether a GET may be signed without its query, as some servers do. Tried only after the full target failed.
    pub queryless: bool,
    /// What has to be covered.
    pub coverage: Coverage,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            min_rsa_bits: MIN_RSA_BITS,
            max_skew_s: 3600,
            max_age_s: Some(12 * 3600),
            queryless: false,
            coverage: Coverage::ActivityPub,
        }
    }
}

/// A signature that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The id of the key.
    pub key_id: String,
    /// How the signature was laid into the message.
    pub scheme: Scheme,
    /// What it was made with.
    pub algorithm: Algorithm,
    /// Its label (RFC 9421).
    pub label: Option<String>,
    /// What it covers: names for cavage, component identifiers as they stand for RFC 9421.
    pub covered: Vec<String>,
    /// Whether the query was left out of what was signed (`Policy::queryless`).
    pub queryless: bool,
}

impl Verified {
    /// The algorithm by the name that its scheme has for it.
    #[must_use]
    pub const fn algorithm_name(&self) -> &'static str {
        match (self.scheme, self.algorithm) {
            (Scheme::Cavage, Algorithm::RsaV15Sha256) => "rsa-sha256",
            (_, algorithm) => algorithm.as_str(),
        }
    }
}

/// Finds the key of a key id; `None` if there is none. It may refuse, and that is then what the verifier answers.
pub trait Resolve {
    /// A handle to a key.
    type Key: AsRef<PublicKey>;

    /// The key of a key id.
    ///
    /// # Errors
    /// What is wrong with the key.
    fn resolve(&mut self, key_id: &str) -> Outcome<Option<Self::Key>>;
}

impl Policy {
    /// Finds a key and checks that it is large enough.
    pub(crate) fn key<R: Resolve>(&self, resolver: &mut R, key_id: &str) -> Outcome<R::Key> {
        let found = resolver.resolve(key_id)?.ok_or_else(|| {
            Refused::new(Reason::UnknownKey, format!("no key is known under the id {}", quoted(key_id)))
        })?;
        let key = found.as_ref();
        if key.kind() == KeyKind::Rsa && key.bits() < self.min_rsa_bits {
            return Err(Refused::new(
                Reason::WeakKey,
                format!("the RSA key has {} bits; at least {} are wanted", key.bits(), self.min_rsa_bits),
            ));
        }
        Ok(found)
    }

    /// Checks when a signature was made and until when it is good.
    pub(crate) fn check_time(&self, made_s: Option<i64>, expires_s: Option<i64>, now_s: i64) -> Outcome<()> {
        if let Some(expires_s) = expires_s
            && expires_s < now_s.saturating_sub(self.max_skew_s)
        {
            return Err(Refused::new(
                Reason::Expired,
                format!("the signature was good until {expires_s}, which is more than {} s ago", self.max_skew_s),
            ));
        }
        let Some(made_s) = made_s else { return Ok(()) };
        if made_s > now_s.saturating_add(self.max_skew_s) {
            return Err(Refused::new(
                Reason::NotYetValid,
                format!("the signature was made at {made_s}, which is more than {} s ahead", self.max_skew_s),
            ));
        }
        if let Some(max_age_s) = self.max_age_s
            && made_s < now_s.saturating_sub(max_age_s).saturating_sub(self.max_skew_s)
        {
            return Err(Refused::new(
                Reason::Stale,
                format!(
                    "the signature was made at {made_s}, more than {max_age_s} s and {} s of skew ago",
                    self.max_skew_s
                ),
            ));
        }
        Ok(())
    }
}

/// The refusal of a signature that covers too little.
pub(crate) fn uncovered(what: &str) -> Refused {
    Refused::new(Reason::InsufficientCoverage, format!("the signature does not cover {what}"))
}

/// Checks that the one Host field is that of the URL. A signature over another host was made for another server, or
/// for another one of this machine.
pub(crate) fn check_host(message: &Message<'_>) -> Outcome<()> {
    let Start::Request { target, .. } = &message.start else { return Ok(()) };
    let mut hosts = message.values("host");
    let Some(host) = hosts.next() else { return Ok(()) };
    if hosts.next().is_some() {
        return Err(Refused::new(Reason::InvalidHeader, "the request has more than one Host field"));
    }
    if target.is_authority(host) {
        return Ok(());
    }
    Err(Refused::new(
        Reason::WrongAuthority,
        format!("the Host {} is not that of the URL, {}", quoted(host), quoted(&target.authority)),
    ))
}

/// Compares a covered digest field with the body. A response without a body is taken as one of no bytes.
pub(crate) fn check_body(message: &Message<'_>, field: &str) -> Outcome<()> {
    let value = message
        .joined(field)
        .ok_or_else(|| Refused::new(Reason::DigestMissing, format!("the message has no {field} field")))?;
    let body = message.body.unwrap_or_default();
    if field == "digest" { check_digest(&value, body) } else { check_content_digest(&value, body) }
}
