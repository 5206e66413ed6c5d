# SPDX-License-Identifier: Apache-2.0
"""A store of breakers that answers in time: one that hangs would hold slots and claims; one that raises does not."""

import asyncio
from collections.abc import Sequence
from typing import Final

from ojak.breaker.admission import Admission, BreakerScope, Probe
from ojak.breaker.store import BreakerResult, BreakerStore
from ojak.errors import StoreError

ANSWER_S: Final = 5.0
"""What takes longer counts as a call that raised."""


class BoundedBreakers:
    """An application's store, each call of which ends within 5 s, or raises TimeoutError.

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


def _one_each(answers: Sequence[Admission], asked: int) -> Sequence[Admission]:
    if len(answers) != asked:
        raise StoreError(f"breakers gave {len(answers)} answers to {asked} questions; allowed is one to each")
    return answers
