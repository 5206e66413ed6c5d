# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import Sequence

import pytest

from ojak import Deliverer, StoreError
from ojak.breaker.admission import CLEAN, Admission, BreakerScope, Probe
from ojak.breaker.bounded import BoundedBreakers
from ojak.breaker.store import BreakerResult, MemoryBreakers

PROBES = [Probe(key="h.test", token=b"t")]


class Redis:
    """A store whose server is away behind a firewall: nothing refuses, and nothing answers."""

    scope = BreakerScope.HOST

    def __init__(self) -> None:
        self.away = False

    async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
        await self._answer()
        return [CLEAN] * len(keys)

    async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
        await self._answer()
        return [CLEAN] * len(results)

    async def renew(self, probes: Sequence[Probe], *, hold_s: float) -> None:
        await self._answer()

    async def give_back(self, probes: Sequence[Probe], *, after_s: float) -> None:
        await self._answer()

    async def heard_from(self, key: str) -> bool:
        await self._answer()
        return True

    async def _answer(self) -> None:
        if self.away:
            await asyncio.Event().wait()


async def test_a_store_that_hangs_counts_as_one_that_raises():
    """Claims and slots wait for its answers: without an end, nothing would be sent to anybody."""
    redis = Redis()
    store = BoundedBreakers(redis, within_s=0.01)
    assert store.scope is BreakerScope.HOST
    assert await store.admit(["h.test"], hold_s=1) == [CLEAN]
    assert await store.record([]) == []
    assert await store.heard_from("h.test")
    await store.renew(PROBES, hold_s=1)
    await store.give_back(PROBES, after_s=1)
    redis.away = True
    for call in (
        store.admit(["h.test"], hold_s=1),
        store.record([]),
        store.renew(PROBES, hold_s=1),
        store.give_back(PROBES, after_s=1),
        store.heard_from("h.test"),
    ):
        with pytest.raises(TimeoutError):
            await call


async def test_answers_that_are_not_one_to_each_question_count_as_none():
    class Short(Redis):
        async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
            return [CLEAN]

        async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
            return [CLEAN]

    store = BoundedBreakers(Short())
    with pytest.raises(StoreError, match="breakers gave 1 answers to 2 questions"):
        await store.admit(["h.test", "g.test"], hold_s=1)
    with pytest.raises(StoreError, match="breakers gave 1 answers to 0 questions"):
        await store.record([])


class Derived(MemoryBreakers):
    """It may wait for something of its own."""


async def test_a_deliverer_bounds_an_applications_store_and_not_its_own():
    own = MemoryBreakers()
    for given, kind in (
        (Redis(), BoundedBreakers),
        (Derived(), BoundedBreakers),
        (own, MemoryBreakers),
        (None, MemoryBreakers),
        ("shared", str),
    ):
        deliverer = Deliverer("mongodb://127.0.0.1:1/", breakers=given)  # type: ignore[arg-type]
        assert isinstance(deliverer._breakers, kind)
        await deliverer.close()
