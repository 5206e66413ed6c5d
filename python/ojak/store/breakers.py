# SPDX-License-Identifier: Apache-2.0
"""Breakers in the queue's database: in the host records, or by inbox in a collection of their own (rule F).

A breaker is read, taken on by the state machine, and written back where nobody wrote it meanwhile: each write gives it
a new `rev`, and the next one matches that. Only what stands against a host is kept: a clean one has no breaker.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import DeleteOne, UpdateOne
from pymongo.errors import BulkWriteError

from ojak.breaker.admission import CLEAN, Admission, BreakerScope, Probe, Verdict
from ojak.breaker.circuit import Circuit
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerResult
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import HOLD, IDLE_KEPT_S, READY
from ojak.store.now import EPOCH, Now

_TRIES: Final = 10
_DUPLICATE_KEY: Final = 11000

_HAS_REV: Final[Document] = {"$gt": ["$breaker.rev", None]}

RECOMPUTED: Final[list[Document]] = [{"$set": {"hold_until": HOLD}}, {"$set": {"ready": READY}}]
"""The stages after each one that changes a host's breaker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A breaker as it was read, its revision, and when that was."""

    circuit: Circuit
    rev: bytes | None
    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """A guarded write, and the revision that shows that it was made: none where nothing is kept any more."""

    key: str
    rev: bytes | None
    update: UpdateOne | DeleteOne


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """Results that are recorded if a key's breaker has this revision."""

    rev: bytes
    results: Sequence[BreakerResult]


