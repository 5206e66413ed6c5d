# SPDX-License-Identifier: Apache-2.0
"""One connection to the farm: reads requests, has them looked at and entered, and lets the host's behaviour answer.

This is the farm's hot path. It shares two cores with what it measures, so it is a bare protocol on uvloop: no
framework, no task a request, one write an answer.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Protocol, cast

from ojak.farm.arrival import UNASKED, VERIFIED, Ending
from ojak.farm.behaviour import Player, render
from ojak.farm.floor import Floor
from ojak.farm.host import Host
from ojak.farm.inspector import UNSIGNED, Finding
from ojak.farm.ledger_book import Row
from ojak.farm.request import Head, Malformed
from ojak.farm.request_buffer import MAX_WAITING_BYTES, RequestBuffer

_LINGER_OFF = struct.pack("ii", 1, 0)
_CHUNKS_A_STEP = 16

_NOT_FOUND = render(404)
_WRONG_TYPE = render(415)
_UNASKED = Finding(None, "", UNASKED)


class Owner(Protocol):
    """Who listens for one host only, and wants to know when its script may have moved."""

    def script_moved(self) -> None:
        """A request was counted."""


def _fixed(wire: bytes, status: int) -> Player:
    return lambda exchange: exchange.answer(wire, status)


_play_not_found = _fixed(_NOT_FOUND, 404)
_play_wrong_type = _fixed(_WRONG_TYPE, 415)


class Connection(asyncio.Protocol):
    """A server's side of one HTTP/1.1 connection; also the `Exchange` of the request that is open on it."""

    __slots__ = (
        "_arrived",
        "_chunks",
        "_close_asked",
        "_floor",
        "_host",
        "_loop",
        "_number",
        "_owner",
        "_paused",
        "_prefix",
        "_row",
        "_served",
        "_serving",
        "_then",
        "_timer",
        "_transport",
        "rounds",
    )

    def __init__(self, floor: Floor, loop: asyncio.AbstractEventLoop, *, tls: bool, owner: Owner | None = None) -> None:
        self._floor = floor
        self._loop = loop
        self._owner = owner
        self._prefix = "https://" if tls else "http://"
        self._number = 0
        self._transport: asyncio.Transport | None = None
        self._host: Host | None = None
        self._serving: Host | None = None
        self._row: Row | None = None
        self._arrived = RequestBuffer()
        self._served = 0
        self._close_asked = False
        self._timer: asyncio.Handle | None = None
        self._chunks: Iterator[bytes] | None = None
        self._then: Callable[[], None] | None = None
        self._paused = False
        self.rounds = 0

    @property
    def busy(self) -> bool:
        """Whether a request is open on it."""
        return self._row is not None

    @property
    def random(self) -> Random:
        """The chance of the host that serves the open request."""
        assert self._serving is not None
        return self._serving.random

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See whom the sender connected to."""
        self._transport = cast(asyncio.Transport, transport)
        floor = self._floor
        address = transport.get_extra_info("sockname")[0]
        # the listener takes what comes to any address, so that one is enough for all hosts; only loopback is ours
        if not address.startswith("127.") or len(floor.connections) >= floor.connections_max:
            floor.rejected["not-loopback" if not address.startswith("127.") else "too-many-connections"] += 1
            transport.close()
            return
        floor.connections.add(self)
        self._number = floor.next_connection()
        host = self._host = floor.by_address.get(address)
        if host is not None:
            host.connections += 1
            if host.hangs_up_at_connect:
                host.next_player()(self)
        if floor.watchers:
            floor.moved()

    def data_received(self, data: bytes) -> None:
        """Take bytes; serve what is complete."""
        self.rounds = 0
        self._arrived.add(data)
        if self._row is None:
            self._pump()
        elif self._arrived.waiting_bytes > MAX_WAITING_BYTES:
            self.reset()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's name
        """The sender left, or we closed."""
        self._floor.connections.discard(self)
        if self._row is not None:
            self._end(Ending.LEFT)
        self._transport = None

    def pause_writing(self) -> None:
        """The sender reads slower than we write."""
        self._paused = True

    def resume_writing(self) -> None:
        """The sender has caught up."""
        self._paused = False
        if self._chunks is not None:
            self._stream_on()

    # requests

    def _pump(self) -> None:
        # one request at a time: what a sender writes ahead waits for the answer before it
        while self._row is None:
            transport = self._transport
            if transport is None or transport.is_closing():
                return
            try:
                request = self._arrived.next_request()
            except Malformed as error:
                self._reject(error.status, error.reason)
                return
            if request is None:
                return
            self._serve(*request)

    def _serve(self, head: Head, body: bytes) -> None:
        floor = self._floor
        host = floor.by_authority.get(head.host)
        if host is None or (self._host is not None and host is not self._host):
            self._reject(421, "misdirected")
            return
        if head.method != "POST":
            self._reject(405, "method")
            return
        contents = floor.inspector.contents(body)
        inbox = self._prefix + head.host + head.target
        if host.signed:
            finding = floor.inspector.signature(head, inbox, body)
            takes = bool(host.schemes) if finding is UNSIGNED else finding.scheme in host.schemes
            good = takes and finding.verdict == VERIFIED
            if takes and not good:
                host.unverified += 1
                floor.book.unverified += 1
        else:
            finding, takes, good = _UNASKED, True, True
        host.requests += 1
        host.open = open_requests = host.open + 1
        host.peak = max(host.peak, open_requests)
        self._serving = host
        self._close_asked = head.close
        self._served += 1
        self._row = floor.book.begin(
            host=host.plan.name,
            inbox=inbox,
            activity=contents.activity,
            body_sha256=contents.sha256,
            scheme=finding.scheme or "",
            key_id=finding.key_id,
            verdict=finding.verdict,
            takes=takes,
            connection=self._number,
            open_requests=open_requests,
        )
        self._player(host, head, good=good)(self)
        if floor.watchers:
            floor.moved()
        if self._owner is not None:
            self._owner.script_moved()

    @staticmethod
    def _player(host: Host, head: Head, *, good: bool) -> Player:
        # a refusal is no step of the script: "503 twice, then accept" means two answers to whoever asks
        if host.accepts_now():
            if not good:
                return host.refusal
            plan = host.plan
            if plan.only_paths is not None and head.target not in plan.only_paths:
                return _play_not_found
            if plan.content_types is not None and head.content_type not in plan.content_types:
                return _play_wrong_type
        return host.next_player()

    def _reject(self, status: int, reason: str) -> None:
        """Answer what reaches no inbox, and close. What was meant for a host stands in its ledger as not verified."""
        floor = self._floor
        floor.rejected[reason] += 1
        host = self._host
        if host is not None and reason != "method":
            row = floor.book.begin(
                host=host.plan.name,
                inbox=host.origin,
                activity="",
                body_sha256="",
                scheme="",
                key_id="",
                verdict=reason,
                takes=host.signed,
                connection=self._number,
                open_requests=host.open + 1,
            )
            if host.signed:
                host.unverified += 1
                floor.book.unverified += 1
            floor.book.status(row, status)
            floor.book.end(row)
        if self._transport is not None:
            self._transport.write(render(status, (("Content-Type", "text/plain"),), reason.encode(), close=True))
            self._transport.close()
        if floor.watchers:
            floor.moved()

    def _end(self, ending: str) -> None:
        row, host = self._row, self._serving
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._chunks = self._then = None
        self.rounds = 0
        if row is None or host is None:
            return
        self._row = None
        host.open -= 1
        self._floor.book.end(row, ending)
        if self._floor.watchers:
            self._floor.moved()

    def expire(self) -> None:
        """Close: nothing happened on it for too long."""
        if self._row is not None:
            self._end(Ending.CLOSED)
        if self._transport is not None:
            self._transport.close()

    # what a behaviour calls (Exchange)

    def answer(self, wire: bytes, status: int, *, close: bool = False) -> None:
        """Write a whole answer, count its status, and end."""
        self.write(wire)
        self.head_written(status)
        self.finish(close=close)

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        if self._transport is not None:
            self._transport.write(data)

    def head_written(self, status: int) -> None:
        """Say that a final head has been written whole."""
        if self._row is not None and self._serving is not None:
            self._floor.book.status(self._row, status)
            if 200 <= status <= 299:
                self._serving.accepted += 1

    def finish(self, *, close: bool = False) -> None:
        """End: the answer is complete."""
        host = self._serving
        was_deferred = self._timer is not None or self._chunks is not None
        self._end(Ending.ANSWERED)
        close_after = None if host is None else host.plan.close_after
        if close or self._close_asked or (close_after is not None and self._served >= close_after):
            if self._transport is not None:
                self._transport.close()
        elif was_deferred and self._arrived.waiting_bytes:
            self._pump()

    def close(self) -> None:
        """End by closing the connection in order (FIN)."""
        self._end(Ending.CLOSED)
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """End by resetting the connection (RST)."""
        self._end(Ending.RESET)
        transport = self._transport
        if transport is not None:
            sock: socket.socket | None = transport.get_extra_info("socket")
            if sock is not None:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
            transport.abort()

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call back after `delay_s` seconds, unless the sender leaves first."""
        self._timer = self._loop.call_later(delay_s, call)

    def stream(self, chunks: Iterator[bytes], then: Callable[[], None]) -> None:
        """Write chunks no faster than the sender reads them, then call `then`."""
        self._chunks, self._then = chunks, then
        self._stream_on()

    def _stream_on(self) -> None:
        chunks, then = self._chunks, self._then
        if chunks is None or then is None:
            return
        for _ in range(_CHUNKS_A_STEP):
            if self._paused or self._transport is None:
                return
            chunk = next(chunks, None)
            if chunk is None:
                then()
                return
            self._transport.write(chunk)
        # others want their turn
        self._timer = self._loop.call_soon(self._stream_on)
