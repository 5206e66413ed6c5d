// SPDX-License-Identifier: Apache-2.0
//! Followers collection synchronization (FEP-8fcf): digests of partial collections, and the header.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

use crate::cavage;
use crate::error::{Outcome, Reason, Refused, quoted};
use crate::target;

/// The digest of the followers of an actor that live on one instance. Kept as followers come and go: adding and
/// removing are the same operation, so each has to be told exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowersDigest {
    scheme: &'static str,
    authority: String,
    bytes: [u8; 32],
}

impl FollowersDigest {
    /// The digest of no followers, for the instance of a URL such as an inbox.
    ///
    /// # Errors
    /// `invalid_url`.
    pub fn new(instance: &str) -> Outcome<Self> {
        let (scheme, authority) = target::origin(instance)?;
        Ok(Self { scheme, authority: authority.into_owned(), bytes: [0; 32] })
    }

    /// A digest as it was kept, in hex.
    ///
    /// # Errors
    /// `invalid_url`, `invalid_param` for a text that is not 64 hex digits.
    pub fn resume(instance: &str, hex: &str) -> Outcome<Self> {
        let mut resumed = Self::new(instance)?;
        let wrong =
            || Refused::new(Reason::InvalidParam, format!("the digest {} is not one of 64 hex digits", quoted(hex)));
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        for (byte, index) in resumed.bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = hex.get(index..index + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong)?;
        }
        Ok(resumed)
    }

    /// Whether a follower lives on the instance: same scheme and authority.
    #[must_use]
    pub fn holds(&self, follower: &str) -> bool {
        target::origin(follower)
            .is_ok_and(|(scheme, authority)| scheme == self.scheme && authority == self.authority.as_str())
    }

    /// Adds a follower, or removes one that was added. Answers whether it lives on the instance; if not, nothing
    /// changes.
    pub fn toggle(&mut self, follower: &str) -> bool {
        let here = self.holds(follower);
        if here {
            for (byte, other) in self.bytes.iter_mut().zip(digest(&SHA256, follower.as_bytes()).as_ref()) {
                *byte ^= other;
            }
        }
        here
    }

    /// The digest in hex.
    #[must_use]
    pub fn hex(&self) -> String {
        let mut out = String::with_capacity(64);
        for byte in self.bytes {
            // Writing to a String does not fail.
            let _ = write!(out, "{byte:02x}");
        }
        out
    }
}

/// A `Collection-Synchronization` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionSync {
    /// The parameters in the order in which they stand; `collectionId`, `url` and `digest` are among them.
    pub params: Vec<(String, String)>,
}

impl CollectionSync {
    /// A header to send.
    ///
    /// # Errors
    /// `invalid_param` for a value that cannot stand between quotes, and for a digest that is not hex.
    pub fn new(collection_id: &str, url: &str, digest: &str) -> Outcome<Self> {
        for (name, value) in [("collectionId", collection_id), ("url", url), ("digest", digest)] {
            let fits = !value.is_empty()
                && value.len() <= 4096
                && value.bytes().all(|b| (0x21..=0x7e).contains(&b) && b != b'"' && b != b'\\');
            if !fits || (name == "digest" && !value.bytes().all(|b| b.is_ascii_hexdigit())) {
                return Err(Refused::new(
                    Reason::InvalidParam,
                    format!("the {name} {} cannot stand in a Collection-Synchronization header", quoted(value)),
                ));
            }
        }
        let params = [("collectionId", collection_id), ("url", url), ("digest", digest)];
        Ok(Self { params: params.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec() })
    }

    /// Reads a header that arrived. (Whether it was signed, the verifier says.)
    ///
    /// # Errors
    /// `malformed_signature`, `duplicate_param`, `missing_param`.
    pub fn parse(text: &str) -> Outcome<Self> {
        let raw = cavage::parse(text)?;
        for wanted in ["collectionId", "url", "digest"] {
            if !raw.iter().any(|(name, value)| *name == wanted && !value.is_empty()) {
                return Err(Refused::new(
                    Reason::MissingParam,
                    format!("the Collection-Synchronization header has no parameter {wanted}"),
                ));
            }
        }
        Ok(Self { params: raw.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect() })
    }

    /// A parameter.
    #[must_use]
    pub fn get(&self, wanted: &str) -> &str {
        self.params.iter().find(|(name, _)| name == wanted).map_or("", |(_, value)| value)
    }

    /// Checks a header against who sent it, as its receiver must: the collection is the sender's followers, and the URL
    /// is of the sender's authority, so that nobody is sent to ask a third party.
    ///
    /// # Errors
    /// `wrong_collection`, `wrong_authority`.
    pub fn check(&self, actor: Option<&str>, followers: Option<&str>) -> Outcome<()> {
        if followers.is_some_and(|followers| self.get("collectionId") != followers) {
            return Err(Refused::new(
                Reason::WrongCollection,
                format!("the collection {} is not the sender's followers", quoted(self.get("collectionId"))),
            ));
        }
        let Some(actor) = actor else { return Ok(()) };
        let same = match (target::origin(actor), target::origin(self.get("url"))) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        };
        if same {
            return Ok(());
        }
        Err(Refused::new(
            Reason::WrongAuthority,
            format!("the URL {} is not of the sender's authority", quoted(self.get("url"))),
        ))
    }

    /// The header's value.
    #[must_use]
    pub fn header(&self) -> String {
        let mut out = String::new();
        for (name, value) in &self.params {
            if !out.is_empty() {
                out.push_str(", ");
            }
            // Writing to a String does not fail.
            let _ = write!(out, "{name}=\"{value}\"");
        }
        out
    }
}
