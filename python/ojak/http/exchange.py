# SPDX-License-Identifier: Apache-2.0
"""One request and its answer over one connection.

aiohttp's own way from a session to an answer costs more than all else about a POST. Here its connections and its parser
are used without it: what is needed of them that aiohttp does not document is pinned by
tests/unit/http/test_aiohttp_surface.py.
"""

from typing import Final

import aiohttp

from ojak.http.answers import read_answer
from ojak.http.flight import Flight, boot_s
from ojak.http.transport import MAX_BODY_HEAD_BYTES, MAX_FIELDS, MAX_HEAD_BYTES, PostAnswer
from ojak.http.wire import Wire

_JOINED_BYTES: Final = 64 * 1024


async def exchange(wire: Wire, flight: Flight, head: bytes, body: bytes, body_s: float) -> PostAnswer:
    """Send a request, and read its answer (`read_answer`).

    All of it is handed to the socket's buffer at once, and then only the answer is waited for: an inbox may refuse a
    body that it has not read. How long it may take to read it is the wire's business, which knows what is still unsent.

    Raises what aiohttp or the socket say of a broken exchange, and ExchangeError.
    """
    now_s = boot_s()
    flight.exchanging(wire, now_s)
    wire.begin(now_s, flight.deadline_s)
    wire.set_response_params(
        read_until_eof=True,
        auto_decompress=False,
        read_bufsize=MAX_BODY_HEAD_BYTES,
        max_line_size=MAX_HEAD_BYTES,
        max_field_size=MAX_HEAD_BYTES,
        max_headers=MAX_FIELDS,
    )
    transport = wire.transport
    if transport is None or transport.is_closing():
        # Closed as soon as it was opened, before a byte of the request was out.
        raise wire.exception() or aiohttp.ServerDisconnectedError
    flight.sent = True
    if len(body) <= _JOINED_BYTES:
        transport.write(head + body)
    else:
        # The many deliveries of a large body share its bytes.
        transport.writelines((head, body))
    message, content = await wire.read()
    flight.answered(wire.heard_at_s)
    return await read_answer(message, content, wire, flight, body_s)
