# SPDX-License-Identifier: Apache-2.0
"""The probes that a `run()` holds, each by one of its jobs, and until when it may believe in them (rule F)."""

import logging
from collections.abc import Collection, Iterable
from typing import Final

from ojak.breaker.admission import BreakerScope, Probe
from ojak.breaker.store import BreakerStore
from ojak.clock import Clock
from ojak.model.job import Job
from ojak.store.breakers import MongoBreakers
from ojak.worker.foreign import ForeignCall, name_of

_log = logging.getLogger("ojak.worker.probes")

_FOR_EVER: Final = float("inf")


class Probes:
    """Which jobs are probes. Written by the loop of a `run()`, read by the thread that renews.

    Args:
        store: where probes come from and go back to.
        clock: for trust.
    """

    def __init__(self, *, store: BreakerStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._held: dict[bytes, Probe] = {}
        self._until_s: dict[bytes, float] = {}
        self._inboxes: dict[str, int] = {}
        self._inside: dict[bytes, str] = {}

    @property
    def scope(self) -> BreakerScope:
        """What the probes are of."""
        return self._store.scope

    @property
    def in_database(self) -> bool:
        """Whether they are kept in the queue's database, where the renewing thread can renew them."""
        return isinstance(self._store, MongoBreakers)

    def take(self, job_id: bytes, probe: Probe, *, until_s: float) -> None:
        """A job holds a probe; believe in it until `until_s` on the clock for deadlines."""
        self._held[job_id] = probe
        self._until_s[job_id] = until_s

    def probe_of(self, job_id: bytes) -> Probe | None:
        """The probe that a job holds."""
        return self._held.get(job_id)

    def is_held(self, probe: Probe) -> bool:
        """Whether a job holds that probe."""
        return probe in self._held.values()

    def trust_left_s(self, job_id: bytes) -> float:
        """For how many seconds a probe may still be believed; for ever, if the job is none."""
        until_s = self._until_s.get(job_id)
        return _FOR_EVER if until_s is None else until_s - self._clock.boot_s()

    def held(self) -> dict[bytes, Probe]:
        """What there is to renew, by job. Callable from another thread."""
        return dict(list(self._held.items()))

    def renewed(self, job_ids: Iterable[bytes], *, until_s: float) -> None:
        """Probes were renewed. Callable from another thread."""
        for job_id in job_ids:
            if job_id in self._until_s:
                self._until_s[job_id] = until_s

    async def renew(self, *, hold_s: float) -> None:
        """Renew every probe of a store that is not in the queue's database."""
        asked_at_s, held = self._clock.boot_s(), self.held()
        try:
            with ForeignCall():
                await self._store.renew(list(held.values()), hold_s=hold_s)
        except Exception as error:  # noqa: BLE001 - an application's store may raise anything
            _log.warning("probes not renewed", extra={"count": len(held), "error": name_of(error)})
        else:
            self.renewed(held, until_s=asked_at_s + hold_s)

    async def give_back(self, job_ids: Collection[bytes], *, after_s: float = 0.0) -> None:
        """Give back what these jobs hold, and decided nothing with."""
        await self.give_back_unused([probe for job_id in job_ids if (probe := self.drop(job_id))], after_s=after_s)

    async def give_back_unused(self, probes: Collection[Probe], *, after_s: float) -> None:
        """Give back probes that no job holds."""
        if not probes:
            return
        try:
            with ForeignCall():
                await self._store.give_back(list(probes), after_s=after_s)
        except Exception as error:  # noqa: BLE001 - an application's store may raise anything
            # Nobody renews them any more: they end by themselves.
            _log.warning("probes not given back", extra={"count": len(probes), "error": name_of(error)})

    async def give_back_all(self) -> None:
        """Give back whatever is still held."""
        await self.give_back(list(self._held))

    def drop(self, job_id: bytes) -> Probe | None:
        """A job holds its probe no longer; gives what it held."""
        self._until_s.pop(job_id, None)
        return self._held.pop(job_id, None)

    # Inboxes that recover: the lanes count by host, so these are counted here.

    def enter_inbox(self, job: Job, *, alone: bool) -> bool:
        """A delivery to an inbox begins; False if it has to be alone there and is not."""
        if alone and self._inboxes.get(job.url):
            return False
        self._inboxes[job.url] = self._inboxes.get(job.url, 0) + 1
        self._inside[job.id] = job.url
        return True

    def leave_inbox(self, job: Job) -> None:
        """A delivery has ended, if it began."""
        inbox = self._inside.pop(job.id, None)
        if inbox is not None:
            self._inboxes[inbox] -= 1
            if not self._inboxes[inbox]:
                del self._inboxes[inbox]
