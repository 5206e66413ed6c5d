# SPDX-License-Identifier: Apache-2.0
"""`JobQueue`: queueing, following, cancelling and replaying an application's own kinds of job (SPEC section 2)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ojak.control import translated
from ojak.enqueuer import Enqueuer
from ojak.errors import InputError, shown
from ojak.model.activity import check_text
from ojak.model.given import check_limit, check_words
from ojak.model.job import Priority
from ojak.model.kind import check_kind
from ojak.model.kind_job import JobInfo, JobOutcome, KindStatus, QueuedJob, payload_bytes
from ojak.model.outcome import SentState
from ojak.model.selection import Cancelled
from ojak.store.cancel import cancel
from ojak.store.kind_enqueue import NewKindJob, enqueue_job
from ojak.store.kind_list import ALL_JOB_STATES, job_of_id, kind_statuses, list_jobs, replay_jobs
from ojak.store.select import JobSelection
from ojak.store.wakeups import wake_kinds

REPLAYED_JOBS: Final = frozenset({JobOutcome.REFUSED, JobOutcome.OUT_OF_RETRIES, JobOutcome.PARKED})
"""What a replay queues again unless told otherwise."""


class JobQueue(Enqueuer):
    """What an application asks of its own kinds of job. What `Deliverer` adds is deliveries, and running both."""

    async def enqueue(
        self,
        kind: str,
        payload: bytes | Mapping[str, Any],
        *,
        key: str | None = None,
        priority: Priority = Priority.FANOUT,
        run_at: datetime | None = None,
        delay_s: float = 0.0,
        order_key: str | None = None,
    ) -> QueuedJob:
        """Queue a job of a kind of the application's own, and return. It runs where a `Handler` of its kind is.

        When this returns, the job is held by a majority of the database.

        Args:
            kind: 1 to 40 of a-z 0-9 _ - with a letter first.
            payload: what its handler gets: bytes, or a mapping, which is written as JSON. At most 64 KiB; nothing of it
                is ever logged.
            key: what it is deduplicated by, within its kind: while one of this key waits or runs, and for as long as
                one that was done or refused is kept, it is not queued again. None: by nothing.
            priority: which line of its kind it stands in.
            run_at: when it may run at the earliest: a moment with its zone.
            delay_s: the same as seconds from now.
            order_key: jobs of its kind with the same key run one after another in the order they were queued, also
                across retries.

        Raises:
            InputError: an argument is not usable; names it. Nothing was queued.
            QueueFull: so many deliveries and jobs wait that no more are taken (`max_queued`). It was not queued.
            StoreError: the database refused, or holds what this version cannot use.
            QueueUnavailable: the database did not confirm. Whether the job was queued is unknown: call again, which
                queues nothing twice if it has a key.
        """
        for name, text in (("key", key), ("order_key", order_key)):
            if text is not None:
                check_text(name, text)
        if not isinstance(priority, Priority):
            raise InputError(f"priority is {shown(priority)}; allowed is a Priority")
        job = NewKindJob(
            kind=check_kind(kind),
            payload=payload_bytes(payload),
            key=key,
            priority=priority,
            run_at=run_at,
            delay_s=delay_s,
            order_key=order_key,
        )
        await self.set_up()
        async with self._sending, translated():
            await self._fill.check_room(1)
            queued = await enqueue_job(self._db, job)
            if queued.state is SentState.NEW:
                self._fill.queued(1)
            if queued.state is not SentState.ENDED:
                await wake_kinds(self._db, [kind])
            return queued

    async def job(self, job_id: str) -> JobInfo:
        """One job as the queue has it.

        Args:
            job_id: its id, as `QueuedJob` has it.

        Raises:
            InputError: that is no id.
            UnknownJob: none with this id is kept.
        """
        row_id = _row_id(job_id)
        await self.set_up()
        async with translated():
            return await job_of_id(self._db, row_id)

    async def jobs(
        self, kind: str | None = None, *, states: Iterable[str] | None = None, limit: int = 100
    ) -> Sequence[JobInfo]:
        """Some jobs, as the queue has them: unfinished ones first, then the latest ends.

        Args:
            kind: of this kind only; None: of all kinds but deliveries.
            states: in these states only; None: in any.
            limit: how many at most.

        Raises:
            InputError: an argument is not usable.
        """
        if kind is not None:
            check_kind(kind)
        wanted = check_words("state", ALL_JOB_STATES if states is None else states, ALL_JOB_STATES)
        check_limit("limit", limit)
        await self.set_up()
        async with translated():
            return await list_jobs(self._db, kind, states=wanted, limit=limit)

    async def kinds(self) -> Sequence[KindStatus]:
        """How each kind stands that has unfinished jobs, or a living worker with a handler for it."""
        await self.set_up()
        async with translated():
            return await kind_statuses(self._db)

    async def cancel_jobs(
        self, *, job: str | None = None, kind: str | None = None, on_waiting: Callable[[int], None] | None = None
    ) -> Cancelled:
        """End one job, or all unfinished ones of a kind. Give exactly one.

        When this returns, none of them begins any more. What runs is asked to stop: an asynchronous handler is
        cancelled, a plain function's `HandledJob.stopping` is set; each ends as what it then comes to.

        Args:
            job: the id of a job.
            kind: a kind.
            on_waiting: told now and then of how many jobs are waited for because a worker holds them.

        Returns:
            How many were ended before they began, and as `on_wire` how many had begun.

        Raises:
            InputError: not exactly one is given, or it is not usable.
            QueueUnavailable: the database did not answer; what was cancelled so far is. Call again.
        """
        which = _selection(job, kind)
        await self.set_up()
        async with translated():
            return await cancel(self._db, which, on_waiting=on_waiting)

    async def replay_jobs(
        self, *, job: str | None = None, kind: str | None = None, outcomes: Iterable[JobOutcome] | None = None
    ) -> int:
        """Queue ended jobs again, as new ones; gives how many. Give exactly one of the first two.

        Args:
            job: the id of a job.
            kind: a kind.
            outcomes: only what ended so; by default what was refused, ran out of retries, or is parked.

        Raises:
            InputError: not exactly one is given, or it is not usable.
            QueueUnavailable: the database did not answer. Call again.
        """
        which = _selection(job, kind)
        wanted = check_words("outcome", REPLAYED_JOBS if outcomes is None else outcomes, tuple(JobOutcome))
        await self.set_up()
        async with translated():
            count = await replay_jobs(self._db, which.rows(), outcomes=wanted)
            if count:
                await wake_kinds(self._db, [status.kind for status in await kind_statuses(self._db)])
            return count


def _selection(job: str | None, kind: str | None) -> JobSelection:
    if (job is None) is (kind is None):
        raise InputError(
            f"{'nothing' if job is None else 'job and kind'} is given; allowed is exactly one of job, kind"
        )
    if kind is not None:
        return JobSelection(kind=check_kind(kind))
    return JobSelection(job=_row_id(job))


def _row_id(job_id: object) -> bytes:
    try:
        row_id = bytes.fromhex(job_id) if isinstance(job_id, str) else b""
    except ValueError:
        row_id = b""
    if len(row_id) != 16:
        raise InputError(f"job is {shown(job_id)}; allowed is an id of 32 hexadecimal digits")
    return row_id
