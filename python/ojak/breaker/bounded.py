# SPDX-License-Identifier: Apache-2.0
"""A store of breakers that answers in time, and what can be understood: anything else counts as a call that raised."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ojak.breaker.admission import Admission, BreakerScope, Probe, Verdict
from ojak.breaker.store import BreakerResult, BreakerStore
from ojak.errors import StoreError

ANSWER_S: Final = 5.0
"""What takes longer counts as a call that raised."""
_LONGEST_S: Final = 10 * 365 * 86_400.0
"""What is held for ever is asked about again after ten years; no date of the database lies further ahead for sure."""


class BoundedBreakers:
    """An application's store, each call of which ends within 5 s, or raises TimeoutError.

    What it answers is looked at, since it comes from elsewhere: one that is no answer ends no worker.

    Args:
        store: decides.
        within_s: how long a call may take.
    """

    def __init__(self, store: BreakerStore, *, within_s: float = ANSWER_S) -> None:
        self._store = store
        self._within_s = within_s

    @property
    def scope(self) -> BreakerScope:
        """What the keys are."""
        return self._store.scope

    async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
        """Say for each key what may be done now."""
        async with asyncio.timeout(self._within_s):
            return _one_each(await self._store.admit(keys, hold_s=hold_s), len(keys))

    async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
        """Take in what attempts said."""
        async with asyncio.timeout(self._within_s):
            return _one_each(await self._store.record(results), len(results))

    async def renew(self, probes: Sequence[Probe], *, hold_s: float) -> None:
        """Hold probes for longer."""
        async with asyncio.timeout(self._within_s):
            await self._store.renew(probes, hold_s=hold_s)

    async def give_back(self, probes: Sequence[Probe], *, after_s: float) -> None:
        """Take probes back that decided nothing."""
        async with asyncio.timeout(self._within_s):
            await self._store.give_back(probes, after_s=after_s)

    async def heard_from(self, key: str) -> bool:
        """Bring the probe of a key forward, once in each quarantine."""
        async with asyncio.timeout(self._within_s):
            return await self._store.heard_from(key)


def _one_each(answers: object, asked: int) -> list[Admission]:
    """What a store answered, with times that can be kept.

    Raises:
        StoreError: it is not one answer to each question.
    """
    if not isinstance(answers, list | tuple):
        raise StoreError(f"breakers gave a {type(answers).__name__}; allowed is a list of Admission")
    if len(answers) != asked:
        raise StoreError(f"breakers gave {len(answers)} answers to {asked} questions; allowed is one to each")
    return [_understood(answer) for answer in answers]


def _understood(answer: object) -> Admission:
    if not isinstance(answer, Admission):
        raise StoreError(f"breakers gave a {type(answer).__name__}; allowed is an Admission")
    if not isinstance(answer.probe, Probe | None):
        raise StoreError(f"breakers gave a {type(answer.probe).__name__} as probe; allowed is a Probe, or None")
    if not isinstance(answer.verdict, Verdict):
        # Its text is as good.
        if answer.verdict not in list(Verdict):  # type: ignore[unreachable]
            raise StoreError(f"breakers gave a {type(answer.verdict).__name__} as verdict; allowed is a Verdict")
        answer = replace(answer, verdict=Verdict(answer.verdict))
    if answer.verdict is not Verdict.HOLD:
        return answer
    hold_s: object = answer.hold_s
    if isinstance(hold_s, bool) or not isinstance(hold_s, int | float) or math.isnan(hold_s):
        raise StoreError("breakers hold for no time that is a number; allowed are seconds")
    return replace(answer, hold_s=float(min(max(hold_s, 0.0), _LONGEST_S)))
