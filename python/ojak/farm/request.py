# SPDX-License-Identifier: Apache-2.0
"""The head of an HTTP/1.1 request, read strictly and within bounds (RFC 9112)."""

from dataclasses import dataclass

MAX_HEAD_BYTES = 32_768
MAX_FIELDS = 100
MAX_BODY_BYTES = 4 << 20

_SINGLE = frozenset({"host", "content-length"})
_REFUSED = frozenset({"transfer-encoding", "expect"})
_WATCHED = _SINGLE | _REFUSED | {"content-type", "connection"}


class Malformed(Exception):
    """A request that no inbox would take. Never leaves the connection that it came on.

    Attributes:
        status: the answer to it.
        reason: a word for it.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Head:
    """A request's head.

    Attributes:
        method: as sent.
        target: as sent, byte for byte.
        host: the Host field; empty without one.
        fields: all of them in order, names as sent, values without outer white space.
        content_type: of the last such field; empty without one.
        content_length: of the body, in bytes.
        close: whether the sender will close the connection after the answer.
    """

    method: str
    target: str
    host: str
    fields: list[tuple[str, str]]
    content_type: str
    content_length: int
    close: bool


def read_head(data: bytes) -> Head:
    """Read a head, without the empty line that ends it.

    Raises:
        Malformed: it breaks RFC 9112, has a body without a length, or what an inbox does not take: a transfer coding or
            an expectation.
    """
    lines = data.decode("latin-1").split("\r\n")
    start = lines[0].split(" ")
    if len(start) != 3 or not start[0] or not start[1].startswith("/"):
        raise Malformed(400, "request-line")
    if start[2] != "HTTP/1.1":
        raise Malformed(505, "version")
    if data.count(b"\n") != len(lines) - 1 or data.count(b"\r") != len(lines) - 1 or b"\0" in data:
        raise Malformed(400, "control-character")
    if len(lines) > MAX_FIELDS + 1:
        raise Malformed(431, "too-many-fields")
    fields, seen = _read_fields(lines[1:])
    if "host" not in seen:
        raise Malformed(400, "no-host")
    return Head(
        start[0],
        start[1],
        seen["host"],
        fields,
        seen.get("content-type", ""),
        _length(start[0], seen.get("content-length")),
        "close" in seen.get("connection", "").lower(),
    )


def _read_fields(lines: list[str]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """All fields as they came, and those that matter here by lower-case name."""
    fields: list[tuple[str, str]] = []
    seen: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or " " in name or "\t" in name:
            raise Malformed(400, "field")
        value = value.strip(" \t")
        fields.append((name, value))
        lower = name.lower()
        if lower not in _WATCHED:
            continue
        if lower in _REFUSED:
            raise Malformed(400, lower)
        if lower in seen:
            if lower in _SINGLE:
                raise Malformed(400, f"two-{lower}")
            # joined as RFC 9110 section 5.2 has it, so that no exact comparison takes two of a kind
            value = f"{seen[lower]}, {value}"
        seen[lower] = value
    return fields, seen


def _length(method: str, text: str | None) -> int:
    if text is None:
        if method in ("GET", "HEAD"):
            return 0
        raise Malformed(411, "no-length")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Malformed(400, "length")
    length = int(text)
    if length > MAX_BODY_BYTES:
        raise Malformed(413, "body-too-large")
    return length