class MongoBreakers:
    """Breakers that all workers share and that survive restarts.

    Args:
        db: the queue.
        rules: when breakers open, and for how long.
        holder: names whoever takes probes here, so that an obituary can give them back.
    """

    def __init__(self, db: QueueDatabase, rules: CircuitBreaker, *, holder: bytes = b"") -> None:
        self._db = db
        self._rules = rules
        self._holder = holder
        self._of_hosts = rules.scope is BreakerScope.HOST
        self._rows = db.hosts if self._of_hosts else db.breakers
        # By key, what a call that failed may have recorded: its results come again, and must not count twice.
        self._unclear: dict[str, list[_Recorded]] = {}

    @property
    def scope(self) -> BreakerScope:
        """What the keys are."""
        return self._rules.scope

    async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
        """Say for each key what may be done now."""
        kept = await self._read(keys)
        if any(item.circuit.taken(b"", now_s=item.now_s, hold_s=0) is not None for item in kept.values()):
            stamp = secrets.token_bytes(16)
            await self._take(list(kept), stamp, hold_s)
            kept = await self._read(keys)
        else:
            stamp = b""
        answers: dict[str, Admission] = {}
        for key, item in kept.items():
            answer = item.circuit.admission(self._rules, now_s=item.now_s)
            if stamp and item.circuit.probe == stamp:
                answer = Admission(
                    verdict=Verdict.PROBE, probe=Probe(key=key, token=stamp), unavailable=answer.unavailable
                )
            answers[key] = answer
        return [answers.get(key, CLEAN) for key in keys]

    async def _take(self, keys: Sequence[str], stamp: bytes, hold_s: float) -> None:
        """Take every probe of `keys` that is to be had: one guarded update, so that nobody else gets it."""
        # A gate of the host's own closes it for probes too.
        field = "hold_until" if self._of_hosts else "breaker.until"
        await self._rows.update_many(
            {"_id": {"$in": list(keys)}, "breaker.open": True, **self._db.now.has_come(field)},
            [
                {
                    "$set": {
                        "breaker.probe": stamp,
                        "breaker.by": self._holder,
                        "breaker.until": self._db.now.plus(hold_s),
                        "breaker.rev": secrets.token_bytes(8),
                    }
                },
                *self._recomputed(),
            ],
        )

    async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
        """Take in what attempts said."""
        by_key: dict[str, list[BreakerResult]] = {}
        for result in results:
            by_key.setdefault(result.key, []).append(result)
        answers: dict[str, Admission] = {}
        waiting = list(by_key)
        for _ in range(_TRIES):
            kept = await self._read(waiting)
            writes: list[_Write] = []
            for key in waiting:
                item = kept.get(key)
                if item is None:
                    # A host record that expired: nobody sends there any more.
                    answers[key] = CLEAN
                    continue
                circuit = item.circuit
                before = [made for made in self._unclear.get(key, ()) if made.rev == item.rev]
                recorded = {id(result) for made in before for result in made.results}
                for result in by_key[key]:
                    if id(result) in recorded:
                        continue
                    circuit = circuit.after(
                        result.signal, rules=self._rules, now_s=item.now_s, probe=_stamp(result.probe)
                    )
                answers[key] = circuit.admission(self._rules, now_s=item.now_s)
                if circuit != item.circuit:
                    write = self._write(key, item.rev, circuit)
                    writes.append(write)
                    if write.rev is not None:
                        self._unclear[key] = [*before, _Recorded(rev=write.rev, results=by_key[key])]
            waiting = await self._apply(writes)
            if not waiting:
                break
        self._unclear.clear()
        return [answers[result.key] for result in results]

    async def _apply(self, writes: Sequence[_Write]) -> list[str]:
        """Write; gives the keys that somebody else wrote meanwhile."""
        if not writes:
            return []
        try:
            result = await self._rows.bulk_write([write.update for write in writes], ordered=False)
        except BulkWriteError as error:
            # Two first results of an inbox at once: one of them made the row.
            failures = (error.details or {}).get("writeErrors", [])
            if not failures or any(failure.get("code") != _DUPLICATE_KEY for failure in failures):
                raise
        else:
            if result.matched_count + result.upserted_count + result.deleted_count == len(writes):
                return []
        # A bulk answers only counts: read back which.
        rows = self._rows.find({"_id": {"$in": [write.key for write in writes]}}, {"breaker.rev": 1})
        revs = {row["_id"]: row.get("breaker", {}).get("rev") async for row in rows}
        return [write.key for write in writes if revs.get(write.key) != write.rev]

    def _write(self, key: str, seen: bytes | None, circuit: Circuit) -> _Write:
        guard: Document = {"_id": key, "breaker.rev": seen if seen is not None else {"$exists": False}}
        if circuit.clean:
            gone = UpdateOne(guard, [{"$unset": "breaker"}, *RECOMPUTED]) if self._of_hosts else DeleteOne(guard)
            return _Write(key=key, rev=None, update=gone)
        rev = secrets.token_bytes(8)
        fields: Document = {"breaker": {"$literal": self._document(circuit, rev)}}
        if self._of_hosts:
            return _Write(key=key, rev=rev, update=UpdateOne(guard, [{"$set": fields}, *RECOMPUTED]))
        fields["expire_at"] = self._db.now.plus(IDLE_KEPT_S)
        return _Write(key=key, rev=rev, update=UpdateOne(guard, [{"$set": fields}], upsert=True))

    def _document(self, circuit: Circuit, rev: bytes) -> Document:
        unavailable_at_s = circuit.unavailable_at_s(self._rules)
        document: Document = {
            "rev": rev,
            "open": circuit.is_open,
            "failures": circuit.failures,
            "step": circuit.step,
            "to_go": circuit.to_go,
        }
        if circuit.quiet_since_s is not None:
            document["quiet_since"] = _moment(circuit.quiet_since_s)
        if circuit.is_open:
            document |= {"until": _moment(circuit.until_s), "ends": _moment(circuit.ends_s), "heard": circuit.heard}
            if circuit.probe is not None:
                document |= {"probe": circuit.probe, "by": self._holder}
            if unavailable_at_s is not None:
                document["unavailable_at"] = _moment(unavailable_at_s)
        return document

    async def renew(self, probes: Sequence[Probe], *, hold_s: float) -> None:
        """Hold probes for longer."""
        await self._move(probes, hold_s, held=True)

    async def give_back(self, probes: Sequence[Probe], *, after_s: float) -> None:
        """Take probes back that decided nothing."""
        await self._move(probes, after_s, held=False)

    async def _move(self, probes: Iterable[Probe], seconds: float, *, held: bool) -> None:
        for stamp, keys in by_stamp(probes).items():
            stages = [] if held else [{"$unset": ["breaker.probe", "breaker.by"]}]
            await self._rows.update_many(
                holding(keys, stamp), [*hold_stages(self._db.now, seconds), *stages, *self._recomputed()]
            )

    async def heard_from(self, key: str) -> bool:
        """Bring the probe of a key forward, once in each quarantine. Not of a breaker that is only shown here."""
        kept = {"_id": key, "breaker.rev": {"$exists": True}, "breaker.heard": {"$ne": True}}
        return await self._bring_forward(kept, {"breaker.heard": True})

    async def probe_now(self, key: str) -> bool:
        """Bring the probe of a key forward, however often: an operator's wish. Gives whether there was a quarantine.

        A breaker that is only shown here is marked, so that whoever claims next asks the store that keeps it.
        """
        return await self._bring_forward({"_id": key}, {"breaker.asked": True})

    async def _bring_forward(self, row: Document, marks: Document) -> bool:
        result = await self._rows.update_one(
            {
                **row,
                "breaker.open": True,
                "breaker.probe": {"$exists": False},
                "$expr": {"$gt": ["$breaker.until", self._db.now.expr]},
            },
            [
                {
                    "$set": {
                        **marks,
                        "breaker.until": self._db.now.expr,
                        # What is only shown here has none.
                        "breaker.rev": {"$cond": [_HAS_REV, secrets.token_bytes(8), "$$REMOVE"]},
                    }
                },
                *self._recomputed(),
            ],
        )
        return result.modified_count == 1

    async def reset(self, key: str) -> bool:
        """Forget whatever stands against a key: an operator's wish. Gives whether anything did.

        What is kept elsewhere and only shown here stays as it is.
        """
        result = await self._rows.update_one(
            {"_id": key, "breaker.rev": {"$exists": True}}, [{"$unset": "breaker"}, *self._recomputed()]
        )
        return result.modified_count == 1

    def _recomputed(self) -> list[Document]:
        return RECOMPUTED if self._of_hosts else []

    async def _read(self, keys: Sequence[str]) -> dict[str, _Kept]:
        kept: dict[str, _Kept] = {}
        rows = self._rows.find({"_id": {"$in": list(keys)}}, {"breaker": 1, "now": self._db.now.expr})
        async for row in rows:
            breaker = row.get("breaker")
            breaker = breaker if isinstance(breaker, dict) else {}
            kept[row["_id"]] = _Kept(circuit=circuit_of(breaker), rev=breaker.get("rev"), now_s=row["now"].timestamp())
        if not self._of_hosts:
            # An inbox has a row only while something stands against it.
            now_s = (await self._db.server_time()).timestamp()
            for key in keys:
                kept.setdefault(key, _Kept(circuit=Circuit(), rev=None, now_s=now_s))
        return kept


