# SPDX-License-Identifier: Apache-2.0
"""What a worker is doing, in memory that it shares with its supervisor and that outlives it.

A worker that is killed can no longer say what it had begun. So it writes that down as it goes, in a map that the
supervisor made before the fork: a few bytes of memory, no system call. After a death the supervisor reads it and
tells a living worker (the obituary): those leases end at once, and only what had begun counts as a death.
"""

import mmap
import struct
from typing import Final

from ojak.breaker.outage import OutageTallies

ID_BYTES: Final = 16
SLOTS: Final = 2048

_COUNTERS: Final = struct.Struct("=QQQ")
_STAMP_AT: Final = 0
_STAMPED_AT: Final = 16
_READY_AT: Final = 17
_COUNTERS_AT: Final = 24
_HEADER_BYTES: Final = 64


class FlightBoard:
    """A worker's stamp, its heartbeat and counters, and the ids of the deliveries that it has begun and not yet stored.

    One process writes; any process that shares the map reads. A reader of a dead writer's board never sees half of
    an id: a slot's flag is raised after its id is whole, and lowered before the slot is used again.

    Attributes:
        tallies: where the workers of this machine count together what they see of good hosts, or None.

    Args:
        tallies: likewise.
        slots: How many deliveries can be begun at a time. Beyond that they go unrecorded, which costs them nothing but
            their mention in an obituary.
    """

    __slots__ = ("_begun", "_flags_at", "_free", "_ids_at", "_map", "_stored", "slots", "tallies")

    def __init__(self, slots: int = SLOTS, *, tallies: OutageTallies | None = None) -> None:
        self.tallies = tallies
        self.slots = slots
        self._flags_at = _HEADER_BYTES
        self._ids_at = _HEADER_BYTES + slots
        self._map = mmap.mmap(-1, self._ids_at + slots * ID_BYTES)
        self._free = list(range(slots - 1, -1, -1))
        self._begun = 0
        self._stored = 0

    # The worker's side.

    def begin(self, job_id: bytes) -> int:
        """Note that the delivery `job_id` (16 bytes) is begun; answers the slot to clear, or -1 where none is free."""
        self._begun += 1
        if not self._free:
            return -1
        slot = self._free.pop()
        at = self._ids_at + slot * ID_BYTES
        self._map[at : at + ID_BYTES] = job_id
        self._map[self._flags_at + slot] = 1
        return slot

    def clear(self, slot: int) -> None:
        """Note that the outcome of what was begun in `slot` is stored. Once for each `begin`."""
        self._stored += 1
        if slot >= 0:
            self._map[self._flags_at + slot] = 0
            self._free.append(slot)

    def set_stamp(self, stamp: bytes) -> None:
        """Say under which stamp (16 bytes) this process owns its leases and shards, before it takes the first."""
        self._map[_STAMPED_AT] = 0
        self._map[_STAMP_AT : _STAMP_AT + ID_BYTES] = stamp
        self._map[_STAMPED_AT] = 1

    def mark_ready(self) -> None:
        """Say that the first look for work came through."""
        self._map[_READY_AT] = 1

    def beat(self) -> None:
        """Say that the event loop turns, with the counters as they are now."""
        beats, _, _ = _COUNTERS.unpack_from(self._map, _COUNTERS_AT)
        _COUNTERS.pack_into(self._map, _COUNTERS_AT, beats + 1, self._begun, self._stored)

    # The supervisor's side.

    @property
    def stamp(self) -> bytes | None:
        """The stamp of the process, or nothing if it never came to take a lease."""
        return self._map[_STAMP_AT : _STAMP_AT + ID_BYTES] if self._map[_STAMPED_AT] else None

    @property
    def ready(self) -> bool:
        """Whether the first look for work came through."""
        return bool(self._map[_READY_AT])

    @property
    def beats(self) -> int:
        """Heartbeats so far; only that it changes means anything."""
        return int(_COUNTERS.unpack_from(self._map, _COUNTERS_AT)[0])

    @property
    def begun(self) -> int:
        """Deliveries begun, as of the last heartbeat."""
        return int(_COUNTERS.unpack_from(self._map, _COUNTERS_AT)[1])

    @property
    def stored(self) -> int:
        """Deliveries begun whose outcome is stored, as of the last heartbeat."""
        return int(_COUNTERS.unpack_from(self._map, _COUNTERS_AT)[2])

    def snapshot(self) -> list[bytes]:
        """The ids of what is begun and not yet stored."""
        flags = self._map[self._flags_at : self._flags_at + self.slots]
        return [
            self._map[self._ids_at + slot * ID_BYTES : self._ids_at + (slot + 1) * ID_BYTES]
            for slot, flag in enumerate(flags)
            if flag
        ]

    def close(self) -> None:
        """Give the map back; a forked child does so with the boards of others."""
        self._map.close()
