// SPDX-License-Identifier: Apache-2.0
//! Why something was refused: one word from a closed list, and a sentence for a person.

use std::borrow::Cow;
use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident => $word:literal,)+) => {
        /// The closed list of reasons. Callers branch on it; it only ever grows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $variant,)+
        }

        impl Reason {
            /// Every reason, in the order in which the documentation lists them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word under which the reason is known in Python, in logs and in the corpus.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}

reasons! {
    /// The message carries no signature of the scheme that was asked for.
    MissingSignature => "missing_signature",
    /// The signature's fields cannot be parsed.
    MalformedSignature => "malformed_signature",
    /// A parameter that has to be there is not.
    MissingParam => "missing_param",
    /// A parameter is given twice.
    DuplicateParam => "duplicate_param",
    /// An algorithm that is not known here.
    UnknownAlgorithm => "unknown_algorithm",
    /// The algorithm does not go with the key, or with what is covered.
    AlgorithmMismatch => "algorithm_mismatch",
    /// No key is known under the key id.
    UnknownKey => "unknown_key",
    /// The key cannot be parsed.
    MalformedKey => "malformed_key",
    /// The key is of a kind that is not used here.
    UnsupportedKey => "unsupported_key",
    /// The key is too small.
    WeakKey => "weak_key",
    /// The signature covers too little of the message.
    InsufficientCoverage => "insufficient_coverage",
    /// A covered component is not in the message.
    MissingComponent => "missing_component",
    /// A component identifier that is not allowed here.
    InvalidComponent => "invalid_component",
    /// A component is covered twice.
    DuplicateComponent => "duplicate_component",
    /// A component has more than one value where one is needed.
    AmbiguousComponent => "ambiguous_component",
    /// The label that was asked for is not there.
    LabelNotFound => "label_not_found",
    /// The signature's own end has passed.
    Expired => "expired",
    /// The signature is from the future.
    NotYetValid => "not_yet_valid",
    /// The signature is too old.
    Stale => "stale",
    /// The `Date` field cannot be parsed.
    MalformedDate => "malformed_date",
    /// There is no digest of the body.
    DigestMissing => "digest_missing",
    /// The digest field cannot be parsed.
    DigestMalformed => "digest_malformed",
    /// The digest field has no algorithm that is known here.
    DigestUnsupported => "digest_unsupported",
    /// The digest is not that of the body.
    DigestMismatch => "digest_mismatch",
    /// The signature is not that of the key over the message.
    SignatureMismatch => "signature_mismatch",
    /// A header field that cannot stand in a message, or too many of them.
    InvalidHeader => "invalid_header",
    /// A URL that cannot be the target of a request.
    InvalidUrl => "invalid_url",
    /// An argument that cannot stand in a signature.
    InvalidParam => "invalid_param",
    /// A structured field that cannot be parsed (RFC 8941).
    MalformedSf => "malformed_sf",
    /// A text that is not JSON, or not such as RFC 8785 can canonicalise.
    NotJson => "not_json",
    /// A JSON object with the same name twice.
    DuplicateKey => "duplicate_key",
    /// The document has no proof.
    ProofMissing => "proof_missing",
    /// The proof cannot be parsed.
    MalformedProof => "malformed_proof",
    /// The proof's cryptosuite is not `eddsa-jcs-2022`.
    UnsupportedCryptosuite => "unsupported_cryptosuite",
    /// The proof was made for another purpose.
    WrongPurpose => "wrong_purpose",
    /// The proof's context is not that of the document.
    ContextMismatch => "context_mismatch",
    /// The key does not belong to the actor who is named.
    KeyOwnerMismatch => "key_owner_mismatch",
    /// The URL is not of the authority that it should be of.
    WrongAuthority => "wrong_authority",
    /// The collection is not the one that it should be.
    WrongCollection => "wrong_collection",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something was refused.
///
/// `detail` is one sentence that says what it is and what is wanted. It holds names, numbers and the values of
/// identifiers, never a key, a signature or a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refused {
    /// The word to branch on.
    pub reason: Reason,
    /// The sentence to read.
    pub detail: Cow<'static, str>,
}

impl Refused {
    /// A refusal with a sentence that is known beforehand or was formatted.
    pub fn new(reason: Reason, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// What everything here that can refuse answers.
pub type Outcome<T> = Result<T, Refused>;

/// At most this many characters of a stranger's text stand in a sentence.
const QUOTED_CHARS: usize = 120;

/// A stranger's text as it may stand in a sentence: shortened, and with control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(QUOTED_CHARS) + 2);
    out.push('\'');
    for (count, c) in text.chars().enumerate() {
        if count == QUOTED_CHARS {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.push('\'');
    out
}
