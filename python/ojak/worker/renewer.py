# SPDX-License-Identifier: Apache-2.0
"""The renewer: a thread with its own connection that renews leases, so that a busy event loop cannot starve them."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

from ojak.clock import Clock
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.renew import Renewals
from ojak.worker.held import Held
from ojak.worker.probes import Probes

_log = logging.getLogger("ojak.worker.renew")


class Renewer:
    """Renews what is held each third of its length.

    Args:
        db: the queue.
        owner: the stamp of this `run()`.
        held: the leases of jobs.
        probes: the probes that jobs hold; they are renewed with the leases.
        clock: for trust.
        lease_s: the length of a job's lease.
        shard_lease_s: the length of a shard's lease.
        on_renewed: called in the event loop with the stamps that were renewed, the ids of jobs whose lease was taken,
            and until when the others may be believed.
        on_shards: called in the event loop with the epochs still held and when they were asked for.
        on_probes: called in the event loop when probes are to be renewed that this thread cannot.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        owner: bytes,
        held: Held,
        probes: Probes,
        clock: Clock,
        lease_s: float,
        shard_lease_s: float,
        on_renewed: Callable[[Sequence[bytes], set[bytes], float], None],
        on_shards: Callable[[dict[int, int], float], None],
        on_probes: Callable[[], None],
    ) -> None:
        self._db = db
        self._owner = owner
        self._held = held
        self._probes = probes
        self._on_probes = on_probes
        self._clock = clock
        self._lease_s = lease_s
        self._shard_lease_s = shard_lease_s
        self._on_renewed = on_renewed
        self._on_shards = on_shards
        self._stop = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="ojak-renew", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def stop(self) -> None:
        """Stop the thread and wait for it, without holding up the loop."""
        self._stop.set()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        renewals = Renewals(self._db)
        try:
            jobs_at_s = self._clock.boot_s() + self._lease_s / 3
            shards_at_s = self._clock.boot_s() + self._shard_lease_s / 3
            while not self._stop.wait(max(0.0, min(jobs_at_s, shards_at_s) - self._clock.boot_s())):
                now_s = self._clock.boot_s()
                if now_s >= shards_at_s:
                    shards_at_s = now_s + self._attempt(lambda: self._renew_shards(renewals), self._shard_lease_s)
                if now_s >= jobs_at_s:
                    jobs_at_s = now_s + self._attempt(lambda: self._renew_jobs(renewals), self._lease_s)
        finally:
            renewals.close()

    def _attempt(self, renew: Callable[[], None], lease_s: float) -> float:
        """Renew; gives the seconds until the next time, fewer if it failed."""
        try:
            renew()
        except DatabaseTrouble as error:
            _log.warning("leases not renewed", extra={"error": type(error).__name__})
            return lease_s / 30
        return lease_s / 3

    def _renew_jobs(self, renewals: Renewals) -> None:
        asked_at_s = self._clock.boot_s()
        leases = self._held.leases()
        if not leases:
            return
        lost = renewals.renew_jobs(leases, lease_s=self._lease_s)
        self._call(self._on_renewed, list(leases), lost, asked_at_s + self._lease_s)
        self._renew_probes(renewals)

    def _renew_probes(self, renewals: Renewals) -> None:
        held = self._probes.held()
        if not held:
            return
        if not self._probes.in_database:
            self._call(self._on_probes)
            return
        asked_at_s = self._clock.boot_s()
        keys = renewals.renew_probes(held.values(), hold_s=self._lease_s, scope=self._probes.scope)
        mine = [job_id for job_id, probe in held.items() if probe.key in keys]
        self._probes.renewed(mine, until_s=asked_at_s + self._lease_s)

    def _renew_shards(self, renewals: Renewals) -> None:
        asked_at_s = self._clock.boot_s()
        epochs = renewals.renew_shards(self._owner, lease_s=self._shard_lease_s)
        self._call(self._on_shards, epochs, asked_at_s)

    def _call(self, callback: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            # The loop has closed: `run()` was cancelled, and its leases end by themselves.
            self._stop.set()
