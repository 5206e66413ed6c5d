# SPDX-License-Identifier: Apache-2.0
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ojak.farm.request import MAX_BODY_BYTES, Malformed, read_head

GOOD = b"POST /users/a/inbox?x=%3A HTTP/1.1\r\nHost: h.test:80\r\nContent-Length: 12\r\nX-Odd:  two words \t"


def test_a_head_is_read_byte_for_byte() -> None:
    head = read_head(GOOD)
    assert (head.method, head.target, head.host, head.content_length) == (
        "POST",
        "/users/a/inbox?x=%3A",
        "h.test:80",
        12,
    )
    assert head.fields[2] == ("X-Odd", "two words")
    assert not head.close


def test_connection_close_and_two_content_types_are_seen() -> None:
    head = read_head(GOOD + b"\r\nConnection: Close\r\nContent-Type: a/b\r\ncontent-type: c/d")
    assert head.close
    assert head.content_type == "a/b, c/d"


def test_a_get_needs_no_length() -> None:
    assert read_head(b"GET / HTTP/1.1\r\nHost: h").content_length == 0


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (b"", 400, "request-line"),
        (b"POST  /inbox HTTP/1.1\r\nHost: h", 400, "request-line"),
        (b"POST inbox HTTP/1.1\r\nHost: h", 400, "request-line"),
        (b"POST http://h/inbox HTTP/1.1\r\nHost: h", 400, "request-line"),
        (b"POST /inbox HTTP/1.0\r\nHost: h", 505, "version"),
        (b"POST /inbox HTTP/1.1\r\nContent-Length: 2", 400, "no-host"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\r\nHost: h\r\nContent-Length: 2", 400, "two-host"),
        (b"POST /inbox HTTP/1.1\r\nHost: h", 411, "no-length"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\r\nContent-Length: +2", 400, "length"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 2", 400, "two-content-length"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked", 400, "transfer-encoding"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2", 400, "expect"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\r\nContent-Length: %d" % (MAX_BODY_BYTES + 1), 413, "body-too-large"),
        (b"POST /inbox HTTP/1.1\r\nHost : h\r\nContent-Length: 2", 400, "field"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\r\n folded", 400, "field"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\nX: y\r\nContent-Length: 2", 400, "control-character"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\rX: y\r\nContent-Length: 2", 400, "control-character"),
        (b"POST /inbox HTTP/1.1\r\nHost: h\0\r\nContent-Length: 2", 400, "control-character"),
        (b"POST /inbox HTTP/1.1\r\nHost: h" + b"\r\nX: y" * 120, 431, "too-many-fields"),
    ],
)
def test_what_no_inbox_takes(data: bytes, status: int, reason: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_head(data)
    assert (caught.value.status, caught.value.reason) == (status, reason)


@given(st.binary(max_size=400) | st.lists(st.binary(max_size=30), max_size=12).map(b"\r\n".join))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        read_head(b"POST / HTTP/1.1\r\nHost: h\r\n" + data)
    with contextlib.suppress(Malformed):
        read_head(data)
