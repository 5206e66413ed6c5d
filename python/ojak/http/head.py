# SPDX-License-Identifier: Apache-2.0
"""Reads the head of an answer that the HTTP parser gave up on because of what came after it.

An inbox has taken an activity once it says so in a complete head (SPEC section 3). A parser that meets a broken chunk,
a body after a 204 or two contradicting lengths in the same piece of data throws the head away with the rest, and a
retry would then deliver the activity a second time.
"""

import re
from dataclasses import dataclass

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n\0]*)?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_LINE_END = re.compile(rb"\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_SWITCHING_PROTOCOLS = 101


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerHead:
    """The head of a final answer.

    Attributes:
        status: its status, 200 to 999.
        fields: its header fields by lower-case name, the first of each.
    """

    status: int
    fields: dict[str, str]


def salvage_head(data: bytes, max_bytes: int, max_fields: int) -> AnswerHead | None:
    """Return the head of the final answer that `data`, all that came from the server, begins with.

    Returns None if it did not end, is no HTTP/1 answer, switches protocols, or is longer than allowed.
    """
    start = 0
    while (end := _HEAD_END.search(data, start)) is not None and end.end() <= max_bytes:
        status_line, *lines = _LINE_END.split(data[start : end.start()])
        status = _STATUS_LINE.fullmatch(status_line)
        if status is None or len(lines) > max_fields:
            return None
        fields: dict[str, str] = {}
        for line in lines:
            field = _FIELD.fullmatch(line)
            if field is None:
                return None
            fields.setdefault(field[1].decode("ascii").lower(), field[2].decode("utf-8", "surrogateescape"))
        if int(status[1]) >= 200:
            return AnswerHead(status=int(status[1]), fields=fields)
        if int(status[1]) == _SWITCHING_PROTOCOLS:
            return None
        start = end.end()
    return None
