# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from ojak.http.head import salvage_head

LINES = st.sampled_from(
    [b"HTTP/1.1 202 OK", b"HTTP/1.1 100 Go", b"A: b", b"A : b", b"", b"\n", b"\r", b"\r\n", b"\r\n\r\n", b"\0", b":"]
)


@given(st.lists(LINES | st.binary(max_size=5)).map(b"\r\n".join))
def test_any_bytes_give_a_final_status_or_none(data: bytes) -> None:
    head = salvage_head(data, max_bytes=100, max_fields=5)
    assert head is None or (200 <= head.status <= 999 and len(head.fields) <= 5)


@given(st.integers(200, 999), st.dictionaries(st.from_regex(r"[a-z-]{1,9}", fullmatch=True), st.just("v"), max_size=5))
def test_what_is_written_is_read(status: int, fields: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} So", *(f"{name}: {value}" for name, value in fields.items()), "", "rest"]
    head = salvage_head("\r\n".join(lines).encode(), max_bytes=10_000, max_fields=5)
    assert head is not None
    assert (head.status, head.fields) == (status, fields)
