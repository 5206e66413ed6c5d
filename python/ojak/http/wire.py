# SPDX-License-Identifier: Apache-2.0
"""One connection of the aiohttp transport: what it heard, when, and for which request."""

import asyncio
import select
from collections.abc import Callable
from typing import Final

from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from ojak.clock import SystemClock
from ojak.http.transport import MAX_HEAD_BYTES

boot_s: Final = SystemClock().boot_s
"""The clock of everything here. The loop's is no finer than a millisecond, and stands while the machine sleeps."""

_JUST_NOW_S: Final = 1.0
_GOODBYE_S: Final = 1.0
_INTERIM: Final = 100
_FINAL: Final = 200
_SWITCHING_PROTOCOLS: Final = 101


class Wire(ResponseHandler):
    """aiohttp's protocol for one connection, which also keeps what an answer's fate depends on.

    Attributes:
        authority: whose connection it is.
        idle: it has had a request, and has none.
        awaiting: a request is out, and the head of its final answer has not arrived.
        deadline_s: by when that request must be over (`boot_s`).
        heard_at_s: when the last byte came, or else the request was still going out (`boot_s`).
        head: all bytes that came since the request began, up to the end of the head.
        interim: how many 1xx answers came.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, lost: "Callable[..., None]") -> None:
        super().__init__(loop=loop)
        self.authority = ""
        self.idle = False
        self.awaiting = False
        self.deadline_s = 0.0
        self.heard_at_s = 0.0
        self.head = b""
        self.interim = 0
        self._lost = lost
        self._closed_by_us = False
        self._poll: select.poll | None = None
        self._abort: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        super().connection_made(transport)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            self._poll = select.poll()
            self._poll.register(raw.fileno(), select.POLLIN)

    def is_connected(self) -> bool:
        """Whether it can be used again.

        On an idle connection there is nothing to read but its end, which the kernel may know of before the loop does.
        Asking it costs a microsecond, and saves the attempt that a request on a closing connection would spend.
        """
        return super().is_connected() and not (self.idle and self._poll is not None and self._poll.poll(0))

    def begin(self, now_s: float, deadline_s: float) -> None:
        """A request begins, and must be over by `deadline_s`."""
        self.idle = False
        self.awaiting = True
        self.deadline_s = deadline_s
        self.heard_at_s = now_s
        self.interim = 0

    def end(self) -> None:
        """The request is over."""
        if self.awaiting or self.sending():
            # An answer that still comes would be taken for that of the next request, and the next request for the rest
            # of a body that was refused before it was read.
            self.awaiting = False
            self.force_close()
        self.idle = True
        self.head = b""

    def sending(self) -> bool:
        """Whether bytes of the request are still waiting for the peer to take them."""
        return self.transport is not None and self.transport.get_write_buffer_size() > 0

    def give_up(self) -> None:
        """Wake who waits for the answer, with an error."""
        self.set_exception(TimeoutError("no answer in time"))

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and keep what it would throw away with a broken body."""
        if self.awaiting:
            self.heard_at_s = boot_s()
            self.head = self.head + data if self.head else data
            super().data_received(data)
            if len(self.head) > MAX_HEAD_BYTES and self.awaiting:
                self.set_exception(HttpProcessingError(message="the answer's head is too long"))
        elif not self.idle:
            self.heard_at_s = boot_s()
            super().data_received(data)
        elif data:
            # Nobody asked for that (some servers say 408 before they hang up): it is no answer to what comes next.
            self.abort()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a parsed head. Of interim ones only their number counts."""
        code = data[0].code
        if self.awaiting and _INTERIM <= code < _FINAL and code != _SWITCHING_PROTOCOLS:
            self.interim += 1
            return
        self.awaiting = False
        super().feed_data(data, size)

    def close(self) -> None:
        """Close from our side. One that takes no more bytes, or says no goodbye in TLS, is waited for a second only."""
        self._closed_by_us = True
        transport = self.transport
        slow = transport is not None and (self.sending() or transport.get_extra_info("sslcontext") is not None)
        super().close()
        if transport is not None and slow and self._abort is None:
            self._abort = self._loop.call_later(_GOODBYE_S, transport.abort)

    def abort(self) -> None:
        """Break from our side."""
        self._closed_by_us = True
        super().abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the owner, and whether the server ended it right after an answer without having said so."""
        just_now = boot_s() - self.heard_at_s < _JUST_NOW_S
        unannounced = just_now and not self._closed_by_us and self.idle
        self._poll = None
        if self._abort is not None:
            self._abort.cancel()
            self._abort = None
        super().connection_lost(exc)
        self._lost(self, unannounced=unannounced)
