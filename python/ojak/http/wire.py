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
_INTERIM_END: Final = 200
_SWITCHING_PROTOCOLS: Final = 101


class Wire(ResponseHandler):
    """aiohttp's protocol for one connection, which also keeps what an answer's fate depends on.

    Attributes:
        authority: whose connection it is.
        awaiting: a request is out, and the head of its final answer has not arrived.
        heard_at_s: when the last byte came, or the request began (`boot_s`).
        head: all bytes that came since the request began, up to the end of the head.
        interim: how many 1xx answers came.
        user: whose request uses it, or None.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, lost: "Callable[..., None]") -> None:
        super().__init__(loop=loop)
        self.authority = ""
        self.awaiting = False
        self.heard_at_s = 0.0
        self.head = b""
        self.interim = 0
        self.user: object | None = None
        self._lost = lost
        self._ended_at_s = 0.0
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
        return super().is_connected() and not (self._poll is not None and self.user is None and self._poll.poll(0))

    def begin(self, user: object, now_s: float) -> None:
        """A request of `user` begins."""
        self.user = user
        self.awaiting = True
        self.heard_at_s = now_s
        self.head = b""
        self.interim = 0

    def end(self, user: object, now_s: float) -> None:
        """The request of `user` is over. The next one may have begun already: then it is nobody's business any more."""
        if self.user is not user:
            return
        self.user = None
        self.awaiting = False
        self.head = b""
        self._ended_at_s = now_s

    def sending(self) -> bool:
        """Whether bytes of the request are still waiting for the peer to take them."""
        transport = self.transport
        return isinstance(transport, asyncio.WriteTransport) and transport.get_write_buffer_size() > 0

    def give_up(self) -> None:
        """Wake who waits for the answer, with an error."""
        self.set_exception(TimeoutError("no answer in time"))

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and keep what it would throw away with a broken body."""
        self.heard_at_s = boot_s()
        if not self.awaiting:
            super().data_received(data)
            return
        self.head = self.head + data if self.head else data
        super().data_received(data)
        if len(self.head) > MAX_HEAD_BYTES and self.awaiting:
            self.set_exception(HttpProcessingError(message="the answer's head is too long"))

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a parsed head."""
        code = data[0].code
        if code >= _INTERIM_END or code == _SWITCHING_PROTOCOLS:
            self.awaiting = False
        else:
            self.interim += 1
        super().feed_data(data, size)

    def close(self) -> None:
        """Close from our side. A TLS peer that does not say goodbye holds the descriptor for a second only."""
        self._closed_by_us = True
        transport = self.transport
        super().close()
        if transport is not None and transport.get_extra_info("sslcontext") is not None and self._abort is None:
            self._abort = self._loop.call_later(_GOODBYE_S, transport.abort)

    def abort(self) -> None:
        """Break from our side."""
        self._closed_by_us = True
        super().abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the owner, and whether the server ended it right after an answer without having said so."""
        just_now = boot_s() - self._ended_at_s < _JUST_NOW_S
        unannounced = just_now and not self._closed_by_us and self.user is None
        self._poll = None
        if self._abort is not None:
            self._abort.cancel()
            self._abort = None
        super().connection_lost(exc)
        self._lost(self, unannounced=unannounced)
