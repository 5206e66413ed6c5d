# SPDX-License-Identifier: Apache-2.0
"""Answers that try to hold a sender's slot, memory or CPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from typing import Annotated, Literal
from zlib import compressobj

from pydantic import ConfigDict, Field

from ojak.farm.behaviour.exchange import Exchange, Player
from ojak.farm.behaviour.respond import render

_CHUNK_BYTES = 65_536
_HEAD = b"HTTP/1.1 202 Accepted\r\n"

EveryMs = Annotated[float, Field(ge=1, le=60_000)]
SizeBytes = Annotated[int, Field(ge=1, le=1 << 30)]


class Part(StrEnum):
    """Which part of an answer a fault is in."""

    HEAD = "head"
    BODY = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drip:
    """Write the head or the body one byte at a time, and so for ever in practice.

    Attributes:
        part: what drips; before a dripping body a whole 202 head goes out.
        every_ms: time between two bytes.
        total_bytes: how long that part is.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["drip"] = "drip"
    part: Part = Part.HEAD
    every_ms: EveryMs = 1000
    total_bytes: SizeBytes = 100_000

    @property
    def accepts(self) -> bool:
        """A dripping body comes after a whole 2xx head."""
        return self.part is Part.BODY

    def player(self) -> Player:
        """One byte, one timer."""

        def play(exchange: Exchange) -> None:
            if self.part is Part.BODY:
                exchange.write(_HEAD + b"Content-Length: %d\r\n\r\n" % self.total_bytes)
                exchange.head_written(202)
            else:
                exchange.write(_HEAD + b"X-Drip: ")
            left = self.total_bytes

            def drop() -> None:
                nonlocal left
                exchange.write(b"x")
                left -= 1
                if left:
                    exchange.later(self.every_ms / 1000, drop)
                elif self.part is Part.BODY:
                    exchange.finish()
                else:
                    exchange.close()

            exchange.later(self.every_ms / 1000, drop)

        return play


@dataclass(frozen=True, slots=True, kw_only=True)
class Interim:
    """Send interim answers, then a 202, or never a final one.

    Attributes:
        statuses: sent in turn, each 100 to 199.
        every_ms: time between two.
        count: how many before the final answer; null: without end.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["interim"] = "interim"
    statuses: Annotated[tuple[Annotated[int, Field(ge=100, le=199)], ...], Field(min_length=1, max_length=16)] = (102,)
    every_ms: EveryMs = 1000
    count: Annotated[int, Field(ge=1, le=10_000)] | None = None

    @property
    def accepts(self) -> bool:
        """Only where the interim answers end."""
        return self.count is not None

    def player(self) -> Player:
        """One interim answer, one timer."""
        final = render(202)

        def play(exchange: Exchange) -> None:
            sent = 0

            def send() -> None:
                nonlocal sent
                if sent == self.count:
                    exchange.answer(final, 202)
                    return
                status = self.statuses[sent % len(self.statuses)]
                exchange.write(b"HTTP/1.1 %d Interim\r\nLink: </style.css>; rel=preload\r\n\r\n" % status)
                sent += 1
                exchange.later(self.every_ms / 1000, send)

            send()

        return play


@dataclass(frozen=True, slots=True, kw_only=True)
class HugeHead:
    """Send a head larger than any client should take.

    Attributes:
        size_bytes: in all.
        fields: spread over so many fields; 1: one huge one.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["huge-head"] = "huge-head"
    size_bytes: SizeBytes = 1 << 20
    fields: Annotated[int, Field(ge=1, le=1_000_000)] = 1

    @property
    def accepts(self) -> bool:
        """A client that reads it all has its 202, but none is asked to."""
        return False

    def player(self) -> Player:
        """Streamed, so that the farm holds little of it."""

        def chunks() -> Iterator[bytes]:
            yield _HEAD
            for number in range(self.fields):
                yield b"X-Field-%d: " % number
                left = self.size_bytes // self.fields
                while left > 0:
                    yield b"x" * min(left, _CHUNK_BYTES)
                    left -= _CHUNK_BYTES
                yield b"\r\n"

        def play(exchange: Exchange) -> None:
            def end() -> None:
                exchange.write(b"Content-Length: 0\r\n\r\n")
                exchange.head_written(202)
                exchange.finish()

            exchange.stream(chunks(), end)

        return play


@dataclass(frozen=True, slots=True, kw_only=True)
class HugeBody:
    """Accept, with a body that is far too long.

    Attributes:
        size_bytes: on the wire when plain, after decompression when not.
        gzip: send it compressed, a thousandth of its size (a bomb).
        chunked: without a length.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["huge-body"] = "huge-body"
    size_bytes: SizeBytes = 1 << 30
    gzip: bool = False
    chunked: bool = False

    @property
    def accepts(self) -> bool:
        """The head of the 202 is whole."""
        return True

    def player(self) -> Player:
        """Streamed; a bomb is one compressed mebibyte of zeros sent again and again, which gzip allows."""
        block = _gzip_block() if self.gzip else b"x" * _CHUNK_BYTES
        block_bytes = 1 << 20 if self.gzip else _CHUNK_BYTES
        blocks = max(1, self.size_bytes // block_bytes)
        head = _HEAD + (b"Content-Encoding: gzip\r\n" if self.gzip else b"")
        if self.chunked:
            head += b"Transfer-Encoding: chunked\r\n\r\n"
            block = b"%x\r\n%b\r\n" % (len(block), block)
        else:
            head += b"Content-Length: %d\r\n\r\n" % (blocks * len(block))

        def play(exchange: Exchange) -> None:
            exchange.write(head)
            exchange.head_written(202)

            def end() -> None:
                if self.chunked:
                    exchange.write(b"0\r\n\r\n")
                exchange.finish()

            exchange.stream(repeat(block, blocks), end)

        return play


def _gzip_block() -> bytes:
    packer = compressobj(level=9, wbits=31)
    return packer.compress(bytes(1 << 20)) + packer.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Send the given bytes and close.

    Attributes:
        data: each character one byte (Latin-1); empty: `random_bytes` bytes of noise.
        random_bytes: how much noise.
        accepts: whether a sender should take this for a delivery; the ledger then counts it as one.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["raw"] = "raw"
    data: Annotated[str, Field(max_length=1 << 20, pattern=r"^[\x00-\xff]*$")] = ""
    random_bytes: Annotated[int, Field(ge=1, le=1 << 20)] = 256
    accepts: bool = False

    def player(self) -> Player:
        """As given, or from the plan's seed."""
        fixed = self.data.encode("latin-1")

        def play(exchange: Exchange) -> None:
            exchange.write(fixed or exchange.random.randbytes(self.random_bytes))
            if self.accepts:
                exchange.head_written(202)
            exchange.close()

        return play
