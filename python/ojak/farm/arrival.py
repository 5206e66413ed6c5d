# SPDX-License-Identifier: Apache-2.0
"""One request as the ledger keeps it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

VERIFIED: Final = "verified"
"""The verdict of a request whose signature and digest were verified."""
UNASKED: Final = "unasked"
"""The verdict of a request to a host that looks at no signature."""


class Ending(StrEnum):
    """How an exchange ended, seen from the farm."""

    OPEN = "open"
    """Not yet."""
    ANSWERED = "answered"
    """By a whole answer."""
    LEFT = "left"
    """The sender closed the connection first."""
    CLOSED = "closed"
    """The host closed it, in order."""
    RESET = "reset"
    """The host reset it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request that arrived whole at an inbox.

    Attributes:
        seq: its place in the order of arrival over the whole farm, from 1.
        host: the host's name.
        inbox: the whole URL that it was sent to.
        activity: the `id` in the body; without one, `sha256:` and the body's digest in hex.
        body_sha256: of the body, in hex.
        scheme: cavage, rfc9421 or, unsigned, empty.
        key_id: the key that the signature names; empty when there is none.
        verdict: `verified`, `unasked`, or the reason why it is not verified.
        takes: whether the host takes that scheme; without a signature: whether it wants one.
        status: of the answer whose head was written whole; None: none was.
        ending: how it ended.
        arrived_s, ended_s: on the system's monotonic clock, which all processes of a machine share.
        arrived_at_s: seconds since the epoch.
        connection: a number for each connection.
        open_requests: how many requests were open at the host when this one was counted, itself included.
    """

    seq: int
    host: str
    inbox: str
    activity: str
    body_sha256: str
    scheme: str
    key_id: str
    verdict: str
    takes: bool
    status: int | None
    ending: Ending
    arrived_s: float
    arrived_at_s: float
    ended_s: float | None
    connection: int
    open_requests: int

    @property
    def accepted(self) -> bool:
        """Whether the sender was told that it was taken."""
        return self.status is not None and 200 <= self.status <= 299

    @property
    def unverified(self) -> bool:
        """Whether its signature or digest could not be verified, though the host takes that scheme (SPEC section 9)."""
        return self.takes and self.verdict not in (VERIFIED, UNASKED)
