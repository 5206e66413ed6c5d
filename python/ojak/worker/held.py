# SPDX-License-Identifier: Apache-2.0
"""What a `run()` holds leases of, and until when it may believe in them by its own clock (rule D, trust)."""

from collections.abc import Iterable
from typing import Protocol

from ojak.clock import Clock


class Lease(Protocol):
    """What is leased: a delivery, or a job of another kind."""

    @property
    def id(self) -> bytes:
        """Of its row."""
        ...

    @property
    def stamp(self) -> bytes:
        """Of its lease."""
        ...


class Held:
    """The leases of one `run()`: written by its loop, read by the thread that renews them.

    Trust counts from before the statement that took or renewed a lease was issued, so that it never outlasts what the
    database has.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stamps: dict[bytes, bytes] = {}
        self._trust: dict[bytes, float] = {}

    def take(self, jobs: Iterable[Lease], *, until_s: float) -> None:
        """Jobs were leased; believe in it until `until_s` on the clock for deadlines."""
        for job in jobs:
            self._stamps[job.id] = job.stamp
            self._trust[job.stamp] = until_s

    def drop(self, ids: Iterable[bytes]) -> None:
        """Leases ended: stored, handed back or taken."""
        for row_id in ids:
            self._stamps.pop(row_id, None)

    def ids(self) -> list[bytes]:
        """The ids of everything that is leased."""
        return list(self._stamps)

    def trust_left_s(self, job: Lease) -> float:
        """For how many seconds the lease of a job may still be believed; 0 or less: not at all."""
        if self._stamps.get(job.id) != job.stamp:
            return 0.0
        return self._trust.get(job.stamp, 0.0) - self._clock.boot_s()

    def leases(self) -> dict[bytes, list[bytes]]:
        """Ids by stamp: what there is to renew. Callable from another thread."""
        by_stamp: dict[bytes, list[bytes]] = {}
        for row_id, stamp in list(self._stamps.items()):
            by_stamp.setdefault(stamp, []).append(row_id)
        return by_stamp

    def renewed(self, stamps: Iterable[bytes], *, until_s: float) -> None:
        """Leases under these stamps were renewed."""
        for stamp in stamps:
            if stamp in self._trust:
                self._trust[stamp] = until_s

    def forget_unused(self) -> None:
        """Let go of the trust of stamps that no lease has any more."""
        used = set(self._stamps.values())
        for stamp in [stamp for stamp in self._trust if stamp not in used]:
            del self._trust[stamp]
