# SPDX-License-Identifier: Apache-2.0
"""Object integrity proofs by eddsa-jcs-2022 (FEP-8b32) over documents as Python holds them."""

import json
from collections.abc import Callable, Mapping

from ojak._ojak import PrivateKey, PublicKey, check_proof, hash_proof, make_proof
from ojak.signing.errors import SignatureRefused


def sign_document(
    document: Mapping[str, object], key: PrivateKey, *, verification_method: str, created: str
) -> dict[str, object]:
    """Make an integrity proof for a document, and give the document with it. The one handed in stays as it is.

    Args:
        document: an activity or object without a proof and without a linked data signature.
        key: an Ed25519 key.
        verification_method: the id of the key, such as `https://example.social/users/alice#ed25519-key`.
        created: the time, such as `2026-01-02T03:04:05Z`.

    Raises:
        SignatureRefused: `unsupported_key`, `invalid_param`, `not_json`. (FEP-8b32, vc-di-eddsa section 3.3.1)
    """
    proof = json.loads(make_proof(_text(document), key, verification_method, created))
    return {**document, "proof": proof}


def verify_document(
    document: Mapping[str, object], resolve: Callable[[str], tuple[PublicKey, str] | None], *, now_s: int
) -> str:
    """Check a document's integrity proof, and give the id of the key that made it. The document stays as it is.

    Args:
        document: an activity or object with one proof. A linked data signature beside it is left out.
        resolve: gives the key of a verification method and the id of the actor whose it is, or None.
        now_s: the time in seconds since 1970.

    Raises:
        SignatureRefused: `proof_missing`, `malformed_proof`, `unsupported_cryptosuite`, `wrong_purpose`,
            `context_mismatch`, `expired`, `unknown_key`, `unsupported_key`, `key_owner_mismatch`,
            `signature_mismatch` or `not_json`. (FEP-8b32, vc-di-eddsa section 3.3.2)
    """
    return check_proof(_text(document), resolve, now_s=now_s)


def proof_hash(document: Mapping[str, object]) -> bytes:
    """Give the 64 bytes that a document's proof signs. Raises as `verify_document` does."""
    return hash_proof(_text(document))


def _text(document: Mapping[str, object]) -> bytes:
    if not isinstance(document, Mapping):
        raise SignatureRefused("not_json", f"the document is a {type(document).__name__}; an object is wanted")
    try:
        return json.dumps(dict(document), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SignatureRefused("not_json", f"the document is not JSON: {error}") from error
