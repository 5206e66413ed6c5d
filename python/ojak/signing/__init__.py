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
from ojak.signing.caching import CachingSenderKeys
from ojak.signing.errors import KeyExists, KeyRefused, SignatureRefused
from ojak.signing.folder import FolderSenderKeys
from ojak.signing.keys import SenderKeyring, SenderKeys, SigningKey
from ojak.signing.scheme import Scheme

__all__ = [
    "REASONS",
    "BodyDigest",
    "CachingSenderKeys",
    "FolderSenderKeys",
    "KeyExists",
    "KeyRefused",
    "Policy",
    "PrivateKey",
    "PublicKey",
    "Scheme",
    "SenderKeyring",
    "SenderKeys",
    "SignatureRefused",
    "SigningKey",
    "Verified",
    "check_digest",
    "sign",
    "verify",
    "verify_raw",
]
