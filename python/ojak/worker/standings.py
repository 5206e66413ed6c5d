# SPDX-License-Identifier: Apache-2.0
"""Standings: how hosts do, as this worker sees it between two writes of their records."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ojak.clock import Clock
from ojak.store.claim import ReadyHost
from ojak.store.hosts import HostNews
from ojak.worker.lanes import SLOW_MS

_KNOWN: Final = 4096
_WEIGHT: Final = 0.2
_REWRITTEN_AFTER_S: Final = 60.0


@dataclass(slots=True)
class _Standing:
    came_through: bool | None
    answer_ms: float | None
    scheme: str | None
    written_at_s: float


class Standings:
    """Whether hosts answer, how fast, and by which scheme. Bounded; what is forgotten stands in the host's record.

    A host's record is written when its standing changes, and else once a minute: a write a delivery would cost more
    than the delivery.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, _Standing] = OrderedDict()
        self._news: dict[str, HostNews] = {}

    def learn(self, host: ReadyHost) -> None:
        """Take over what a host's record says, unless this worker knows better already."""
        if host.authority not in self._known:
            self._keep(host.authority, _Standing(host.proven, host.answer_ms, host.scheme, self._clock.boot_s()))
        else:
            self._known.move_to_end(host.authority)
            pending = self._news.get(host.authority)
            if pending is None or pending.scheme is None:
                # The record is what everybody goes by, and what knows when a scheme is to be forgotten.
                self._known[host.authority].scheme = host.scheme

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

    def answer_ms(self, authority: str) -> float | None:
        """How long answers take, smoothed."""
        standing = self._known.get(authority)
        return standing.answer_ms if standing is not None else None

    def scheme(self, authority: str) -> str | None:
        """The scheme that the host is known to accept."""
        standing = self._known.get(authority)
        return standing.scheme if standing is not None else None

    def note(
        self,
        authority: str,
        *,
        came_through: bool,
        answer_ms: float | None,
        learnt_scheme: str | None = None,
        scheme_kept_s: float = 0.0,
        hold_s: float | None = None,
    ) -> None:
        """Take note of an attempt: whether an answer came, how long it took, and what a decisive pair showed."""
        standing = self._known.get(authority)
        if standing is None:
            standing = self._keep(authority, _Standing(None, None, None, 0.0))
        changed = standing.came_through is not came_through or learnt_scheme is not None or hold_s is not None
        standing.came_through = came_through
        if answer_ms is not None:
            standing.answer_ms = (
                answer_ms
                if standing.answer_ms is None
                else standing.answer_ms + _WEIGHT * (answer_ms - standing.answer_ms)
            )
        if learnt_scheme is not None:
            standing.scheme = learnt_scheme
        now_s = self._clock.boot_s()
        if changed or now_s - standing.written_at_s > _REWRITTEN_AFTER_S:
            standing.written_at_s = now_s
            self._add_news(
                HostNews(
                    authority=authority,
                    proven=came_through,
                    quick=self.proven(authority),
                    answer_ms=standing.answer_ms,
                    scheme=learnt_scheme,
                    scheme_kept_s=scheme_kept_s,
                    hold_s=hold_s,
                )
            )

    def _add_news(self, news: HostNews) -> None:
        """Put news of a host in the place of earlier ones, without losing a hold or a scheme that those hold."""
        earlier = self._news.get(news.authority)
        if earlier is not None:
            if news.scheme is None:
                news = replace(news, scheme=earlier.scheme, scheme_kept_s=earlier.scheme_kept_s)
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
