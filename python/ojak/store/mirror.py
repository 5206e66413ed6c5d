# SPDX-License-Identifier: Apache-2.0
"""Breakers kept elsewhere, mirrored in the host records, so that holding costs no write a job there either.

The other store decides; the record shows until when it holds a host, and claims go by that. A host that is shown as
held is asked about again when its time has come.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pymongo import UpdateOne

from ojak.breaker.admission import Admission, BreakerScope, Probe, Verdict
from ojak.breaker.store import KEPT, BreakerResult, BreakerStore
from ojak.store.breakers import RECOMPUTED, forget_breakers
from ojak.store.database import Document, QueueDatabase
from ojak.store.now import EPOCH

_SHOWN: Final = "breaker"


class MirroredBreakers:
    """A store of hosts' breakers whose answers the host records show.

    Args:
        store: decides. Its scope is hosts.
        db: the queue.
    """

    def __init__(self, store: BreakerStore, db: QueueDatabase) -> None:
        self._store = store
        self._db = db
        # What is forgotten here is learnt again when its record is met.
        self._shown: OrderedDict[str, None] = OrderedDict()

    @property
    def scope(self) -> BreakerScope:
        """What the keys are."""
        return self._store.scope

    def learn_shown(self, key: str) -> None:
        """Take note that a host's record shows it as held; another process may have written that."""
        self._note_shown([key])

    async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
        """Say for each key what may be done now."""
        answers = await self._store.admit(keys, hold_s=hold_s)
        await self._show(dict(zip(keys, answers, strict=True)), probe_s=hold_s)
        return answers

    async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
        """Take in what attempts said."""
        answers = await self._store.record(results)
        await self._show({result.key: answer for result, answer in zip(results, answers, strict=True)}, probe_s=0.0)
        return answers

    async def renew(self, probes: Sequence[Probe], *, hold_s: float) -> None:
        """Hold probes for longer."""
        await self._store.renew(probes, hold_s=hold_s)
        await self._hold([probe.key for probe in probes], hold_s)

    async def give_back(self, probes: Sequence[Probe], *, after_s: float) -> None:
        """Take probes back that decided nothing."""
        await self._store.give_back(probes, after_s=after_s)
        await self._hold([probe.key for probe in probes], after_s)

    async def heard_from(self, key: str) -> bool:
        """Bring the probe of a key forward, once in each quarantine."""
        forward = await self._store.heard_from(key)
        if forward:
            await self._hold([key], 0.0)
        return forward

    async def _show(self, answers: Mapping[str, Admission], *, probe_s: float) -> None:
        held = {key: answer for key, answer in answers.items() if answer.verdict is not Verdict.SEND}
        # Most are sent to and nothing was shown of them: that costs no statement.
        over = [key for key in answers if key not in held and key in self._shown]
        if over:
            await forget_breakers(self._db, over)
            for key in over:
                self._shown.pop(key, None)
        if held:
            self._note_shown(held)
            updates = [self._showing(key, answer, probe_s) for key, answer in held.items()]
            await self._db.hosts.bulk_write(updates, ordered=False)

    def _note_shown(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._shown[key] = None
            self._shown.move_to_end(key)
        while len(self._shown) > KEPT:
            self._shown.popitem(last=False)

    def _showing(self, key: str, answer: Admission, probe_s: float) -> UpdateOne:
        shown: Document = {
            "open": True,
            "until": self._db.now.plus(probe_s if answer.verdict is Verdict.PROBE else answer.hold_s),
        }
        if answer.unavailable:
            shown["unavailable_at"] = EPOCH
        # Taken away first: setting a field to a document adds to the one that is there.
        return UpdateOne({"_id": key}, [{"$unset": _SHOWN}, {"$set": {_SHOWN: shown}}, *RECOMPUTED])

    async def _hold(self, keys: Sequence[str], seconds: float) -> None:
        # If the other store sees it otherwise, the next look asks it, and is told.
        await self._db.hosts.update_many(
            {"_id": {"$in": list(keys)}, f"{_SHOWN}.open": True},
            [{"$set": {f"{_SHOWN}.until": self._db.now.plus(seconds)}}, *RECOMPUTED],
        )
