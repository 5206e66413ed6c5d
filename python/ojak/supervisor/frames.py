# SPDX-License-Identifier: Apache-2.0
"""Messages between the supervisor and its children, over a socket pair that keeps their borders.

Few and small: heartbeats and what is begun travel through shared memory (`ojak.worker.board`). The end of the
stream is a message too: the other side is dead.
"""

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from ojak.worker.board import ID_BYTES

FRAME_MAX_BYTES: Final = 192 * 1024
_OBITUARY: Final = struct.Struct("=Q16sI")
_NUMBER: Final = struct.Struct("=q")


class FrameKind(IntEnum):
    """What a message says."""

    PLAN = 1
    """Preflight: what to run, as read from the settings."""
    LOCKED = 2
    """Supervisor: the data folder is ours."""
    MONGOD = 3
    """Preflight: the command of the embedded server, to be run now."""
    MONGOD_ENDED = 4
    """Supervisor: the embedded server ended; its exit code."""
    SET_UP = 5
    """Preflight: the database is ready; its URL."""
    READY = 6
    """Worker: the first look for work came through."""
    FAILED = 7
    """Child: one line with the reason why it ends."""
    OBITUARY = 8
    """Supervisor: a worker died; its stamp and what it had begun."""
    BURIED = 9
    """Worker: the obituary of that number is dealt with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message."""

    kind: FrameKind
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obituary:
    """That a worker died.

    Attributes:
        number: Counts obituaries, so that one can be told from another when it is acknowledged.
        stamp: The 16 bytes under which the dead process held its leases and shards.
        begun: The ids of the deliveries that it had begun and not stored.
    """

    number: int
    stamp: bytes
    begun: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """As it travels."""
        return _OBITUARY.pack(self.number, self.stamp, len(self.begun)) + b"".join(self.begun)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """As it arrived."""
        number, stamp, count = _OBITUARY.unpack_from(payload)
        ids = payload[_OBITUARY.size :]
        begun = tuple(ids[at : at + ID_BYTES] for at in range(0, count * ID_BYTES, ID_BYTES))
        return cls(number=number, stamp=stamp, begun=begun)


def pack_number(number: int) -> bytes:
    """A payload that is one number."""
    return _NUMBER.pack(number)


def unpack_number(payload: bytes) -> int:
    """The number of such a payload."""
    return int(_NUMBER.unpack(payload)[0])


class Link:
    """One end of the line between the supervisor and a child."""

    __slots__ = ("_socket",)

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Two ends; neither is inherited by a program that a child runs."""
        # Sequenced packets: each message arrives whole or not at all, so there are no lengths and no half frames.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), cls(theirs)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._socket.fileno()

    def set_timeout(self, timeout_s: float | None) -> None:
        """How long `send` and `receive` wait: 0 not at all, None for ever."""
        self._socket.settimeout(timeout_s)

    def send(self, kind: FrameKind, payload: bytes = b"") -> bool:
        """Send one message; answers whether it went out. It does not where the other side is dead or reads nothing."""
        try:
            self._socket.send(bytes([kind]) + payload)
        except (BlockingIOError, TimeoutError, ConnectionError):
            return False
        return True

    def receive(self) -> Frame | None:
        """The next message; None when the other side is dead.

        Raises:
            BlockingIOError: Nothing is there, and `set_timeout(0)` was called.
            TimeoutError: Nothing came in the time set.
        """
        try:
            data = self._socket.recv(FRAME_MAX_BYTES)
        except ConnectionError:
            return None
        return Frame(kind=FrameKind(data[0]), payload=data[1:]) if data else None

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
