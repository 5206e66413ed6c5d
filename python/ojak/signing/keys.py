# SPDX-License-Identifier: Apache-2.0
"""A sender's signing keys, and where they come from (SPEC section 1, `SenderKeys`)."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ojak._ojak import PrivateKey
from ojak.signing.errors import KeyRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A private key and the id under which others find its public half."""

    key_id: str
    """The URL of the key, such as `https://example.social/users/alice#main-key`."""
    key: PrivateKey
    """The parsed key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderKeyring:
    """The keys of one sender: RSA, which every server reads, and Ed25519 if it has one.

    Raises:
        KeyRefused: a key is of another kind than its place (`unsupported_key`).
    """

    rsa: SigningKey
    """The RSA key."""
    ed25519: SigningKey | None = None
    """The Ed25519 key, if the sender has one."""

    def __post_init__(self) -> None:
        _check_kind(self.rsa, "rsa")
        if self.ed25519 is not None:
            _check_kind(self.ed25519, "ed25519")


def _check_kind(key: SigningKey, kind: str) -> None:
    # For callers that run without a type checker.
    if not isinstance(key, SigningKey) or not isinstance(key.key, PrivateKey):  # type: ignore[redundant-expr]
        raise KeyRefused(
            "unsupported_key", f"{kind} is a {type(key).__name__}; allowed is a SigningKey of a PrivateKey"
        )
    if key.key.kind != kind:
        raise KeyRefused(
            "unsupported_key", f"the key {key.key_id} is of kind {key.key.kind}; one of kind {kind} is wanted there"
        )


@runtime_checkable
class SenderKeys(Protocol):
    """Gives a sender's signing keys; the application implements it, or takes a ready-made one."""

    async def keys_of(self, sender: str) -> SenderKeyring:
        """Give the keys of a sender, by its id (the actor's URL).

        Raises:
            UnknownSender: there is none.
            KeyRefused: there is one, and it cannot be used.
        """
        ...
