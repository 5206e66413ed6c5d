# SPDX-License-Identifier: Apache-2.0
"""What a breaker is kept for, and what it answers when somebody wants to send."""

from dataclasses import dataclass, field
from enum import StrEnum


class BreakerScope(StrEnum):
    """What a breaker is kept for."""

    HOST = "host"
    """A host: its key is the authority. What waits for a quarantined host costs nothing while it waits."""
    INBOX = "inbox"
    """An inbox: its key is the canonical URL. Each delivery asks, and what is held is set aside, one write each."""


class Verdict(StrEnum):
    """What may be done now."""

    SEND = "send"
    HOLD = "hold"
    PROBE = "probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The right to try a half-open breaker. One delivery holds it.

    It is given back when its holder is done, fails to use it, or dies: a store lets go of one by itself when the
    seconds run out that it was asked for with.

    Attributes:
        key: what is tried: an authority, or an inbox.
        token: whatever the store keeps in it.
    """

    key: str
    token: object = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A breaker's answer: send, hold until, or probe.

    Times are seconds from now, since a store's clock is not its asker's.

    Attributes:
        verdict: what may be done now.
        hold_s: HOLD: for how many seconds nothing is sent.
        probe: PROBE: the right to try.
        one_at_a_time: SEND: it has just recovered; one delivery at a time.
        clean: SEND: nothing stands against it, so that its successes need not be recorded. A store that cannot tell
            leaves this False and hears of all of them.
        unavailable: it has been held at the longest for so long that deliveries to it are given up on at once, but
            the probes.
    """

    verdict: Verdict
    hold_s: float = 0.0
    probe: Probe | None = None
    one_at_a_time: bool = False
    clean: bool = False
    unavailable: bool = False


CLEAN = Admission(verdict=Verdict.SEND, clean=True)
"""The answer for what nothing is known against."""
