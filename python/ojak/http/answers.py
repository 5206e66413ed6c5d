# SPDX-License-Identifier: Apache-2.0
"""Reads answers for the aiohttp transport: the head counts, the body hardly, and none of it for long."""

import asyncio
from typing import Final

import aiohttp
from aiohttp import hdrs
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader
from multidict import istr

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


async def read_answer(
    message: RawResponseMessage, content: StreamReader, wire: Wire, flight: Flight, body_s: float
) -> PostAnswer:
    """Return what an answer says, now that its head is there.

    Its body is read to 4 KiB and for `body_s` at most; where that is not all of it, the connection cannot be used
    again. Raises ExchangeError if it switches protocols, or has a status that is none.
    """
    status: int = message.code
    if status == _SWITCHING_PROTOCOLS or status < 100:
        # aiohttp takes such an answer for complete, and the connection for usable.
        wire.force_close()
        raise ExchangeError(
            f"{flight.authority}: it switched protocols unasked, or answered without a status",
            reason=FaultReason.BAD_ANSWER,
            maybe_delivered=True,
            phases=flight.phases(boot_s()),
        )
    delivered = 200 <= status < 300
    if content.is_eof():
        body_head = b""
        if content.total_bytes > MAX_BODY_HEAD_BYTES:
            wire.force_close()
        if not delivered and content.exception() is None:
            body_head = content.read_nowait(MAX_BODY_HEAD_BYTES)
    else:
        body_head = await _read_rest(message, content, wire, min(body_s, flight.deadline_s - boot_s()))
    field = message.headers.get
    return PostAnswer(
        status=status,
        content_type=_clean(field(hdrs.CONTENT_TYPE)),
        accept_signature=_clean(field(_ACCEPT_SIGNATURE)),
        retry_after=None if delivered else _clean(field(hdrs.RETRY_AFTER)),
        location=None if delivered else _clean(field(hdrs.LOCATION)),
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


async def _read_rest(message: RawResponseMessage, content: StreamReader, wire: Wire, within_s: float) -> bytes:
    """Read a body that did not come with its head: not for long, not for much, and whatever goes wrong."""
    body = b""
    try:
        if _announced_bytes(message) <= MAX_BODY_HEAD_BYTES or message.code >= 300:
            async with asyncio.timeout(within_s):
                while len(body) < MAX_BODY_HEAD_BYTES and (
                    piece := await content.read(MAX_BODY_HEAD_BYTES - len(body))
                ):
                    body += piece
    except (aiohttp.ClientError, OSError):
        # The head has said everything; what the body lacks changes nothing.
        pass
    finally:
        if not content.at_eof():
            wire.force_close()
    return body


def _announced_bytes(message: RawResponseMessage) -> int:
    length = message.headers.get(hdrs.CONTENT_LENGTH, "0")
    return int(length) if length.isascii() and length.isdigit() else 0


def _clean(value: str | None) -> str | None:
    """A field value that can be stored and shown: printable ASCII, and not too long."""
    if value is None or (len(value) <= _MAX_VALUE and value.isascii() and value.isprintable()):
        return value
    return ascii(value[:_MAX_VALUE])[1:-1][:_MAX_VALUE]
