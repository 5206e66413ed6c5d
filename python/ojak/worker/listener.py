# SPDX-License-Identifier: Apache-2.0
"""The listener: hears wake-ups, and wakes what each is about."""

from collections.abc import Callable, Mapping
from contextlib import aclosing

from ojak.model.job import Priority
from ojak.store.database import QueueDatabase
from ojak.store.wakeups import listen
from ojak.worker.claimer import Claimer
from ojak.worker.kinds import Kinds
from ojak.worker.loops import pause
from ojak.worker.outbox import OutboxLoop
from ojak.worker.ownership import Ownership
from ojak.worker.telling import Telling

_AGAIN_S = 0.2


class Listener:
    """Tails the wake-ups.

    Args:
        db: the queue.
        ownership: which shards are ours, and who shares the queue.
        claimers: one for each line.
        kinds: other kinds of job.
        outbox: what applications committed.
        telling: whether anybody wants to be told.
        on_notice: called when there may be a notice.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        ownership: Ownership,
        claimers: Mapping[Priority, Claimer],
        kinds: Kinds,
        outbox: OutboxLoop,
        telling: Telling,
        on_notice: Callable[[], None],
    ) -> None:
        self._db = db
        self._ownership = ownership
        self._claimers = claimers
        self._kinds = kinds
        self._outbox = outbox
        self._telling = telling
        self._on_notice = on_notice

    async def step(self) -> None:
        """Hear wake-ups for as long as the tail lives."""
        async with aclosing(listen(self._db)) as wakeups:
            async for wake_up in wakeups:
                if wake_up.cancel:
                    self._on_notice()
                elif wake_up.kinds:
                    self._kinds.wake(wake_up.kinds)
                elif wake_up.outbox:
                    self._outbox.hint()
                elif wake_up.telling:
                    self._telling.look()
                elif not wake_up.shards:
                    self._ownership.look()
                elif not wake_up.shards.isdisjoint(self._ownership.epochs):
                    self._claimers[Priority.SMALL if wake_up.small else Priority.FANOUT].wake()
        # The tail ended without an error: it fell behind, or the collection was made anew.
        await pause(_AGAIN_S)
