# SPDX-License-Identifier: Apache-2.0
"""Our own outage is not the world's (SPEC section 4): told by the failures of hosts that answered a while ago."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Protocol

from ojak.clock import Clock

_KNOWN: Final = 8192
"""So many hosts are remembered at most as having answered; an outage shows in far fewer."""
_SAME_S: Final = 1.0
"""Answers of a host that follow each other as soon as this are one: a busy host gives hundreds a second."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageTally:
    """What one process, or all of a machine, has seen of good hosts.

    Attributes:
        tried: how many were tried lately.
        failed: how many of those failed by network.
        back: how many answered since the outage began, if there is one.
        known: how many there are.
    """

    tried: int = 0
    failed: int = 0
    back: int = 0
    known: int = 0


class OutageTallies(Protocol):
    """Where the processes of one machine put their tallies together. No host is tried by two at a time."""

    @property
    def turns(self) -> int:
        """How often an outage began or ended; odd while there is one."""
        ...

    def turn(self, seen: int) -> None:
        """Begin or end an outage, unless somebody did since `seen`."""
        ...

    def post(self, tally: OutageTally) -> None:
        """Say what this process has seen, in place of what it said before."""
        ...

    def total(self) -> OutageTally:
        """What all of them have seen."""
        ...


class OwnTallies:
    """The tallies of a process that is alone."""

    def __init__(self) -> None:
        self.turns = 0
        self._tally = OutageTally()

    def turn(self, seen: int) -> None:
        """Begin or end an outage."""
        self.turns = seen + 1

    def post(self, tally: OutageTally) -> None:
        """Say what this process has seen."""
        self._tally = tally

    def total(self) -> OutageTally:
        """What it has seen."""
        return self._tally


class OutageDetector:
    """Told of each attempt, says whether this machine is cut off.

    Only hosts that answered lately count: a thousand dead hosts tried at once say nothing about us. An answer is any
    HTTP answer, whatever its status; a failure is one of the network: names, connections, TLS, time.

    Args:
        clock: tells the time.
        rules: what is taken for an outage.
        tallies: where the processes of this machine count together; by default this one counts alone.
    """

    def __init__(self, *, clock: Clock, rules: OutageRules | None = None, tallies: OutageTallies | None = None) -> None:
        self._clock = clock
        self._rules = rules or OutageRules()
        self._tallies = tallies or OwnTallies()
        self._answered: OrderedDict[str, float] = OrderedDict()
        # The last try of each good host, the oldest first: when, and whether it failed.
        self._tried: OrderedDict[str, tuple[float, bool]] = OrderedDict()
        self._failed = 0
        self._back: set[str] = set()
        self._turns = self._tallies.turns

    @property
    def frozen(self) -> bool:
        """Whether breakers and attempt counters stand still: what fails now says nothing about hosts."""
        return self._tallies.turns % 2 == 1

    def answered(self, host: str) -> None:
        """A host answered."""
        now_s = self._clock.boot_s()
        if now_s - self._answered.get(host, -math.inf) < _SAME_S and self._is_noted_good(host):
            return
        was_good = self._is_good(host, now_s)
        self._answered[host] = now_s
        self._answered.move_to_end(host)
        if len(self._answered) > _KNOWN:
            self._answered.popitem(last=False)
        self._keep_up()
        if self.frozen:
            self._back.add(host)
            self._post()
            self._end_if_over()
        elif was_good:
            self._note(host, now_s, failed=False)

    def unreachable(self, host: str, *, known: bool = False) -> None:
        """A host failed by network; `known`: it is known from elsewhere to have answered lately."""
        now_s = self._clock.boot_s()
        self._keep_up()
        if known and host not in self._answered:
            # At the end of the line: it was good before this process began, and nobody knows when.
            self._answered[host] = now_s
            self._answered.move_to_end(host, last=False)
        if self.frozen or not self._is_good(host, now_s):
            return
        self._note(host, now_s, failed=True)
        self._post()
        total = self._tallies.total()
        if total.tried >= self._rules.hosts and total.failed >= self._rules.failed * total.tried:
            self._tallies.turn(self._turns)
            self._keep_up()

    def beat(self) -> None:
        """Say what there is to say; once a second, so that the others know that it still holds."""
        now_s = self._clock.boot_s()
        while self._answered and not self._is_good(next(iter(self._answered)), now_s):
            self._answered.popitem(last=False)
        self._keep_up()
        self._forget_old(now_s)
        self._post()
        if self.frozen:
            self._end_if_over()

    def _end_if_over(self) -> None:
        total = self._tallies.total()
        # Where fewer are left that could answer, all of them are enough: else nothing would ever end it.
        if total.back >= min(self._rules.back_after, total.known):
            self._tallies.turn(self._turns)
            self._keep_up()

    def good_hosts(self, limit: int) -> list[str]:
        """The hosts to try the network with, those that answered last first."""
        now_s = self._clock.boot_s()
        newest = [name for name in reversed(self._answered) if self._is_good(name, now_s)]
        return newest[:limit]

    def _keep_up(self) -> None:
        """Begin anew if an outage began or ended since the last look, whoever saw that."""
        if self._tallies.turns != self._turns:
            self._turns = self._tallies.turns
            self._back.clear()
            self._tried.clear()
            self._failed = 0
            self._post()

    def _post(self) -> None:
        self._tallies.post(
            OutageTally(tried=len(self._tried), failed=self._failed, back=len(self._back), known=len(self._answered))
        )

    def _is_noted_good(self, host: str) -> bool:
        """Whether its last try was an answer, and no outage began or ended since."""
        tried = self._tried.get(host)
        return tried is not None and not tried[1] and self._turns % 2 == 0 and self._tallies.turns == self._turns

    def _is_good(self, host: str, now_s: float) -> bool:
        answered_at_s = self._answered.get(host)
        return answered_at_s is not None and now_s - answered_at_s <= self._rules.good_for_s

    def _note(self, host: str, now_s: float, *, failed: bool) -> None:
        self._forget(host)
        self._tried[host] = (now_s, failed)
        self._failed += failed
        self._forget_old(now_s)

    def _forget_old(self, now_s: float) -> None:
        while self._tried and now_s - next(iter(self._tried.values()))[0] > self._rules.within_s:
            self._forget(next(iter(self._tried)))

    def _forget(self, host: str) -> None:
        before = self._tried.pop(host, None)
        self._failed -= before is not None and before[1]
