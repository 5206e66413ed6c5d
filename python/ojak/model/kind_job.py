# SPDX-License-Identifier: Apache-2.0
"""Jobs of an application's own kinds: as a worker holds them, and as the queue tells of them (SPEC section 2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

import orjson

from ojak.errors import InputError, shown
from ojak.model.job import Priority
from ojak.model.outcome import SentState

MAX_PAYLOAD_BYTES: Final = 64 << 10
"""A payload stands in its job's row, which is written three times; what is larger belongs elsewhere, and its place in
the payload."""
_LONGEST_DELAY_S: Final = 3650 * 86_400.0


class JobOutcome(StrEnum):
    """How a job of an application's own kind ended."""

    DONE = "done"
    """Its handler returned."""
    REFUSED = "refused"
    """Its handler raised `JobRefused`."""
    CANCELLED = "cancelled"
    OUT_OF_RETRIES = "out-of-retries"
    PARKED = "parked"


STANDING: Final = frozenset({JobOutcome.DONE, JobOutcome.REFUSED})
"""Ends after which the same key queues nothing while they are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindJob:
    """A leased job.

    Attributes:
        id: 16 bytes.
        kind, lane, priority: where it stands.
        key: what it was queued under, or None.
        payload: its bytes.
        tries: attempts spent so far.
        deaths: workers that died while it ran.
        order: what it shares with those that it goes before or after, or None.
        queued_at: when it was handed over.
        stamp: the lease's stamp; every later write matches it.
    """

    id: bytes
    kind: str
    lane: str
    priority: Priority
    key: str | None
    payload: bytes = field(repr=False)
    tries: int
    deaths: int
    order: bytes | None
    queued_at: datetime
    stamp: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """What `enqueue` answers.

    Attributes:
        id: the job's id, 32 hexadecimal digits.
        kind: its kind.
        state: NEW; DUPLICATE: one of this key is waiting or running, and stays as it was handed over; ENDED: one of
            this key was done, or refused, within the time that ended jobs are kept.
        outcome: how it ended, if `state` is ENDED.
    """

    id: str
    kind: str
    state: SentState
    outcome: JobOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job as the queue has it.

    Attributes:
        id: 32 hexadecimal digits.
        kind: its kind.
        key: what it was queued under, or None.
        state: queued, blocked (behind another of its order), leased, or how it ended.
        attempts: how many attempts were spent.
        deaths: how many workers died while it ran.
        reason: why the last attempt failed, or "".
        detail: what its handler said of that.
        next_try: when it can run next, if it is queued.
        queued_at: when it was handed over.
        finished_at: when it ended, or None.
    """

    id: str
    kind: str
    key: str | None
    state: str
    attempts: int
    deaths: int
    reason: str
    detail: str
    next_try: datetime | None
    queued_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindStatus:
    """How a kind of job stands.

    Attributes:
        kind: its name.
        counts: how many of its jobs are in each state that is no end.
        oldest_at: when the oldest of them that waits was handed over, or None.
        oldest_s: how long ago that is.
        workers: how many living workers have a handler for it.
    """

    kind: str
    counts: Mapping[str, int]
    oldest_at: datetime | None
    oldest_s: float
    workers: int

    @property
    def unfinished(self) -> int:
        """How many of its jobs have not ended."""
        return sum(self.counts.values())


def kind_job_id(kind: str, key: str) -> bytes:
    """The id of a job with a key: 16 bytes of a hash. The NUL before it keeps it apart from every delivery's."""
    return sha256(f"\0{kind}\0{key}".encode("utf-8", "surrogatepass")).digest()[:16]


def payload_bytes(payload: object) -> bytes:
    """A payload as bytes: those that were given, or a mapping written as JSON.

    Raises:
        InputError: it is neither, cannot be written, or is too large. Never quotes it.
    """
    if isinstance(payload, bytes | bytearray | memoryview):
        written = bytes(payload)
    elif isinstance(payload, Mapping):
        try:
            written = orjson.dumps(payload if isinstance(payload, dict) else dict(payload))
        except (TypeError, orjson.JSONEncodeError) as error:
            raise InputError(f"payload cannot be written as JSON: {error}") from None
    else:
        raise InputError(f"payload is a {type(payload).__name__}; allowed is a mapping or bytes")
    if len(written) > MAX_PAYLOAD_BYTES:
        raise InputError(
            f"payload is {len(written)} bytes; allowed are {MAX_PAYLOAD_BYTES}: keep what is larger elsewhere, and hand"
            " over where"
        )
    return written


def delay_of(*, run_at: Any, delay_s: Any, now: datetime) -> float:
    """For how many seconds a job waits before it may run.

    Raises:
        InputError: both are given, or one is not usable.
    """
    if run_at is not None:
        if delay_s:
            raise InputError("run_at and delay_s are given; allowed is one of them")
        if not isinstance(run_at, datetime) or run_at.tzinfo is None:
            raise InputError(f"run_at is {shown(run_at)}; allowed is a moment with its zone")
        delay_s = max(0.0, (run_at.astimezone(UTC) - now) / timedelta(seconds=1))
    if isinstance(delay_s, bool) or not isinstance(delay_s, int | float) or not 0 <= delay_s <= _LONGEST_DELAY_S:
        raise InputError(
            f"{'run_at' if run_at is not None else 'delay_s'} lies {shown(delay_s)} s ahead; allowed is 0 to ten years"
        )
    return float(delay_s)
