# SPDX-License-Identifier: Apache-2.0
"""`Hold`: what keeps a sender or an inbox back; `SenderPause`: a sender's, as an operator sees it (SPEC section 3)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256


class HoldKind(StrEnum):
    """What holds."""

    PAUSE = "pause"
    """An operator paused a sender."""
    KEY = "key"
    """A sender has no key that can be used."""
    GONE = "gone"
    """A shared inbox answered 410."""
    QUARANTINE = "quarantine"
    """The breaker of an inbox is open, where breakers are kept for inboxes."""

    @property
    def of_sender(self) -> bool:
        """Whether it holds a sender; else it holds an inbox."""
        return self in (HoldKind.PAUSE, HoldKind.KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """That a sender or an inbox is held from now on.

    Attributes:
        kind: what holds.
        of: the sender's id, or the canonical inbox.
        reason: a word of the closed list in docs/outcomes.md, with which deliveries are set aside.
        for_s: for how many seconds; None: until somebody ends it.
        by: who did it, if a person did.
    """

    kind: HoldKind
    of: str
    reason: str
    for_s: float | None
    by: str | None = None

    @property
    def id(self) -> bytes:
        """16 bytes that name the hold of this kind on this sender or inbox: there is one at a time."""
        return hold_id(self.kind, self.of)


def hold_id(kind: HoldKind, of: str) -> bytes:
    """The id of the hold of a kind on a sender or inbox."""
    return sha256(f"{kind.value}\0{of}".encode()).digest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderPause:
    """A sender that nothing is sent for.

    Attributes:
        sender: its id.
        reason: `paused` by an operator; `key-missing`, `key-broken` or `key-source-failed`: it cannot sign.
        since: since when.
        until: when it ends by itself, or the key is asked for again; None: when somebody resumes it.
        by: who paused it, or None.
        waiting: how many deliveries were set aside for it so far.
    """

    sender: str
    reason: str
    since: datetime
    until: datetime | None
    by: str | None
    waiting: int
