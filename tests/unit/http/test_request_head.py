# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.errors import InputError
from ojak.http.request_head import request_head


def test_our_bytes_in_our_order() -> None:
    head = request_head("/a?b", "h.test", [("X-%s", "100%"), ("host", "other.test"), ("Date", "now")], 7)
    assert head == b"POST /a?b HTTP/1.1\r\nX-%s: 100%\r\nhost: other.test\r\nDate: now\r\nContent-Length: 7\r\n\r\n"


def test_a_host_is_added_where_none_is_given() -> None:
    assert request_head("/", "h.test:1", [], 0) == b"POST / HTTP/1.1\r\nHost: h.test:1\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("bad", ["\r\n", "\r", "\n", "\0", "\r\nX: y", "\n\n"])
@pytest.mark.parametrize("place", ["name", "value", "target", "host"])
def test_nothing_can_break_out_of_its_line(bad: str, place: str) -> None:
    text = f"secret{bad}secret"
    fields = [(text if place == "name" else "Name", text if place == "value" else "value")]
    with pytest.raises(InputError) as caught:
        request_head(text if place == "target" else "/", text if place == "host" else "h.test", fields, 0)
    assert place == "name" or "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a:", "é", "Content-Length", "transfer-encoding", "x" * 257])
def test_names_that_cannot_be_sent(name: str) -> None:
    with pytest.raises(InputError, match="cannot be sent; allowed are tokens but"):
        request_head("/", "h.test", [("Date", "now"), (name, "5")], 0)
