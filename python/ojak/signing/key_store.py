# SPDX-License-Identifier: Apache-2.0
"""`KeyStore`: a source of senders' keys that can also be changed, as the command line does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ojak.signing.keys import SenderKeyring, SenderKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSender:
    """A sender that has keys: its id, and whether they are to go once nothing of it waits."""

    sender: str
    retired: bool


class KeyStore(SenderKeys, Protocol):
    """Keeps senders' keys: a folder, or a collection."""

    @property
    def where(self) -> str:
        """The folder or the collection, for people."""
        ...

    async def make(self, sender: str, *, rsa_bits: int, replace: bool) -> SenderKeyring:
        """Make a pair of keys for a sender and keep it.

        Raises:
            KeyExists: it has keys already, and `replace` is not set.
        """
        ...

    async def senders(self) -> Sequence[KnownSender]:
        """Every sender that has keys, in order."""
        ...

    async def retire(self, sender: str) -> None:
        """Note that a sender's keys are to go. They are given on until they are removed.

        Raises:
            UnknownSender: it has none.
        """
        ...

    async def remove(self, sender: str) -> None:
        """Remove a sender's keys for good."""
        ...

    async def close(self) -> None:
        """Let go of what it holds open."""
        ...
