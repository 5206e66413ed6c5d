# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.http.head import AnswerHead, salvage_head


def salvage(data: bytes) -> AnswerHead | None:
    return salvage_head(data, max_bytes=200, max_fields=3)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"HTTP/1.1 202 Accepted\r\n\r\n", 202),
        (b"HTTP/1.0 202\r\n\r\nbody", 202),
        (b"HTTP/1.1 202 \r\n\r\n", 202),
        (b"HTTP/1.1 202 OK\n\nbody", 202),
        (b"HTTP/1.1 999 OK\r\n\r\n", 999),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 404 No\r\n\r\n", 404),
    ],
)
def test_a_complete_head_is_read(data: bytes, status: int) -> None:
    head = salvage(data)
    assert head is not None
    assert head.status == status


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 202 OK\r\n",
        b"HTTP/1.1 202 OK\r\nA: b\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 2020 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 020 OK\r\n\r\n",
        b"HTTP/2 202 OK\r\n\r\n",
        b"HTTP/1.1  202 OK\r\n\r\n",
        b"http/1.1 202 OK\r\n\r\n",
        b" HTTP/1.1 202 OK\r\n\r\n",
        b"HTTP/1.1 101 Up\r\n\r\nHTTP/1.1 202 OK\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 202 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 202 OK\r\nA B: c\r\n\r\n",
        b"HTTP/1.1 202 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 202 OK\r\nA: b\0c\r\n\r\n",
        b"HTTP/1.1 202 OK\r\nA: b\rc\r\n\r\n",
        b"HTTP/1.1 202 OK\r\n" + b"A: b\r\n" * 4 + b"\r\n",
        b"HTTP/1.1 202 OK\r\nA: " + b"b" * 200 + b"\r\n\r\n",
    ],
)
def test_anything_else_is_none(data: bytes) -> None:
    assert salvage(data) is None


def test_fields_by_lower_case_name_the_first_of_each() -> None:
    head = salvage(b"HTTP/1.1 429 No\r\nRetry-After:  5 \r\nretry-after: 6\r\nX: caf\xe9\r\n\r\n")
    assert head is not None
    assert head.fields == {"retry-after": "5", "x": "caf\udce9"}
