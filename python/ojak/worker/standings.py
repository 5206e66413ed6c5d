# SPDX-License-Identifier: Apache-2.0
"""Standings: how hosts do, as this worker sees it between two writes of their records."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ojak.clock import Clock
from ojak.model.host import NO_OVERRIDES, HostOverrides
from ojak.signing import Scheme
from ojak.store.claim import ReadyHost
from ojak.store.hosts import HostNews
from ojak.worker.host_limit import HostLimit, LimitRules
from ojak.worker.lanes import SLOW_MS
from ojak.worker.scheme_memory import FIRM_S, SchemeMemory, SchemeShown

_KNOWN: Final = 4096
_WEIGHT: Final = 0.2
_REWRITTEN_AFTER_S: Final = 60.0


@dataclass(slots=True)
class _Standing:
    came_through: bool | None
    answer_ms: float | None
    scheme: SchemeMemory
    limit: HostLimit
    written_at_s: float
    lately: bool = False


_SCHEMES: Final = {str(scheme): scheme for scheme in Scheme}


def _memory_of(host: ReadyHost) -> SchemeMemory:
    return SchemeMemory(scheme=_SCHEMES.get(host.scheme or ""), firm=host.scheme_firm)


class Standings:
    """Whether hosts answer, how fast, and by which scheme. Bounded; what is forgotten stands in the host's record.

    A host's record is written when its standing changes, and else once a minute: a write a delivery would cost more
    than the delivery.
    """

    def __init__(self, clock: Clock, *, per_host: int = 2, rules: LimitRules | None = None) -> None:
        self._clock = clock
        self._per_host = per_host
        self._rules = rules or LimitRules()
        self._known: OrderedDict[str, _Standing] = OrderedDict()
        # Apart, since none may be forgotten while its host is sent to; an operator sets few.
        self._overrides: dict[str, HostOverrides] = {}
        self._news: dict[str, HostNews] = {}

    def learn(self, host: ReadyHost) -> None:
        """Take over what a host's record says, unless this worker knows better already."""
        self.override(host.authority, host.overrides)
        if host.authority not in self._known:
            limit, now_s = HostLimit.of(self._allowed(host.authority), host.narrowed_to), self._clock.boot_s()
            standing = _Standing(host.proven, host.answer_ms, _memory_of(host), limit, now_s, host.lately)
            self._keep(host.authority, standing)
        else:
            self._known.move_to_end(host.authority)
            pending = self._news.get(host.authority)
            if pending is None or pending.scheme is None:
                # The record is what everybody goes by, and what knows when a scheme is to be forgotten.
                self._known[host.authority].scheme = _memory_of(host)

    def override(self, authority: str, overrides: HostOverrides) -> None:
        """Take note of what an operator has set for a host."""
        if overrides != NO_OVERRIDES:
            self._overrides[authority] = overrides
        elif self._overrides:
            self._overrides.pop(authority, None)
        standing = self._known.get(authority)
        if standing is not None:
            standing.limit = standing.limit.with_allowed(self._allowed(authority))

    def _allowed(self, authority: str) -> int:
        return self.overrides(authority).per_host or self._per_host

    def slots(self, authority: str) -> int:
        """How many requests a host may have open, by what is allowed it and how it answers."""
        standing = self._known.get(authority)
        return standing.limit.now if standing is not None else self._allowed(authority)

    def overrides(self, authority: str) -> HostOverrides:
        """What an operator has set for a host."""
        return self._overrides.get(authority, NO_OVERRIDES)

    def _keep(self, authority: str, standing: _Standing) -> _Standing:
        self._known[authority] = standing
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return standing

    def proven(self, authority: str) -> bool:
        """Whether the last attempt came through and answers are quick."""
        standing = self._known.get(authority)
        return (
            standing is not None
            and standing.came_through is True
            and (standing.answer_ms is None or standing.answer_ms <= SLOW_MS)
        )

    def answered_lately(self, authority: str) -> bool:
        """Whether the host's record said, when it was first read here, that it had answered lately. Said once."""
        standing = self._known.get(authority)
        if standing is None or not standing.lately:
            return False
        standing.lately = False
        return True

    def answer_ms(self, authority: str) -> float | None:
        """How long answers take, smoothed."""
        standing = self._known.get(authority)
        return standing.answer_ms if standing is not None else None

    def scheme(self, authority: str) -> Scheme | None:
        """The scheme that the host is known to accept."""
        standing = self._known.get(authority)
        return standing.scheme.scheme if standing is not None else None

    def note(
        self,
        authority: str,
        *,
        came_through: bool,
        answer_ms: float | None,
        took_ms: float = 0.0,
        told_to_wait: bool = False,
        shown: SchemeShown | None = None,
        scheme_kept_s: float = 0.0,
        hold_s: float | None = None,
    ) -> None:
        """Take note of an attempt.

        Args:
            authority: the host.
            came_through: whether it gave a final answer.
            answer_ms: how long its answer took, None if none came.
            took_ms: how long was waited for one, with or without success.
            told_to_wait: whether it answered that there are too many requests.
            shown: what it showed of the scheme that the host takes.
            scheme_kept_s: how long that is remembered.
            hold_s: for how long it asked for no more requests.
        """
        standing = self._known.get(authority)
        if standing is None:
            limit = HostLimit.of(self._allowed(authority))
            standing = self._keep(authority, _Standing(None, None, SchemeMemory(), limit, 0.0))
        memory = standing.scheme.after(shown)
        learnt = memory if memory is not standing.scheme else None
        changed = standing.came_through is not came_through or learnt is not None or hold_s is not None
        # An attempt that was given up on early, a refused connection for one, says nothing of the host's pace.
        if answer_ms is not None or took_ms > self._rules.slow_ms:
            before = standing.limit
            standing.limit = before.after(took_ms=took_ms, told_to_wait=told_to_wait, rules=self._rules)
            changed = changed or standing.limit.now != before.now
        standing.came_through = came_through
        if answer_ms is not None:
            standing.answer_ms = (
                answer_ms
                if standing.answer_ms is None
                else standing.answer_ms + _WEIGHT * (answer_ms - standing.answer_ms)
            )
        standing.scheme = memory
        now_s = self._clock.boot_s()
        if changed or now_s - standing.written_at_s > _REWRITTEN_AFTER_S:
            standing.written_at_s = now_s
            self._add_news(
                HostNews(
                    authority=authority,
                    proven=came_through,
                    quick=self.proven(authority),
                    answer_ms=standing.answer_ms,
                    narrowed_to=standing.limit.narrowed_to,
                    scheme=learnt.scheme if learnt is not None else None,
                    scheme_kept_s=scheme_kept_s,
                    scheme_firm_s=FIRM_S if learnt is not None and learnt.firm else 0.0,
                    hold_s=hold_s,
                )
            )

    def _add_news(self, news: HostNews) -> None:
        """Put news of a host in the place of earlier ones, without losing a hold or a scheme that those hold."""
        earlier = self._news.get(news.authority)
        if earlier is not None:
            if news.scheme is None:
                news = replace(
                    news,
                    scheme=earlier.scheme,
                    scheme_kept_s=earlier.scheme_kept_s,
                    scheme_firm_s=earlier.scheme_firm_s,
                )
            if earlier.hold_s is not None:
                news = replace(news, hold_s=max(earlier.hold_s, news.hold_s or 0.0))
        self._news[news.authority] = news

    def take_news(self) -> list[HostNews]:
        """What is to be written down of hosts since the last call."""
        news = list(self._news.values())
        self._news.clear()
        return news

    def put_back(self, news: Iterable[HostNews]) -> None:
        """Take back what could not be written: a hold or a scheme does not come again with the next attempt."""
        for item in news:
            later = self._news.pop(item.authority, None)
            self._add_news(item)
            if later is not None:
                self._add_news(later)