def by_stamp(probes: Iterable[Probe]) -> dict[bytes, list[str]]:
    """The keys of probes by their stamp."""
    keys: dict[bytes, list[str]] = {}
    for probe in probes:
        keys.setdefault(_stamp(probe) or b"", []).append(probe.key)
    return keys


def holding(keys: Sequence[str], stamp: bytes) -> Document:
    """A filter: the rows of `keys` whose probe is still held under `stamp`."""
    return {"_id": {"$in": list(keys)}, "breaker.open": True, "breaker.probe": stamp}


def hold_stages(now: Now, seconds: float) -> list[Document]:
    """The stages that hold a breaker for so long from now. `RECOMPUTED` comes after them in host records."""
    return [{"$set": {"breaker.until": now.plus(seconds), "breaker.rev": secrets.token_bytes(8)}}]


async def release_probes(db: QueueDatabase, hosts: Document, *, holder: bytes) -> None:
    """Give back the probes that somebody held who is known to be dead.

    Args:
        db: the queue.
        hosts: a filter: where to look.
        holder: who held them.
    """
    await db.hosts.update_many(
        {**hosts, "breaker.open": True, "breaker.by": holder},
        [
            {"$set": {"breaker.until": db.now.expr, "breaker.rev": secrets.token_bytes(8)}},
            {"$unset": ["breaker.probe", "breaker.by"]},
            *RECOMPUTED,
        ],
    )


async def forget_breakers(db: QueueDatabase, hosts: Sequence[str]) -> None:
    """Take away what the records of hosts say of breakers."""
    await db.hosts.update_many(
        {"_id": {"$in": list(hosts)}, "breaker": {"$exists": True}}, [{"$unset": "breaker"}, *RECOMPUTED]
    )


def circuit_of(breaker: Mapping[str, Any]) -> Circuit:
    """Read a breaker; what cannot be read of it is as if it was not there."""

    def seconds(name: str) -> float:
        value = breaker.get(name)
        return value.timestamp() if isinstance(value, datetime) else 0.0

    def count(name: str) -> int:
        value = breaker.get(name)
        return value if isinstance(value, int) else 0

    probe = breaker.get("probe")
    return Circuit(
        failures=count("failures"),
        step=count("step"),
        is_open=breaker.get("open") is True,
        until_s=seconds("until"),
        ends_s=seconds("ends"),
        heard=breaker.get("heard") is True,
        probe=bytes(probe) if isinstance(probe, bytes) else None,
        to_go=count("to_go"),
        quiet_since_s=seconds("quiet_since") if "quiet_since" in breaker else None,
    )


def _moment(seconds: float) -> datetime:
    # The database keeps milliseconds, cut off: rounded first, a time is read as it was written.
    return datetime.fromtimestamp(round(seconds, 3), UTC) if seconds > 0 else EPOCH


def _stamp(probe: Probe | None) -> bytes | None:
    if probe is None:
        return None
    # A probe of another store is nobody's here.
    return probe.token if isinstance(probe.token, bytes) else b""
