// SPDX-License-Identifier: Apache-2.0
//! Verifying a message by whichever scheme it is signed with.

use crate::error::Outcome;
use crate::message::Message;
use crate::policy::{Policy, Resolve, Scheme, Verified};
use crate::{cavage, rfc9421};

/// Verifies a message. Without a scheme, one with a Signature-Input is by RFC 9421 and no other: a message whose
/// RFC 9421 signature fails does not get a second chance as another one.
///
/// # Errors
/// Any reason that fits.
pub fn verify<R: Resolve>(
    message: &Message<'_>,
    resolver: &mut R,
    policy: &Policy,
    now_s: i64,
    scheme: Option<Scheme>,
    label: Option<&str>,
) -> Outcome<Verified> {
    let scheme = scheme.unwrap_or_else(|| scheme_of(message));
    match scheme {
        Scheme::Cavage => cavage::verify(message, resolver, policy, now_s),
        Scheme::Rfc9421 => rfc9421::verify(message, resolver, policy, now_s, label),
    }
}

/// The scheme by which a message is signed, if it is signed at all.
#[must_use]
pub fn scheme_of(message: &Message<'_>) -> Scheme {
    if message.values("signature-input").next().is_some() { Scheme::Rfc9421 } else { Scheme::Cavage }
}
