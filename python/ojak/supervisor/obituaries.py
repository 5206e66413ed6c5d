# SPDX-License-Identifier: Apache-2.0
"""The deaths that no living worker has dealt with yet."""

from dataclasses import dataclass
from typing import Final

from ojak.supervisor.frames import Obituary

RESEND_S: Final = 30.0


@dataclass(slots=True, kw_only=True)
class _Notice:
    obituary: Obituary
    carrier: int | None = None
    sent_s: float = 0.0


class Obituaries:
    """Which deaths are told to whom, until one worker has acknowledged each.

    A notice goes to one worker at a time; to the next when that one dies, or is silent for half a minute. Dealing
    with one twice is harmless. Pure: it is told the time.
    """

    __slots__ = ("_next_number", "_notices")

    def __init__(self) -> None:
        self._notices: dict[int, _Notice] = {}
        self._next_number = 1

    def __len__(self) -> int:
        return len(self._notices)

    def add(self, stamp: bytes, begun: list[bytes]) -> Obituary:
        """A worker with this stamp died, having begun these."""
        obituary = Obituary(number=self._next_number, stamp=stamp, begun=tuple(begun))
        self._notices[self._next_number] = _Notice(obituary=obituary)
        self._next_number += 1
        return obituary

    def waiting(self, now_s: float) -> list[Obituary]:
        """Those that nobody is dealing with, oldest first."""
        return [
            notice.obituary
            for notice in self._notices.values()
            if notice.carrier is None or now_s - notice.sent_s >= RESEND_S
        ]

    def last_carrier(self, number: int) -> int | None:
        """The worker that was told last."""
        return self._notices[number].carrier

    def sent(self, number: int, carrier: int, now_s: float) -> None:
        """The worker in slot `carrier` was told."""
        notice = self._notices[number]
        notice.carrier, notice.sent_s = carrier, now_s

    def buried(self, number: int) -> bool:
        """A worker has dealt with it; answers whether that was still waited for."""
        return self._notices.pop(number, None) is not None

    def carrier_died(self, carrier: int) -> None:
        """What was told to the worker in slot `carrier` is told to another."""
        for notice in self._notices.values():
            if notice.carrier == carrier:
                notice.carrier = None
