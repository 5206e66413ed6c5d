# SPDX-License-Identifier: Apache-2.0
"""One request under way: how far it has come, and by when it must be over."""

import asyncio
from enum import StrEnum

from ojak.http.guard import RefusedAddress
from ojak.http.transport import PostPhases
from ojak.http.wire import Wire, boot_s

__all__ = ["Flight", "Phase", "boot_s"]


class Phase(StrEnum):
    """How far a request has come."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    EXCHANGE = "exchange"


class Flight:
    """A request under way. Its times are by the clock that goes on while the machine sleeps, as trust in a lease is.

    Attributes:
        authority: whom it goes to.
        deadline_s: by when it must be over.
        connect_s: how long connecting may take, from the first address dialled.
        phase: how far it has come.
        limit: what ends it while it connects.
        refused: the last address that the guard refused, if any.
        dialled: whether any address passed the guard.
        ipv6: whether the address dialled last was an IPv6 one.
        wire: its connection, once it has one.
        sent: whether it is out, so that the inbox may have it.
        reused: whether that connection was there before.
    """

    __slots__ = (
        "_answered_s",
        "_began_s",
        "_connected_s",
        "_exchange_s",
        "_resolved_s",
        "authority",
        "connect_s",
        "deadline_s",
        "dialled",
        "ipv6",
        "limit",
        "phase",
        "refused",
        "reused",
        "sent",
        "wire",
    )

    def __init__(self, authority: str, began_s: float, deadline_s: float, connect_s: float) -> None:
        self.authority = authority
        self.deadline_s = deadline_s
        self.connect_s = connect_s
        self.phase = Phase.RESOLVE
        self.limit: asyncio.Timeout | None = None
        self.refused: RefusedAddress | None = None
        self.dialled = False
        self.ipv6 = False
        self.wire: Wire | None = None
        self.sent = False
        self.reused = True
        self._began_s = began_s
        self._resolved_s = self._connected_s = self._exchange_s = self._answered_s = 0.0

    def dialling(self, now_s: float) -> None:
        """An address is about to be dialled. The first one starts the time for connecting."""
        if self.phase is Phase.RESOLVE:
            self.phase = Phase.CONNECT
            self._resolved_s = now_s
            if self.limit is not None:
                loop_s = asyncio.get_running_loop().time()
                self.limit.reschedule(loop_s + min(self.connect_s, self.deadline_s - now_s))

    def handshaking(self, now_s: float) -> None:
        """TCP is up, TLS begins."""
        self.phase = Phase.TLS
        self._connected_s = now_s

    def exchanging(self, wire: Wire, now_s: float) -> None:
        """The request goes out over `wire`."""
        self.phase = Phase.EXCHANGE
        self.wire = wire
        self._exchange_s = now_s

    def answered(self, now_s: float) -> None:
        """The head of the answer is there."""
        self._answered_s = now_s

    def phases(self, now_s: float) -> PostPhases:
        """Where the time went, up to now for the phase that it is in."""
        if self.reused and self._exchange_s:
            return PostPhases(answer_ms=((self._answered_s or now_s) - self._exchange_s) * 1000)
        resolved_s = self._resolved_s or now_s
        up_s = self._exchange_s or now_s
        connected_s = self._connected_s or up_s
        return PostPhases(
            dns_ms=(resolved_s - self._began_s) * 1000,
            connect_ms=(connected_s - resolved_s) * 1000,
            tls_ms=(up_s - connected_s) * 1000,
            answer_ms=((self._answered_s or now_s) - up_s) * 1000,
        )
