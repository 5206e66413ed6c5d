# SPDX-License-Identifier: Apache-2.0
"""Keys, digests and HTTP signatures, made and verified in Rust (SPEC section 6)."""

from ojak._ojak import (
    REASONS,
    BodyDigest,
    Policy,
    PrivateKey,
    PublicKey,
    Verified,
    check_digest,
    sign,
    verify,
    verify_raw,
)
from ojak.signing.errors import KeyRefused, SignatureRefused
from ojak.signing.scheme import Scheme

__all__ = [
    "REASONS",
    "BodyDigest",
    "KeyRefused",
    "Policy",
    "PrivateKey",
    "PublicKey",
    "Scheme",
    "SignatureRefused",
    "Verified",
    "check_digest",
    "sign",
    "verify",
    "verify_raw",
]
