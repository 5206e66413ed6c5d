# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from random import Random
from time import time

import pytest

from ojak.farm.behaviour import RateLimited, Respond, RetryAfterForm, render


class Heard:
    """An exchange that writes down what a behaviour does."""

    def __init__(self) -> None:
        self.written = b""
        self.statuses: list[int] = []
        self.ended: list[str] = []
        self.delays_s: list[float] = []
        self.random = Random(5)

    def answer(self, wire: bytes, status: int, *, close: bool = False) -> None:
        self.write(wire)
        self.head_written(status)
        self.finish(close=close)

    def write(self, data: bytes) -> None:
        self.written += data

    def head_written(self, status: int) -> None:
        self.statuses.append(status)

    def finish(self, *, close: bool = False) -> None:
        self.ended.append("finished and closed" if close else "finished")

    def close(self) -> None:
        self.ended.append("closed")

    def reset(self) -> None:
        self.ended.append("reset")

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.delays_s.append(delay_s)
        call()

    def stream(self, chunks: Iterator[bytes], then: Callable[[], None]) -> None:
        for chunk in chunks:
            self.write(chunk)
        then()


def test_an_answer_has_its_length_and_says_that_it_closes() -> None:
    assert render(202) == b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    assert render(204) == b"HTTP/1.1 204 No Content\r\n\r\n"
    assert render(599, (("A", "b"),), b"xy", close=True) == (
        b"HTTP/1.1 599 Unassigned\r\nA: b\r\nContent-Length: 2\r\nConnection: close\r\n\r\nxy"
    )


def test_latency_and_seeded_jitter() -> None:
    heard = Heard()
    Respond(status=201, latency_ms=100, jitter_ms=50, close=True).player()(heard)
    expected = 0.1 + Random(5).random() * 0.05
    assert heard.delays_s == [pytest.approx(expected)]
    assert heard.statuses == [201]
    assert heard.ended == ["finished and closed"]


@pytest.mark.parametrize("form", [RetryAfterForm.IMF, RetryAfterForm.RFC850])
def test_retry_after_as_a_date(form: RetryAfterForm) -> None:
    heard = Heard()
    RateLimited(retry_after_s=90, form=form, status=503).player()(heard)
    value = heard.written.split(b"Retry-After: ")[1].split(b"\r\n")[0].decode()
    assert parsedate_to_datetime(value).timestamp() == pytest.approx(time() + 90, abs=2)
    assert heard.statuses == [503]


def test_retry_after_as_asctime_has_a_padded_day_and_the_year_last() -> None:
    heard = Heard()
    RateLimited(retry_after_s=90, form=RetryAfterForm.ASCTIME).player()(heard)
    value = heard.written.split(b"Retry-After: ")[1].split(b"\r\n")[0].decode()
    assert len(value) == 24
    assert parsedate_to_datetime(value.replace("  ", " ") + " +0000").timestamp() == pytest.approx(time() + 90, abs=2)


def test_retry_after_in_seconds() -> None:
    heard = Heard()
    RateLimited(retry_after_s=7).player()(heard)
    assert b"Retry-After: 7\r\n" in heard.written
    assert heard.statuses == [429]
