# SPDX-License-Identifier: Apache-2.0
"""`SendFlood`: tells small sends from a fan-out that is handed over as many of them (SPEC section 1, `Priority`)."""

from array import array
from collections import OrderedDict
from typing import Final

from ojak.clock import Clock

ANSWERS: Final = frozenset({"Accept", "Reject"})
"""Types of activities that somebody waits for, and that a thousand followers in an hour make a thousand of."""

_MINUTE_S: Final = 60.0
_SENDERS_MAX: Final = 4096


class SendFlood:
    """Counts the small sends of each sender within a minute, in this process.

    Keeps the times of the last `allowed` sends of each of the 4,096 senders that sent last. Those that are too many
    count on, so that a stream of sends stays one until it slows down.

    Args:
        clock: what tells the minute.
        allowed: so many small sends of one sender within a minute are small; what comes beyond is a fan-out.
    """

    __slots__ = ("_allowed", "_clock", "_senders")

    def __init__(self, clock: Clock, *, allowed: int) -> None:
        self._clock = clock
        self._allowed = allowed
        # The times of each sender, oldest first; the number says where the oldest stands once the array is full.
        self._senders: OrderedDict[str, tuple[array[float], list[int]]] = OrderedDict()

    def __len__(self) -> int:
        """How many senders are kept in mind."""
        return len(self._senders)

    def is_one_of_many(self, sender: str) -> bool:
        """Count a small send of `sender`; whether it comes beyond those that are allowed within a minute."""
        now_s = self._clock.boot_s()
        found = self._senders.get(sender)
        if found is None:
            self._senders[sender] = array("d", (now_s,)), [0]
            if len(self._senders) > _SENDERS_MAX:
                self._senders.popitem(last=False)
            return False
        self._senders.move_to_end(sender)
        times, oldest = found
        if len(times) < self._allowed:
            times.append(now_s)
            return False
        place = oldest[0]
        earliest_s = times[place]
        times[place] = now_s
        oldest[0] = (place + 1) % self._allowed
        return now_s - earliest_s < _MINUTE_S
