// SPDX-License-Identifier: Apache-2.0
//! As much of DER as tells what a key is: the wrappings of SPKI and PKCS#8, and the size of an RSA modulus.
//!
//! The keys themselves are parsed and checked by aws-lc; this reads what stands around them, strictly.

use crate::error::{Outcome, Reason, Refused};
use crate::key::pem::malformed;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const OID_RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
const OID_ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const OID_EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const OID_P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// What an AlgorithmIdentifier names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// rsaEncryption.
    Rsa,
    /// id-RSASSA-PSS: RSA, for PSS only (RFC 4055).
    RsaPss,
    /// Ed25519.
    Ed25519,
    /// ECDSA over P-256.
    P256,
}

/// What a PKCS#8 private key holds.
pub struct Pkcs8<'a> {
    /// The type of the key.
    pub key_type: KeyType,
    /// The key bytes.
    pub key: &'a [u8],
    /// The public key, which version 2 may carry.
    pub public: Option<&'a [u8]>,
}

struct Reader<'a>(&'a [u8]);

fn broken() -> Refused {
    malformed("the key's bytes are not the DER of a key: they are cut short, or of another form than the label says")
}

impl<'a> Reader<'a> {
    /// The contents of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Outcome<&'a [u8]> {
        let (found, rest) = self.0.split_first().ok_or_else(broken)?;
        if *found != tag {
            return Err(broken());
        }
        let (first, rest) = rest.split_first().ok_or_else(broken)?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            0x81 => {
                let (byte, rest) = rest.split_first().ok_or_else(broken)?;
                (usize::from(*byte), rest)
            }
            0x82 => {
                let (bytes, rest) = rest.split_first_chunk::<2>().ok_or_else(broken)?;
                (usize::from(u16::from_be_bytes(*bytes)), rest)
            }
            _ => return Err(broken()),
        };
        let minimal = match *first {
            0x81 => length > 0x7f,
            0x82 => length > 0xff,
            _ => true,
        };
        if !minimal || length > rest.len() {
            return Err(broken());
        }
        let (value, rest) = rest.split_at(length);
        self.0 = rest;
        Ok(value)
    }

    fn end(&self) -> Outcome<()> {
        if self.0.is_empty() { Ok(()) } else { Err(broken()) }
    }
}

/// The type and the key bytes of a SubjectPublicKeyInfo (RFC 5280).
pub fn spki(der: &[u8]) -> Outcome<(KeyType, &[u8])> {
    let mut outer = Reader(der);
    let mut inner = Reader(outer.take(SEQUENCE)?);
    outer.end()?;
    let key_type = algorithm(inner.take(SEQUENCE)?)?;
    let bits = inner.take(BIT_STRING)?;
    inner.end()?;
    match bits.split_first() {
        Some((0, key)) => Ok((key_type, key)),
        _ => Err(broken()),
    }
}

/// What a PKCS#8 PrivateKeyInfo holds (RFC 5958).
pub fn pkcs8(der: &[u8]) -> Outcome<Pkcs8<'_>> {
    let mut outer = Reader(der);
    let mut inner = Reader(outer.take(SEQUENCE)?);
    outer.end()?;
    if !matches!(inner.take(INTEGER)?, [0 | 1]) {
        return Err(broken());
    }
    let key_type = algorithm(inner.take(SEQUENCE)?)?;
    let key = inner.take(OCTET_STRING)?;
    if inner.0.first() == Some(&0xa0) {
        inner.take(0xa0)?;
    }
    let public = match inner.0.first() {
        Some(0x81) => Some(inner.take(0x81)?.split_first().filter(|(unused, _)| **unused == 0).ok_or_else(broken)?.1),
        _ => None,
    };
    inner.end()?;
    Ok(Pkcs8 { key_type, key, public })
}

/// The seed in the key bytes of an Ed25519 PKCS#8 (RFC 8410: an OCTET STRING in an OCTET STRING).
pub fn ed25519_seed(key: &[u8]) -> Outcome<&[u8]> {
    let mut reader = Reader(key);
    let seed = reader.take(OCTET_STRING)?;
    reader.end()?;
    Ok(seed)
}

fn algorithm(identifier: &[u8]) -> Outcome<KeyType> {
    let mut reader = Reader(identifier);
    let key_type = match reader.take(OID)? {
        OID_RSA => {
            // NULL; some leave it out.
            if !reader.0.is_empty() && !reader.take(NULL)?.is_empty() {
                return Err(broken());
            }
            KeyType::Rsa
        }
        // The parameters restrict the hash, and verifying names its own.
        OID_RSA_PSS => return Ok(KeyType::RsaPss),
        OID_ED25519 => KeyType::Ed25519,
        OID_EC if reader.take(OID).is_ok_and(|curve| curve == OID_P256) => KeyType::P256,
        _ => {
            return Err(Refused::new(
                Reason::UnsupportedKey,
                "the key is of a kind that is not used here; RSA, Ed25519 or (to verify) P-256 is wanted",
            ));
        }
    };
    reader.end()?;
    Ok(key_type)
}

/// The number of bits of the modulus of an RSAPublicKey (PKCS#1).
pub fn rsa_public_bits(der: &[u8]) -> Outcome<u32> {
    let mut outer = Reader(der);
    let mut inner = Reader(outer.take(SEQUENCE)?);
    outer.end()?;
    let modulus = inner.take(INTEGER)?;
    let exponent = inner.take(INTEGER)?;
    inner.end()?;
    if exponent.last().is_none_or(|last| last & 1 == 0) {
        return Err(broken());
    }
    integer_bits(modulus)
}

/// The number of bits of the modulus of an RSAPrivateKey (PKCS#1).
pub fn rsa_private_bits(der: &[u8]) -> Outcome<u32> {
    let mut outer = Reader(der);
    let mut inner = Reader(outer.take(SEQUENCE)?);
    outer.end()?;
    inner.take(INTEGER)?;
    integer_bits(inner.take(INTEGER)?)
}

fn integer_bits(bytes: &[u8]) -> Outcome<u32> {
    let significant = match bytes {
        [0, rest @ ..] => rest,
        other => other,
    };
    let first = significant.first().ok_or_else(broken)?;
    // A leading bit without a zero before it would be a negative number.
    if significant.len() == bytes.len() && *first & 0x80 != 0 {
        return Err(broken());
    }
    let bits = u32::try_from(significant.len()).map_err(|_| broken())? * 8;
    Ok(bits - first.leading_zeros())
}

/// A SubjectPublicKeyInfo around key bytes.
pub fn to_spki(key_type: KeyType, key: &[u8]) -> Vec<u8> {
    let identifier: &[&[u8]] = match key_type {
        KeyType::Rsa | KeyType::RsaPss => &[&value(OID, OID_RSA), &value(NULL, &[])],
        KeyType::Ed25519 => &[&value(OID, OID_ED25519)],
        KeyType::P256 => &[&value(OID, OID_EC), &value(OID, OID_P256)],
    };
    let identifier = value(SEQUENCE, &identifier.concat());
    let bits = value(BIT_STRING, &[&[0], key].concat());
    value(SEQUENCE, &[identifier, bits].concat())
}

fn value(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(contents.len() + 4);
    out.push(tag);
    let length = contents.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 0x80 => out.push(short),
        (Ok(byte), _) => out.extend([0x81, byte]),
        (_, Ok(word)) => {
            out.push(0x82);
            out.extend(word.to_be_bytes());
        }
        // Keys are far smaller than 64 KiB: what is longer was refused when it was read.
        _ => {}
    }
    out.extend(contents);
    out
}
