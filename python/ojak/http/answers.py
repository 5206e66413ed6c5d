# SPDX-License-Identifier: Apache-2.0
"""Reads answers for the aiohttp transport: the head counts, the body hardly, and none of it for long."""

import asyncio
from typing import Final

import aiohttp
from aiohttp import hdrs
from multidict import istr

from ojak.http.connector import CURRENT
from ojak.http.flight import Flight, boot_s
from ojak.http.head import salvage_head
from ojak.http.transport import (
    MAX_BODY_HEAD_BYTES,
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    ExchangeError,
    FaultReason,
    PostAnswer,
)
from ojak.http.wire import Wire

_ACCEPT_SIGNATURE: Final = istr("Accept-Signature")
_MAX_VALUE: Final = 2048
_SWITCHING_PROTOCOLS: Final = 101


class Answer(aiohttp.ClientResponse):
    """Tells the flight which connection its request went out on, before anything can go wrong there."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Wait for the head."""
        wire = connection.protocol
        if isinstance(wire, Wire):
            now_s = boot_s()
            flight = CURRENT.get()
            wire.begin(flight, now_s)
            flight.exchanging(wire, now_s)
        return await super().start(connection)


async def read_answer(answer: aiohttp.ClientResponse, flight: Flight, body_s: float) -> PostAnswer:
    """Return what an answer says, once its head is there.

    Its body is read to 4 KiB and for `body_s` at most; where that is not all of it, the connection is closed. Raises
    ExchangeError if it switches protocols.
    """
    status, headers, content = answer.status, answer.headers, answer.content
    if status == _SWITCHING_PROTOCOLS:
        answer.close()
        if flight.wire is not None:
            # aiohttp takes the answer for complete, and the connection for usable.
            flight.wire.close()
        raise ExchangeError(
            f"{flight.authority}: it switched protocols unasked",
            reason=FaultReason.BAD_ANSWER,
            maybe_delivered=True,
            phases=flight.phases(boot_s()),
        )
    delivered = 200 <= status < 300
    if content.is_eof():
        body_head = b""
        if content.total_bytes > MAX_BODY_HEAD_BYTES and flight.wire is not None:
            flight.wire.close()
        if not delivered and content.exception() is None:
            body_head = content.read_nowait(MAX_BODY_HEAD_BYTES)
    else:
        body_head = await _read_rest(answer, min(body_s, flight.deadline_s - boot_s()))
    return PostAnswer(
        status=status,
        content_type=_clean(headers.get(hdrs.CONTENT_TYPE)),
        accept_signature=_clean(headers.get(_ACCEPT_SIGNATURE)),
        retry_after=None if delivered else _clean(headers.get(hdrs.RETRY_AFTER)),
        location=None if delivered else _clean(headers.get(hdrs.LOCATION)),
        body_head=body_head,
        reused=flight.reused,
        phases=flight.phases(0.0),
    )


def salvage_answer(flight: Flight) -> PostAnswer | None:
    """Return the answer whose head arrived before something broke that made the parser lose it, or None."""
    head = None if flight.wire is None else salvage_head(flight.wire.head, MAX_HEAD_BYTES, MAX_FIELDS)
    if head is None:
        return None
    now_s = boot_s()
    flight.answered(now_s)
    return PostAnswer(
        status=head.status,
        content_type=_clean(head.fields.get("content-type")),
        accept_signature=_clean(head.fields.get("accept-signature")),
        retry_after=_clean(head.fields.get("retry-after")),
        location=_clean(head.fields.get("location")),
        reused=flight.reused,
        phases=flight.phases(now_s),
    )


async def _read_rest(answer: aiohttp.ClientResponse, within_s: float) -> bytes:
    """Read a body that did not come with its head: not for long, not for much, and whatever goes wrong."""
    body = b""
    try:
        if (answer.content_length or 0) <= MAX_BODY_HEAD_BYTES or answer.status >= 300:
            async with asyncio.timeout(within_s):
                while len(body) < MAX_BODY_HEAD_BYTES and (
                    piece := await answer.content.read(MAX_BODY_HEAD_BYTES - len(body))
                ):
                    body += piece
    except (aiohttp.ClientError, OSError):
        # The head has said everything; what the body lacks changes nothing.
        pass
    finally:
        if not answer.content.at_eof():
            answer.close()
    return body


def _clean(value: str | None) -> str | None:
    """A field value that can be stored and shown: printable ASCII, and not too long."""
    if value is None or (len(value) <= _MAX_VALUE and value.isascii() and value.isprintable()):
        return value
    return ascii(value[:_MAX_VALUE])[1:-1][:_MAX_VALUE]
