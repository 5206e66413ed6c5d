# SPDX-License-Identifier: Apache-2.0
"""Every store of breakers, with a clock that the test turns."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ojak.breaker.admission import BreakerScope
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerStore, MemoryBreakers
from ojak.clock import ManualClock
from ojak.model.job import Priority
from ojak.store.breakers import MongoBreakers
from ojak.store.database import QueueDatabase
from ojak.store.hosts import Due, lower_due
from ojak.store.mirror import MirroredBreakers
from ojak.store.now import Now

RULES = CircuitBreaker(threshold=3, first_s=100, longest_s=700, recovery=2, unavailable_after_s=5000)
KEYS = ("h.test", "g.test", "i.test")
START = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass
class World:
    store: BreakerStore
    turn: Callable[[float], None]


class Kinds:
    """Makes the stores; each has a clock of its own that stands still."""

    def __init__(self, db: QueueDatabase) -> None:
        self.db = QueueDatabase(db.client, db.name, now=Now(START))

    async def make(self, kind: str) -> World:
        clock = ManualClock()

        def turn(seconds: float) -> None:
            clock.turn(seconds)
            if kind == "memory":
                return
            moment = self.db.now.literal
            assert moment is not None
            self.db.now.turn(moment + timedelta(seconds=seconds))

        await lower_due(self.db, [Due(authority=key, priority=Priority.SMALL) for key in KEYS])
        store: Any
        if kind == "memory":
            store = MemoryBreakers(RULES, clock=clock)
        elif kind == "mirrored":
            store = MirroredBreakers(MemoryBreakers(RULES, clock=clock), self.db)
        else:
            store = MongoBreakers(self.db, replace(RULES, scope=BreakerScope(kind)), holder=b"w" * 16)
        return World(store=store, turn=turn)


@pytest.fixture
def kinds(db: QueueDatabase) -> Kinds:
    return Kinds(db)


@pytest.fixture(params=["memory", "mirrored", "host", "inbox"])
async def world(kinds: Kinds, request: pytest.FixtureRequest) -> World:
    return await kinds.make(request.param)
