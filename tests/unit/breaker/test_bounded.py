# SPDX-License-Identifier: Apache-2.0
import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest

from ojak import Deliverer, StoreError
from ojak.breaker.admission import CLEAN, Admission, BreakerScope, Probe, Verdict
from ojak.breaker.bounded import BoundedBreakers
from ojak.breaker.circuit import Signal
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


class Odd(Redis):
    """A store that answers with whatever it was told to."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
        return self.answer

    async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
        return self.answer


def held(**fields: Any) -> list[Admission]:
    return [Admission(verdict=Verdict.HOLD, **fields)]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        7,
        "send",
        {"h.test": CLEAN},
        [],
        [CLEAN, CLEAN],
        [None],
        ["send"],
        held(hold_s=math.nan),
        held(hold_s="7"),
        held(hold_s=None),
        held(hold_s=True),
        held(probe=7),
        [Admission(verdict="SEND")],  # type: ignore[arg-type]
        [Admission(verdict=None)],  # type: ignore[arg-type]
    ],
    ids=repr,
)
async def test_a_store_that_answers_nonsense_counts_as_one_that_raises(answer: Any):
    """Where breakers are kept for inboxes such an answer ended the run, or failed each attempt."""
    store = BoundedBreakers(Odd(answer))
    with pytest.raises(StoreError):
        await store.admit(["h.test"], hold_s=1)
    with pytest.raises(StoreError):
        await store.record([BreakerResult(key="h.test", signal=Signal.FAILURE, probe=None)])


@pytest.mark.parametrize(
    ("given_s", "kept_s"), [(math.inf, 315_360_000.0), (1e300, 315_360_000.0), (-5, 0.0), (7, 7.0), (0.3, 0.3)]
)
async def test_a_time_that_no_date_can_hold_is_ten_years(given_s: float, kept_s: float):
    (answer,) = await BoundedBreakers(Odd(held(hold_s=given_s))).admit(["h.test"], hold_s=1)
    assert (answer.verdict, answer.hold_s) == (Verdict.HOLD, kept_s)


async def test_a_verdict_may_be_its_text():
    (answer,) = await BoundedBreakers(Odd([Admission(verdict="hold", hold_s=7)])).admit(["h.test"], hold_s=1)  # type: ignore[arg-type]
    assert answer.verdict is Verdict.HOLD
