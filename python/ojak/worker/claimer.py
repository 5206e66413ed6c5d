# SPDX-License-Identifier: Apache-2.0
"""A claimer: leases about as much of its line as will start within a second, and looks again when there is reason."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ojak.breaker.admission import Admission, Probe, Verdict
from ojak.clock import Clock
from ojak.config import DelivererConfig
from ojak.model.job import Job, Priority
from ojak.store.claim import ClaimedHost, ReadyHost, claim, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.hand_back import undo_claim
from ojak.store.supersede import superseded
from ojak.store.together import together
from ojak.worker.bodies import Bodies
from ojak.worker.circuits import Circuits
from ojak.worker.gates import Gates
from ojak.worker.held import Held
from ojak.worker.holding import Holding
from ojak.worker.lanes import Lanes
from ojak.worker.loops import pause
from ojak.worker.ownership import Ownership
from ojak.worker.probes import Probes
from ojak.worker.standings import Standings

_log = logging.getLogger("ojak.worker.claim")

_APART_S: Final = {Priority.SMALL: 0.02, Priority.FANOUT: 0.2}
"""Claims that find little are at least so far apart: ten thousand wake-ups must not make ten thousand claims, and what
has come together in the meantime costs no more to claim than a single job. A small send does not wait for company."""
_HOSTS: Final = 128
_PER_LANE: Final = 64
_UNPROVEN: Final = 16
_GIVEN_UP: Final = 16
"""So many jobs of an unavailable host end in a claim: each is an outcome to be stored, and there may be many hosts."""
_PROBE_AGAIN_S: Final = 5.0
"""A host of which there is nothing to probe with, or whose slots a former owner holds, is looked at again so soon."""
_RATE_WEIGHT: Final = 0.3
_MEASURED_S: Final = 0.25
_FINISH_S: Final = 5.0


class Claimer:
    """Keeps one line of the lanes filled.

    Args:
        db: the queue.
        owner: the stamp of this `run()`.
        priority: the line.
        ownership: which shards may be claimed.
        lanes, held, standings, bodies: what claimed jobs go into.
        holding: which senders and inboxes are held.
        gates: which hosts are held though their records may not have said so.
        circuits, probes: which hosts may be sent to.
        clock: for trust and rates.
        config: leases, and how far ahead.
        on_claimed: called when jobs were added to the lanes.
        on_given_up: called with jobs of unavailable hosts, which end at once.
        on_held: called with jobs that were claimed of a host that is held: to be handed back.
        on_superseded: called with leased jobs that were taken back before they were begun.
        may_claim: whether there is room for outcomes, and not everything is paused.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        owner: bytes,
        priority: Priority,
        ownership: Ownership,
        lanes: Lanes,
        held: Held,
        holding: Holding,
        gates: Gates,
        standings: Standings,
        bodies: Bodies,
        circuits: Circuits,
        probes: Probes,
        clock: Clock,
        config: DelivererConfig,
        on_claimed: Callable[[], None],
        on_given_up: Callable[[Sequence[Job]], None],
        on_held: Callable[[Sequence[Job]], None],
        on_superseded: Callable[[Sequence[Job]], None],
        may_claim: Callable[[], bool],
    ) -> None:
        self._db = db
        self._owner = owner
        self._priority = priority
        self._ownership = ownership
        self._lanes = lanes
        self._held = held
        self._holding = holding
        self._gates = gates
        self._standings = standings
        self._bodies = bodies
        self._clock = clock
        self._config = config
        self._circuits = circuits
        self._probes = probes
        self._on_claimed = on_claimed
        self._on_given_up = on_given_up
        self._on_held = on_held
        self._on_superseded = on_superseded
        self._may_claim = may_claim
        self._woken = asyncio.Event()
        self._low = asyncio.Event()
        self._finished = 0
        self._rate_per_s = 0.0
        self._measured_at_s = clock.boot_s()
        self._more = False
        self._claiming: asyncio.Future[int] | None = None
        self._unclear: tuple[bytes, Sequence[ReadyHost]] | None = None
        self._unclear_probes: Sequence[Probe] = ()

    def wake(self) -> None:
        """Look: there may be work."""
        self._woken.set()

    def finished(self) -> None:
        """A job left its slot; when few wait and there may be more, claim more."""
        self._finished += 1
        if self._more and self._is_low():
            self._low.set()

    def _is_low(self) -> bool:
        return self._lanes.backlog_of(self._priority, proven=True) <= self._target() // 2

    def _target(self) -> int:
        """How many jobs of proven hosts to hold that have not begun: a second of work, and enough to fill the slots."""
        return max(2 * self._lanes.concurrency, int(self._rate_per_s * self._config.lease_ahead_s))

    def _wants(self, *, proven: bool) -> int:
        """How many jobs to claim. Unproven hosts have a room of their own, or the dead would fill the living's."""
        target = self._target() if proven else max(_UNPROVEN, self._lanes.concurrency)
        return target - self._lanes.backlog_of(self._priority, proven=proven)

    def _measure(self) -> None:
        now_s = self._clock.boot_s()
        passed_s = now_s - self._measured_at_s
        if passed_s >= _MEASURED_S:
            rate = self._finished / passed_s
            # Up at once, down slowly: a pause of the source is no reason to forget how fast this machine is.
            self._rate_per_s = max(rate, self._rate_per_s + _RATE_WEIGHT * (rate - self._rate_per_s))
            self._finished, self._measured_at_s = 0, now_s

    async def step(self) -> None:
        """Wait until there is reason to look, then claim once."""
        self._measure()
        began_s = self._clock.boot_s()
        self._woken.clear()
        self._low.clear()
        # Hosts that are left out because enough of them waits here may have more.
        self._more = bool(self._lanes.busy(self._priority))
        claimed = want = 0
        if self._may_claim():
            want = self._wants(proven=True)
            claimed = await self._uncut()
            self._more |= claimed > 0
        if claimed < max(1, want // 2):
            await asyncio.sleep(max(0.0, began_s + _APART_S[self._priority] - self._clock.boot_s()))
        if not (claimed and self._is_low()):
            await self._until_needed()

    async def _uncut(self) -> int:
        """Claim, to the end also when the loop is cancelled: half a claim would hide its hosts for a whole lease."""
        self._claiming = asyncio.ensure_future(self._claim())
        return await asyncio.shield(self._claiming)

    async def finish(self) -> bool:
        """Wait for the claim that is under way, whose jobs are then in the lanes. Gives whether it has ended."""
        claiming = self._claiming
        if claiming is not None:
            await asyncio.wait([claiming], timeout=_FINISH_S)
        return claiming is None or claiming.done()

    async def _until_needed(self) -> None:
        """Wait until woken and short of work, until work runs low, or until it is time to look without a reason."""
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._low.wait()),
            asyncio.ensure_future(pause(self._config.poll_every_s)),
        ]
        if self._is_low() or self._priority is Priority.SMALL:
            # Else there is enough to do, and the wake-up is found set when there no longer is.
            waits.append(asyncio.ensure_future(self._woken.wait()))
        self._more |= self._woken.is_set()
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _claim(self) -> int:
        want = max(self._wants(proven=True), self._lanes.per_host)
        quick, others = min(want, _HOSTS), min(self._wants(proven=False), _HOSTS)
        epochs = self._ownership.epochs
        read_at_s = self._clock.boot_s()
        if self._unclear is not None:
            await self._undo(*self._unclear)
        if not epochs:
            return 0
        await self._holding.load_for(epochs)
        hosts = await ready_hosts(
            self._db,
            shards=list(epochs),
            priority=self._priority,
            busy=self._lanes.busy(self._priority),
            quick=quick,
            others=others,
            lately_s=self._config.outage_good_s,
        )
        self._lanes.expect_proven(self._priority, sum(host.quick for host in hosts) == quick)
        if not hosts:
            return 0
        for host in hosts:
            self._standings.learn(host)
        asked_at_s = self._clock.boot_s()
        admitted = await self._circuits.admit(hosts)
        hosts = [host for host in hosts if _claimable(admitted[host.authority])]
        if not hosts:
            return 0
        each = -(-want // len(hosts))
        stamp = secrets.token_bytes(16)
        probes = {name: answer.probe for name, answer in admitted.items() if answer.probe is not None}
        self._unclear = (stamp, hosts)
        self._unclear_probes = list(probes.values())
        claimed = await claim(
            self._db,
            hosts,
            owner=self._owner,
            stamp=stamp,
            epochs=epochs,
            priority=self._priority,
            share=lambda host, foreign: self._share(host, foreign, each, admitted[host.authority]),
            lease_s=self._config.lease_s,
            max_age_s=self._config.max_age_s,
            probed=list(probes),
            behind=self._holding.behind if self._holding.any else None,
        )
        count = await self._take(claimed, admitted, read_at_s=read_at_s, until_s=asked_at_s + self._config.lease_s)
        self._unclear, self._unclear_probes = None, ()
        unused = [probe for probe in probes.values() if not self._probes.is_held(probe)]
        await self._probes.give_back_unused(unused, after_s=_PROBE_AGAIN_S)
        return count

    async def _undo(self, stamp: bytes, hosts: Sequence[ReadyHost]) -> None:
        """Undo a claim that an error cut off."""
        authorities = [host.authority for host in hosts]
        count = await undo_claim(self._db, authorities, stamp=stamp, lease_s=self._config.lease_s)
        await self._probes.give_back_unused(self._unclear_probes, after_s=0.0)
        _log.warning("a claim was cut off; undone", extra={"hosts": len(hosts), "jobs": count})
        self._unclear, self._unclear_probes = None, ()

    def _share(self, host: ReadyHost, foreign: int, each: int, admission: Admission) -> int:
        """How many jobs of a host to lease: what it can answer within the time ahead, at least its free slots."""
        if admission.verdict is Verdict.HOLD:
            return _GIVEN_UP  # they need no slot
        slots = (1 if admission.one_at_a_time else self._standings.slots(host.authority)) - foreign
        if slots <= 0:
            return 0
        waiting = self._lanes.waiting_of(host.authority, self._priority)
        if not self._standings.proven(host.authority):
            return max(0, slots - waiting)
        answer_s = max(0.001, (self._standings.answer_ms(host.authority) or 0.0) / 1000)
        can = int(slots * self._config.lease_ahead_s / answer_s)
        return max(0, min(max(slots, each), max(slots, can), _PER_LANE) - waiting)

    async def _take(
        self,
        claimed: Sequence[ClaimedHost],
        admitted: Mapping[str, Admission],
        *,
        read_at_s: float,
        until_s: float,
    ) -> int:
        jobs = [job for item in claimed for job in item.jobs]
        # Before anything is held: if one of them cannot be read now, the claim is undone.
        _, dropped = await together(self._bodies.load([job.body for job in jobs]), superseded(self._db, jobs))
        self._held.take(jobs, until_s=until_s)
        if dropped:
            self._on_superseded([job for job in jobs if job.id in dropped])
        for item in claimed:
            admission = admitted[item.host.authority]
            wanted = [job for job in item.jobs if job.id not in dropped] if dropped else item.jobs
            if admission.verdict is Verdict.HOLD:
                self._on_given_up(wanted)
                continue
            if admission.probe is not None and item.probe is not None and item.probe not in dropped:
                self._probes.take(item.probe, admission.probe, until_s=until_s)
            if self._gates.shut_since(item.host.authority, read_at_s) or (
                admission.probe is None and self._circuits.opened_since(item.host.authority, read_at_s)
            ):
                # It asked for no more, or its breaker opened, while its jobs were being claimed.
                self._on_held(wanted)
                continue
            self._lanes.add(
                item.host.authority,
                item.host.shard,
                wanted,
                proven=self._standings.proven(item.host.authority),
                foreign=item.foreign,
                slots=self._standings.slots(item.host.authority),
                limit=1 if admission.one_at_a_time or admission.probe is not None else None,
            )
        if jobs:
            self._on_claimed()
        return len(jobs)


def _claimable(admission: Admission) -> bool:
    """Whether jobs are to be leased: to be sent, or to be given up on."""
    return admission.verdict is not Verdict.HOLD or admission.unavailable
