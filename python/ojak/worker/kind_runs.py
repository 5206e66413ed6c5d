# SPDX-License-Identifier: Apache-2.0
"""Runs of handlers: jobs of other kinds from the moment they begin until their outcome is gathered."""

import asyncio
import inspect
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ojak.backoff import backoff_s
from ojak.model.handler import HandledJob, Handler, JobRefused
from ojak.model.kind_job import JobOutcome, KindJob
from ojak.store.kind_settle import KindEnded, KindRetried
from ojak.worker.board import FlightBoard
from ojak.worker.foreign import name_of
from ojak.worker.kind_settler import KindOutcome
from ojak.worker.thread_call import NoThread, in_thread

_log = logging.getLogger("ojak.worker.kinds")

_DETAIL_CHARACTERS: Final = 200
_OWN_FAULT_S: Final = 30.0
"""A job that no thread could be started for is tried again so much later."""
_LAST_WORDS_S: Final = 5.0
"""A handler that was cancelled has so long to end, at the end of a `run()`."""


class _Stop(StrEnum):
    """Why a run is to end before its handler does."""

    LOST = "lost"
    CANCELLED = "cancelled"
    CUT_OFF = "cut-off"


@dataclass(slots=True, kw_only=True)
class _Run:
    """A handler that runs, why it is to end if it is, and whether its time is over."""

    job: KindJob
    given: HandledJob
    in_thread: bool
    task: asyncio.Task[None] | None = None
    stop: _Stop | None = None
    late: bool = False


