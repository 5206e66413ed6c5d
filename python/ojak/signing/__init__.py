# SPDX-License-Identifier: Apache-2.0
"""Keys, digests and HTTP signatures, made and verified in Rust (SPEC section 6)."""

from ojak._ojak import (
    REASONS,
    BodyDigest,
    CollectionSync,
    FollowersDigest,
    Message,
    Policy,
    PrivateKey,
    PublicKey,
    Target,
    Verified,
    canonical_json,
    cavage_base,
    check_digest,
    parse_cavage,
    parse_signature_input,
    parse_target,
    rfc9421_base,
    sign,
    sign_cavage,
    sign_rfc9421,
    verify,
    verify_message,
    verify_raw,
)
from ojak.signing.caching import CachingSenderKeys
from ojak.signing.errors import KeyExists, KeyRefused, KeysOutOfReach, SignatureRefused
from ojak.signing.folder import FolderSenderKeys
from ojak.signing.keys import SenderKeyring, SenderKeys, SigningKey
from ojak.signing.loading import load_key
from ojak.signing.proof import proof_hash, sign_document, verify_document
from ojak.signing.scheme import Scheme

__all__ = [
    "REASONS",
    "BodyDigest",
    "CachingSenderKeys",
    "CollectionSync",
    "FolderSenderKeys",
    "FollowersDigest",
    "KeyExists",
    "KeyRefused",
    "KeysOutOfReach",
    "Message",
    "Policy",
    "PrivateKey",
    "PublicKey",
    "Scheme",
    "SenderKeyring",
    "SenderKeys",
    "SignatureRefused",
    "SigningKey",
    "Target",
    "Verified",
    "canonical_json",
    "cavage_base",
    "check_digest",
    "load_key",
    "parse_cavage",
    "parse_signature_input",
    "parse_target",
    "proof_hash",
    "rfc9421_base",
    "sign",
    "sign_cavage",
    "sign_document",
    "sign_rfc9421",
    "verify",
    "verify_document",
    "verify_message",
    "verify_raw",
]
