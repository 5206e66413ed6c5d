// SPDX-License-Identifier: Apache-2.0
//! Multikey (FEP-521a): a multibase text, in base58btc, of a multicodec prefix and key bytes.

use zeroize::Zeroizing;

use crate::error::{Outcome, Reason, Refused};
use crate::key::pem::malformed;

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Enough for an RSA public key of 8192 bits.
const MAX_TEXT_BYTES: usize = 2 * 1024;

const ED25519_PUBLIC: &[u8] = &[0xed, 0x01];
const ED25519_SECRET: &[u8] = &[0x80, 0x26];
const RSA_PUBLIC: &[u8] = &[0x85, 0x24];

/// What a multikey holds.
pub enum Multikey {
    /// The bytes of an Ed25519 public key.
    Ed25519Public([u8; 32]),
    /// The seed of an Ed25519 private key.
    Ed25519Secret(Zeroizing<[u8; 32]>),
    /// The RSAPublicKey (PKCS#1) of an RSA public key.
    RsaPublic(Vec<u8>),
}

/// Reads a multikey.
///
/// # Errors
/// `malformed_key`, `unsupported_key`.
pub fn decode(text: &str) -> Outcome<Multikey> {
    let bytes = multibase(text)?;
    let exactly = |key: &[u8]| -> Outcome<[u8; 32]> {
        key.try_into().map_err(|_| malformed(format!("an Ed25519 key has 32 bytes; this multikey holds {}", key.len())))
    };
    if let Some(key) = bytes.strip_prefix(ED25519_PUBLIC) {
        Ok(Multikey::Ed25519Public(exactly(key)?))
    } else if let Some(seed) = bytes.strip_prefix(ED25519_SECRET) {
        Ok(Multikey::Ed25519Secret(Zeroizing::new(exactly(seed)?)))
    } else if let Some(key) = bytes.strip_prefix(RSA_PUBLIC) {
        Ok(Multikey::RsaPublic(key.to_vec()))
    } else {
        Err(Refused::new(Reason::UnsupportedKey, "the multikey is not one of Ed25519 or RSA"))
    }
}

/// An Ed25519 public key as a multikey.
pub fn ed25519_public(key: &[u8]) -> String {
    base58_multibase(&[ED25519_PUBLIC, key].concat())
}

/// An Ed25519 seed as a multikey.
pub fn ed25519_secret(seed: &[u8]) -> Zeroizing<String> {
    let bytes = Zeroizing::new([ED25519_SECRET, seed].concat());
    Zeroizing::new(base58_multibase(&bytes))
}

/// Decodes a multibase text of base58btc (`z`), the only alphabet that FEP-521a and eddsa-jcs-2022 allow.
///
/// # Errors
/// `malformed_key`.
pub fn multibase(text: &str) -> Outcome<Zeroizing<Vec<u8>>> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(malformed(format!(
            "the multibase text has {} characters; at most {MAX_TEXT_BYTES} are read",
            text.len()
        )));
    }
    let digits = text.strip_prefix('z').ok_or_else(|| malformed("a multibase text of base58btc begins with z"))?;
    base58(digits).ok_or_else(|| malformed("the multibase text has a character that is not of base58btc"))
}

fn base58(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    // Little-endian bytes of the number read so far.
    let mut number: Zeroizing<Vec<u8>> = Zeroizing::new(Vec::with_capacity(text.len()));
    for digit in text.bytes() {
        let mut carry = u32::try_from(ALPHABET.iter().position(|known| *known == digit)?).ok()?;
        for byte in number.iter_mut() {
            carry += u32::from(*byte) * 58;
            *byte = u8::try_from(carry & 0xff).ok()?;
            carry >>= 8;
        }
        while carry > 0 {
            number.push(u8::try_from(carry & 0xff).ok()?);
            carry >>= 8;
        }
    }
    let zeros = text.bytes().take_while(|digit| *digit == b'1').count();
    number.extend(std::iter::repeat_n(0, zeros));
    number.reverse();
    Some(number)
}

/// Encodes bytes as base58btc with the multibase prefix `z`.
pub fn base58_multibase(bytes: &[u8]) -> String {
    let mut digits: Zeroizing<Vec<u8>> = Zeroizing::new(Vec::with_capacity(bytes.len() * 2));
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in digits.iter_mut() {
            carry += u32::from(*digit) << 8;
            *digit = u8::try_from(carry % 58).unwrap_or(0);
            carry /= 58;
        }
        while carry > 0 {
            digits.push(u8::try_from(carry % 58).unwrap_or(0));
            carry /= 58;
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let mut out = String::with_capacity(digits.len() + zeros + 1);
    out.push('z');
    out.extend(std::iter::repeat_n('1', zeros));
    out.extend(digits.iter().rev().filter_map(|digit| ALPHABET.get(usize::from(*digit)).map(|c| char::from(*c))));
    out
}
