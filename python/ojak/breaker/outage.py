# SPDX-License-Identifier: Apache-2.0
"""Our own outage is not the world's (SPEC section 4): told by the failures of hosts that answered a while ago."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from ojak.clock import Clock

_KNOWN: Final = 8192
"""So many hosts are remembered at most as having answered; an outage shows in far fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageRules:
    """What is taken for an outage of our own.

    Attributes:
        hosts: so many good hosts have to have been tried.
        within_s: within this time.
        failed: this share of those tried failed by network.
        good_for_s: a host is good for so long after an answer.
        back_after: the outage is over when so many good hosts answered.
    """

    hosts: int = 10
    within_s: float = 60.0
    failed: float = 0.8
    good_for_s: float = 6 * 3600.0
    back_after: int = 3


class OutageDetector:
    """Told of each attempt, says whether this machine is cut off.

    Only hosts that answered lately count: a thousand dead hosts tried at once say nothing about us. An answer is any
    HTTP answer, whatever its status; a failure is one of the network: names, connections, TLS, time.

    Args:
        clock: tells the time.
        rules: what is taken for an outage.
    """

    def __init__(self, *, clock: Clock, rules: OutageRules | None = None) -> None:
        self._clock = clock
        self._rules = rules or OutageRules()
        self._answered: OrderedDict[str, float] = OrderedDict()
        # The last try of each good host, the oldest first: when, and whether it failed.
        self._tried: OrderedDict[str, tuple[float, bool]] = OrderedDict()
        self._failed = 0
        self._back: set[str] | None = None

    @property
    def frozen(self) -> bool:
        """Whether breakers and attempt counters stand still: what fails now says nothing about hosts."""
        return self._back is not None

    def answered(self, authority: str) -> None:
        """A host answered."""
        now_s = self._clock.boot_s()
        was_good = self._is_good(authority, now_s)
        self._answered[authority] = now_s
        self._answered.move_to_end(authority)
        if len(self._answered) > _KNOWN:
            self._answered.popitem(last=False)
        if self._back is not None:
            self._back.add(authority)
            if len(self._back) >= self._rules.back_after:
                self._back = None
                self._tried.clear()
                self._failed = 0
        elif was_good:
            self._note(authority, now_s, failed=False)

    def unreachable(self, authority: str) -> None:
        """A host failed by network."""
        now_s = self._clock.boot_s()
        if self._back is not None or not self._is_good(authority, now_s):
            return
        self._note(authority, now_s, failed=True)
        tried = len(self._tried)
        if tried >= self._rules.hosts and self._failed >= self._rules.failed * tried:
            self._back = set()

    def good_hosts(self, limit: int) -> list[str]:
        """The hosts to try the network with, those that answered last first."""
        now_s = self._clock.boot_s()
        newest = [name for name in reversed(self._answered) if self._is_good(name, now_s)]
        return newest[:limit]

    def _is_good(self, authority: str, now_s: float) -> bool:
        answered_at_s = self._answered.get(authority)
        return answered_at_s is not None and now_s - answered_at_s <= self._rules.good_for_s

    def _note(self, authority: str, now_s: float, *, failed: bool) -> None:
        self._forget(authority)
        self._tried[authority] = (now_s, failed)
        self._failed += failed
        while self._tried and now_s - next(iter(self._tried.values()))[0] > self._rules.within_s:
            self._forget(next(iter(self._tried)))

    def _forget(self, authority: str) -> None:
        before = self._tried.pop(authority, None)
        self._failed -= before is not None and before[1]