class KindRuns:
    """Runs handlers, and sees each to its end.

    Args:
        max_attempts: for handlers that do not say.
        lease_s: the length of a lease.
        board: what the supervisor reads after a death, or None without one.
        on_outcome: takes what came of a job.
        on_over: called when a job left its slot, with its kind and id, and whether its outcome is dropped.
    """

    def __init__(
        self,
        *,
        max_attempts: int,
        lease_s: float,
        board: FlightBoard | None,
        on_outcome: Callable[[KindOutcome], None],
        on_over: Callable[[str, bytes, bool], None],
    ) -> None:
        self._max_attempts = max_attempts
        self._lease_s = lease_s
        self._board = board
        self._on_outcome = on_outcome
        self._on_over = on_over
        self._random = random.Random()  # noqa: S311 - jitter
        self._runs: dict[bytes, _Run] = {}
        self._board_slots: dict[bytes, int] = {}
        # Those that are not stored yet: should this worker die now, that counts as their death too.
        self._suspects: set[bytes] = set()
        self._draining = False

    @property
    def has_suspect(self) -> bool:
        """Whether a job runs, or is not stored yet, whose worker died while it ran before."""
        return bool(self._suspects)

    def is_running(self, job_id: bytes) -> bool:
        """Whether a job runs here, under whatever lease: a thread whose lease was taken goes on until it ends."""
        return job_id in self._runs

    def stamps(self, ids: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        """Those of some jobs that run here, by the stamp of their lease."""
        by_stamp: dict[bytes, list[bytes]] = {}
        for job_id in ids:
            if (run := self._runs.get(job_id)) is not None:
                by_stamp.setdefault(run.job.stamp, []).append(job_id)
        return by_stamp

    def begin(self, handler: Handler, job: KindJob) -> None:
        """Run a job."""
        most = handler.max_attempts or self._max_attempts
        given = HandledJob(
            id=job.id.hex(),
            kind=job.kind,
            key=job.key,
            payload=job.payload,
            attempt=job.tries + 1,
            is_last=job.tries + 1 >= most,
            deaths=job.deaths,
            queued_at=job.queued_at,
            timeout_s=handler.timeout_s,
        )
        run = self._runs[job.id] = _Run(job=job, given=given, in_thread=not handler.is_async)
        if job.deaths:
            self._suspects.add(job.id)
        if self._board is not None:
            self._board_slots[job.id] = self._board.begin(job.id)
        run.task = asyncio.create_task(self._see_through(handler, run), name=f"ojak-{job.kind}")

    async def _see_through(self, handler: Handler, run: _Run) -> None:
        job = run.job
        outcome: KindOutcome | None = None
        try:
            outcome = await self._outcome(handler, run)
        finally:
            del self._runs[job.id]
            dropped = outcome is None or run.stop is _Stop.LOST
            if dropped:
                self.clear([job.id])
            elif outcome is not None:
                self._on_outcome(outcome)
            self._on_over(job.kind, job.id, dropped)

    async def _outcome(self, handler: Handler, run: _Run) -> KindOutcome:
        """Call the handler; gives what it came to. Nothing that a handler raises gets out of here."""
        limit = asyncio.timeout(None if run.in_thread else handler.timeout_s)
        task = asyncio.current_task()
        try:
            async with limit:
                await self._call(handler, run, limit)
        except JobRefused as error:
            return KindEnded(
                job=run.job, outcome=JobOutcome.REFUSED, spent=True, reason="refused", detail=_text(str(error))
            )
        except BaseException as error:  # a handler may raise anything: it ends, and nothing else
            if isinstance(error, GeneratorExit) and asyncio.current_task() is not task:
                # It is thrown away half way, and may not wait for anything more.
                raise
            run.late = run.late or limit.expired()
            return self._failed(run, error)
        return KindEnded(job=run.job, outcome=JobOutcome.DONE, spent=True)

    async def _call(self, handler: Handler, run: _Run, limit: asyncio.Timeout) -> None:
        answer = await self._in_thread(handler, run) if run.in_thread else handler.call(run.given)
        if not inspect.isawaitable(answer):
            return
        if run.in_thread:
            # A plain function around an asynchronous one, as decorators are. From here on it is like any other of
            # those: it ends with its time, and when it is asked to.
            run.in_thread = False
            if handler.timeout_s is not None:
                limit.reschedule(asyncio.get_running_loop().time() + handler.timeout_s)
            if run.stop is not None and run.task is not None:
                run.task.cancel()
        await answer

    async def _in_thread(self, handler: Handler, run: _Run) -> Any:
        """Call a plain function; once its time is over it is asked to stop, and awaited all the same."""

        def be_late() -> None:
            run.late = True
            run.given.stopping.set()

        loop = asyncio.get_running_loop()
        timer = loop.call_later(handler.timeout_s, be_late) if handler.timeout_s is not None else None
        try:
            return await in_thread(lambda: handler.call(run.given), name=f"ojak-{run.job.kind}")
        finally:
            if timer is not None:
                timer.cancel()

    def _failed(self, run: _Run, error: BaseException) -> KindOutcome:
        job = run.job
        was_cancelled = isinstance(error, asyncio.CancelledError)
        if run.stop is _Stop.CANCELLED:
            return KindEnded(job=job, outcome=JobOutcome.CANCELLED, spent=True, reason="cancelled")
        if run.stop is not None or (self._draining and not run.late):
            # It was asked to end, and that is no failure of its own. A thread that nobody waits for any more may go on
            # for a while: its job is not given to another before a lease is over.
            delay_s = self._lease_s if run.in_thread and was_cancelled else 0.0
            return KindRetried(job=job, delay_s=delay_s, spent=False, reason="cut-off")
        if isinstance(error, NoThread):
            _log.error("no thread for a handler; its job waits", extra={"kind": job.kind, "job": job.id.hex()})
            return KindRetried(job=job, delay_s=_OWN_FAULT_S, spent=False, reason="local")
        reason = "handler-timeout" if run.late else "handler-raised"
        detail = name_of(error)
        _log.warning(
            "a handler failed",
            extra={"kind": job.kind, "job": job.id.hex(), "attempt": run.given.attempt, "reason": reason},
            exc_info=None if run.late else error,
        )
        if run.given.is_last:
            return KindEnded(job=job, outcome=JobOutcome.OUT_OF_RETRIES, spent=True, reason=reason, detail=detail)
        delay_s = backoff_s(run.given.attempt, self._random)
        return KindRetried(job=job, delay_s=delay_s, spent=True, reason=reason, detail=detail)

    def stop(self, ids: Iterable[bytes], *, lost: bool) -> list[bytes]:
        """End what runs of some jobs: their lease was taken, or they were cancelled; gives those that run.

        An asynchronous handler is cancelled. A thread cannot be: it keeps its slot until it ends.
        """
        running = [job_id for job_id in ids if job_id in self._runs]
        for job_id in running:
            self._end(self._runs[job_id], _Stop.LOST if lost else _Stop.CANCELLED)
        return running

    def _end(self, run: _Run, why: _Stop) -> None:
        first = run.stop is None
        if run.stop is not _Stop.LOST:
            run.stop = why
        run.given.stopping.set()
        # Once is enough: a second time would cut off what it does to end well.
        if not run.in_thread and run.task is not None and (first or why is _Stop.CUT_OFF):
            run.task.cancel()

    def clear(self, ids: Iterable[bytes]) -> None:
        """Jobs are over: stored, or dropped."""
        for job_id in ids:
            self._suspects.discard(job_id)
            if self._board is not None and (slot := self._board_slots.pop(job_id, None)) is not None:
                self._board.clear(slot)

    async def drain(self, within_s: float) -> None:
        """Ask what runs to come to an end, and wait for it, at most so long."""
        self._draining = True
        for run in self._runs.values():
            run.given.stopping.set()
        tasks = self._tasks()
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)

    async def cut_off(self) -> None:
        """End what still runs."""
        for run in list(self._runs.values()):
            self._end(run, _Stop.CUT_OFF)
            if run.in_thread and run.task is not None:
                # Not the thread, which goes on: what waits for it.
                run.task.cancel()
        tasks = self._tasks()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=_LAST_WORDS_S)
            if left:
                _log.error("handlers do not end; left behind", extra={"count": len(left)})

    def _tasks(self) -> Sequence[asyncio.Task[None]]:
        return [run.task for run in self._runs.values() if run.task is not None]


def _text(text: str) -> str:
    """What an application said, as one line that can be shown."""
    return "".join(mark if mark.isprintable() else " " for mark in text[:_DETAIL_CHARACTERS]).strip()
