# SPDX-License-Identifier: Apache-2.0
"""Holding: which senders and inboxes are held, as one `run()` knows it, and what becomes of a job that meets one."""

import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ojak.clock import Clock
from ojak.model.hold import Hold, HoldKind, hold_id
from ojak.model.job import Job
from ojak.model.outcome import SettledOutcome
from ojak.store.aside import SetAside
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.holds import (
    GONE_FIRST_S,
    GONE_LATER_S,
    HoldRow,
    end_hold,
    holds_of,
    note_gone,
    standing_holds,
    take_turn,
)
from ojak.store.settle import Ended, without_attempt

_log = logging.getLogger("ojak.worker.holds")

GONE: Final = "status-410"
_NOTED_MAX: Final = 100_000


@dataclass(slots=True)
class _Known:
    """A hold, and until when on the clock for deadlines; `row` is None if it is not written yet."""

    hold: Hold
    until_s: float
    row: HoldRow | None = None


class Holding:
    """What is held. Without anything that is, a delivery costs two looks at empty tables.

    Args:
        db: the queue.
        clock: for how long holds last.
    """

    def __init__(self, *, db: QueueDatabase, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._senders: dict[str, _Known] = {}
        self._inboxes: dict[tuple[HoldKind, str], _Known] = {}
        self._epochs: Mapping[int, int] = {}

    @property
    def any(self) -> bool:
        """Whether anything is held, as far as is known here."""
        return bool(self._senders or self._inboxes)

    async def load(self) -> None:
        """Read what is held."""
        read_at_s = self._clock.boot_s()
        rows = await standing_holds(self._db)
        senders: dict[str, _Known] = {}
        inboxes: dict[tuple[HoldKind, str], _Known] = {}
        for row in rows:
            known = _known(row, read_at_s)
            if row.kind.of_sender:
                # A pause comes before a missing key: it is read first.
                senders.setdefault(row.of, known)
            else:
                inboxes[row.kind, row.of] = known
        self._senders, self._inboxes = senders, inboxes

    async def load_for(self, epochs: Mapping[int, int]) -> None:
        """Read what is held if these are not the shards it was last read for: their last owner may have held more."""
        if epochs != self._epochs:
            gained = not epochs.items() <= self._epochs.items()
            if gained:
                await self.load()
            self._epochs = dict(epochs)

    # What is held.

    def _sender(self, sender: str) -> _Known | None:
        known = self._senders.get(sender)
        if known is not None and self._clock.boot_s() >= known.until_s:
            del self._senders[sender]
            return None
        return known

    def is_paused(self, sender: str) -> bool:
        """Whether nothing is to be sent for a sender now."""
        return bool(self._senders) and self._sender(sender) is not None

    def behind(self, sender: str, inbox: str, scout: bytes | None) -> bytes | None:
        """The hold that a queued row is to be set aside behind, if there is one."""
        known = self._sender(sender)
        if known is None and self._inboxes:
            known = self._waiting_for(inbox, scout)
        return known.hold.id if known is not None else None

    def _waiting_for(self, inbox: str, scout: bytes | None) -> _Known | None:
        """The hold of an inbox that a job has to wait for; not one that is gone, and none that it is to try."""
        for kind in (HoldKind.GONE, HoldKind.QUARANTINE):
            known = self._inboxes.get((kind, inbox))
            if known is not None and self._clock.boot_s() < known.until_s and not _may_try(known, scout):
                return None if known.row is not None and known.row.gone else known
        return None

    def set_aside(self, job: Job) -> SetAside | None:
        """What becomes of a job that is not to begin now since its sender is held; None if it may."""
        known = self._sender(job.sender) if self._senders else None
        return self._aside(job, known) if known is not None else None

    async def enter(self, job: Job) -> Job | SetAside | Ended:
        """Before an attempt: the job, as it is to be tried; or what becomes of it without one."""
        if (aside := self.set_aside(job)) is not None:
            return aside
        if job.scout is not None:
            await self._read(job.inbox)
        if (known := self._waiting_for(job.inbox, job.scout)) is not None:
            return self._aside(job, known)
        gone = self._inboxes.get((HoldKind.GONE, job.inbox))
        if gone is None or _tries(gone, job.scout):
            return job
        if gone.row is None or self._clock.boot_s() >= gone.until_s:
            await self._read(job.inbox)
            gone = self._inboxes.get((HoldKind.GONE, job.inbox))
            if gone is None or gone.row is None:
                return job
        if self._clock.boot_s() >= gone.until_s:
            again_s = GONE_LATER_S if gone.row.gone else GONE_FIRST_S
            asked_at_s = self._clock.boot_s()
            ours = await take_turn(self._db, gone.row, for_s=again_s)
            gone.until_s = asked_at_s + again_s
            if ours:
                return replace(job, scout=gone.row.mark)
        if gone.row.gone:
            return without_attempt(job, SettledOutcome.HOST_GONE, "inbox-gone")
        return self._aside(job, gone)

    def _aside(self, job: Job, known: _Known) -> SetAside:
        # One that is not written yet is written with what is set aside behind it.
        hold = replace(known.hold, for_s=max(0.0, known.until_s - self._clock.boot_s()))
        return SetAside(job=job, hold=hold, stands=known.row is not None, reason=hold.reason)

    async def _read(self, inbox: str) -> None:
        """Read what holds an inbox: its time has come, or somebody else may have changed it."""
        read_at_s = self._clock.boot_s()
        kinds = {hold_id(kind, inbox): kind for kind in HoldKind if not kind.of_sender}
        rows = await holds_of(self._db, kinds)
        for row_id, kind in kinds.items():
            row = rows.get(row_id)
            if row is None or row.over:
                self._inboxes.pop((kind, inbox), None)
            else:
                self._inboxes[kind, inbox] = _known(row, read_at_s)

    def tries_gone(self, job: Job) -> bool:
        """Whether a job is the one that tries an inbox which answered 410 before."""
        known = self._inboxes.get((HoldKind.GONE, job.inbox))
        return known is not None and _tries(known, job.scout)

    # What is learnt.

    def note(self, hold: Hold) -> None:
        """Keep to a hold from now on that is about to be written."""
        if len(self._senders) + len(self._inboxes) >= _NOTED_MAX:
            return
        known = _Known(hold, self._clock.boot_s() + (hold.for_s or 0.0))
        if hold.kind.of_sender:
            self._senders.setdefault(hold.of, known)
        else:
            earlier = self._inboxes.get((hold.kind, hold.of))
            known.row = earlier.row if earlier is not None else None
            self._inboxes[hold.kind, hold.of] = known

    def learnt(self, job: Job, outcome: object) -> Coroutine[Any, Any, None] | None:
        """What is to be done about holds after an attempt, or None."""
        if isinstance(outcome, SetAside) and not outcome.stands:
            self.note(outcome.hold)
            return None
        if not self._inboxes or not isinstance(outcome, Ended):
            return None
        gone = self._inboxes.get((HoldKind.GONE, job.inbox))
        if outcome.outcome is SettledOutcome.HOST_GONE and gone is not None and gone.row is not None and outcome.spent:
            gone.until_s = self._clock.boot_s() + GONE_LATER_S
            gone.row = replace(gone.row, gone=True)
            return self._write(note_gone(self._db, gone.row.id, gone.row.mark))
        if outcome.outcome is SettledOutcome.DELIVERED:
            keys = [(kind, job.inbox) for kind in HoldKind if (kind, job.inbox) in self._inboxes]
            return self._end([self._inboxes.pop(key).hold for key in keys]) if keys else None
        return None

    async def _end(self, holds: list[Hold]) -> None:
        for hold in holds:
            await self._write(end_hold(self._db, hold.id))

    async def _write(self, writing: Coroutine[Any, Any, object]) -> None:
        try:
            await writing
        except DatabaseTrouble as error:
            # It stands as before, and is tried again when its time has come.
            _log.warning("a hold was not changed", extra={"error": type(error).__name__})


def _known(row: HoldRow, read_at_s: float) -> _Known:
    return _Known(Hold(kind=row.kind, of=row.of, reason=row.reason, for_s=None), read_at_s + max(0.0, row.left_s), row)


def _may_try(known: _Known, scout: bytes | None) -> bool:
    """Whether a job is to try a hold, as far as is known: of one that was noted here its mark is not."""
    return scout is not None and (known.row is None or known.row.mark == scout)


def _tries(known: _Known, scout: bytes | None) -> bool:
    return scout is not None and known.row is not None and known.row.mark == scout
