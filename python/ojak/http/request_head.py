# SPDX-License-Identifier: Apache-2.0
"""Writes the head of a request: our bytes, in our order, and never one field more than was meant."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ojak.errors import InputError

Fields = Sequence[tuple[str, str]]

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# What says where a message ends. A second word on that is how a request is smuggled into another.
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class _Form:
    """The head of all requests whose fields have the same names: `text` lacks target, values and length."""

    text: str
    lines: int
    names_host: bool


def request_head(target: str, host: str, fields: Fields, body_bytes: int) -> bytes:
    """Return the head of a POST of `body_bytes` to `target`: the fields in their order, then Content-Length.

    A Host field goes first where `fields` has none. Raises InputError, without showing a value, if a line break or a
    null could make more or other fields of them, or if they say themselves where the body ends.
    """
    form = _form(tuple([name for name, _ in fields]))
    if not form.names_host:
        return request_head(target, host, [("Host", host), *fields], body_bytes)
    text = form.text % (target, *[value for _, value in fields], body_bytes)
    # Each line has one line break, so one more is somebody's own.
    if text.count("\r") != form.lines or text.count("\n") != form.lines or "\0" in text:
        raise InputError("a header value or the target has a line break or a null in it; allowed is neither")
    return text.encode()


@lru_cache(maxsize=64)
def _form(names: tuple[str, ...]) -> _Form:
    """Names are ours and few, so each set of them is checked and put together once."""
    lower = [name.lower() for name in names]
    for name in names:
        if not _NAME.fullmatch(name) or name.lower() in _FRAMING:
            raise InputError(f"header {name!r} cannot be sent; allowed are tokens but {sorted(_FRAMING)}")
    lines = ["POST %s HTTP/1.1", *(name.replace("%", "%%") + ": %s" for name in names), "Content-Length: %d", "", ""]
    return _Form("\r\n".join(lines), len(lines) - 1, "host" in lower)
