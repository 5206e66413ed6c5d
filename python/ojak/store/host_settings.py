# SPDX-License-Identifier: Apache-2.0
"""What an operator sets for a host: a pause, a scheme, a limit, a Content-Type. It never expires (SPEC section 4).

The setting's own row is what counts. The host's record carries a copy, since a claim reads that anyway: asking for
settings apart would cost every claim a statement. Rows count their changes (`rev`), so that of two copies under way the
later one stays, and whoever dies between the row and its copy is mended by the sweep. A record with settings does not
expire and is made with the setting: so none is ever made, by a send, that lacks them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import UpdateOne

from ojak.model.host import NO_OVERRIDES, ContentForm, HostOverrides
from ojak.store.database import Document, QueueDatabase
from ojak.store.hosts import HOLD, READY, expiry, host_lowering
from ojak.store.now import NEVER

_KINDS: Final = ("pause", "scheme", "per_host", "form")
_FORMS: Final = {str(form): form for form in ContentForm}
_AT_A_TIME: Final = 500


def overrides_of(settings: object) -> HostOverrides:
    """Read a record's copy of its settings; what cannot be read is as if it was not set."""
    if not isinstance(settings, dict):
        return NO_OVERRIDES
    scheme, per_host = settings.get("scheme"), settings.get("per_host")
    return HostOverrides(
        scheme=scheme if scheme in ("cavage", "rfc9421") else None,
        per_host=per_host if isinstance(per_host, int) and per_host > 0 else None,
        form=_FORMS.get(str(settings.get("form"))),
    )


async def pause_host(db: QueueDatabase, authority: str, *, by: str, for_s: float | None) -> None:
    """Pause a host, for so long or until it is resumed. One that is paused keeps its `since`.

    Nothing is claimed of it from now on. What is claimed already must be asked about (`ojak.store.notices`).
    """
    pause = pause_document(db, by=by, for_s=for_s)
    await _change(db, authority, [{"$set": {"pause": pause}}])


def pause_document(db: QueueDatabase, *, by: str, for_s: float | None) -> Document:
    """A pause as it is written to a row's `pause`, in place of one that may stand there."""
    stands = {"$gt": ["$pause.until", db.now.expr]}
    return {
        "since": {"$cond": [stands, "$pause.since", db.now.expr]},
        "by": {"$literal": by},
        # A time that never comes, and not none: what holds a host is the latest of several times.
        "until": db.now.plus(for_s) if for_s is not None else NEVER,
    }


async def set_for_host(db: QueueDatabase, authority: str, **values: str | int | None) -> None:
    """Set `scheme`, `per_host` or `form` of a host; None takes a setting away."""
    stages: list[Document] = []
    for name, value in values.items():
        if name not in _KINDS:
            raise ValueError(name)
        stages.append({"$unset": name} if value is None else {"$set": {name: {"$literal": value}}})
    await _change(db, authority, stages)


async def resume_host(db: QueueDatabase, authority: str) -> bool:
    """End a host's pause. Gives whether there was one."""
    paused = await db.host_settings.find_one(
        {"_id": authority, "$expr": {"$gt": ["$pause.until", db.now.expr]}}, {"_id": 1}
    )
    await _change(db, authority, [{"$unset": "pause"}])
    return paused is not None


async def _change(db: QueueDatabase, authority: str, stages: Sequence[Document]) -> None:
    rev = {"$max": [{"$add": [{"$ifNull": ["$rev", 0]}, 1]}, {"$toLong": db.now.expr}]}
    # Never lower than one of before: a row that is taken away and comes back goes on from the time.
    await db.host_settings.update_one({"_id": authority}, [*stages, {"$set": {"rev": rev}}], upsert=True)
    await copy_settings(db, [authority])


async def copy_settings(db: QueueDatabase, authorities: Sequence[str]) -> None:
    """Bring the records of hosts up to their settings; makes the records that are not there."""
    rows = await db.host_settings.find({"_id": {"$in": list(authorities)}}).to_list()
    updates = [_copying(db, row) for row in rows]
    if updates:
        await db.hosts.bulk_write(updates, ordered=False)
    for row in rows:
        if not any(kind in row for kind in _KINDS):
            await db.host_settings.delete_one({"_id": row["_id"], "rev": row["rev"]})


def _copying(db: QueueDatabase, row: Document) -> UpdateOne:
    settings = {kind: row[kind] for kind in _KINDS if kind in row}
    newer = {"$lt": [{"$ifNull": ["$settings_rev", 0]}, row["rev"]]}
    copied = {"$literal": settings} if settings else "$$REMOVE"
    stages = [
        *host_lowering(db, row["_id"], {}),
        {
            "$set": {
                "settings": {"$cond": [newer, copied, "$settings"]},
                "settings_rev": {"$max": ["$settings_rev", row["rev"]]},
            }
        },
        {"$set": {"hold_until": HOLD}},
        {"$set": {"ready": READY, "expire_at": expiry(db)}},
    ]
    return UpdateOne({"_id": row["_id"]}, stages, upsert=bool(settings))


async def mend_settings(db: QueueDatabase) -> int:
    """Bring every record up to its host's settings, and take away pauses that are over; gives how many were behind.

    Reads each setting: an operator makes few.
    """
    over = {"pause": {"$exists": True}, **db.now.has_come("pause.until")}
    ended = [row["_id"] async for row in db.host_settings.find(over, {"_id": 1})]
    for authority in ended:
        await db.host_settings.update_one(
            {"_id": authority, **over}, [{"$unset": "pause"}, {"$set": {"rev": {"$add": ["$rev", 1]}}}]
        )
    behind = await db.host_settings.aggregate(
        [
            {"$lookup": {"from": db.hosts.name, "localField": "_id", "foreignField": "_id", "as": "host"}},
            {"$project": {"rev": 1, "copied": {"$first": "$host.settings_rev"}}},
            {"$match": {"$expr": {"$ne": ["$rev", "$copied"]}}},
            {"$project": {"_id": 1}},
        ]
    )
    names = [row["_id"] for row in await behind.to_list()]
    for start in range(0, len(names), _AT_A_TIME):
        await copy_settings(db, names[start : start + _AT_A_TIME])
    return len(set(names) - set(ended))


async def count_paused(db: QueueDatabase) -> int:
    """How many hosts are paused now."""
    return await db.host_settings.count_documents({"$expr": {"$gt": ["$pause.until", db.now.expr]}})


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHost:
    """What is set for a host now: how requests go there, and whether any may."""

    overrides: HostOverrides
    paused: bool


async def settings_of(db: QueueDatabase, authorities: Iterable[str]) -> dict[str, SetHost]:
    """What is set for each of some hosts, as their records have it."""
    rows = db.hosts.find(
        {"_id": {"$in": list(authorities)}},
        {"settings": 1, "paused": {"$gt": ["$settings.pause.until", db.now.expr]}},
    )
    return {row["_id"]: _set(row) async for row in rows}


def _set(row: Mapping[str, Any]) -> SetHost:
    return SetHost(overrides=overrides_of(row.get("settings")), paused=row.get("paused") is True)
