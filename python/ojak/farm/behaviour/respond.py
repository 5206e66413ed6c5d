# SPDX-License-Identifier: Apache-2.0
"""A whole answer with any status, at once or after a while."""

from dataclasses import dataclass
from email.utils import formatdate
from enum import StrEnum
from http.client import responses
from time import time
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ojak.farm.behaviour.exchange import Exchange, Player

_NO_BODY = frozenset({204, 304})

LatencyMs = Annotated[float, Field(ge=0, le=600_000)]
FinalStatus = Annotated[int, Field(ge=200, le=599)]
HeaderText = Annotated[str, Field(max_length=8192, pattern=r"^[^\r\n\x00]*$")]


def render(status: int, headers: tuple[tuple[str, str], ...] = (), body: bytes = b"", *, close: bool = False) -> bytes:
    """The bytes of one complete HTTP/1.1 answer."""
    reason = responses.get(status, "Unassigned")
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if status not in _NO_BODY:
        lines.append(f"Content-Length: {len(body)}")
    if close:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if status in _NO_BODY else head + body


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """Answer with a status: a 2xx accepts.

    Attributes:
        status: 200 to 599.
        latency_ms: how long the answer takes.
        jitter_ms: up to this much is added to it, evenly, from the plan's seed.
        headers: sent beside the length.
        body: sent as UTF-8.
        close: close the connection after this answer, saying so in it.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["respond"] = "respond"
    status: FinalStatus = 202
    latency_ms: LatencyMs = 0
    jitter_ms: LatencyMs = 0
    headers: tuple[tuple[HeaderText, HeaderText], ...] = ()
    body: Annotated[str, Field(max_length=1 << 20)] = ""
    close: bool = False

    @property
    def accepts(self) -> bool:
        """Whether a sender may take this for a delivery."""
        return 200 <= self.status <= 299

    def player(self) -> Player:
        """The answer, rendered once."""
        wire = render(self.status, self.headers, self.body.encode(), close=self.close)
        status, close = self.status, self.close
        if not self.latency_ms and not self.jitter_ms:
            return lambda exchange: exchange.answer(wire, status, close=close)
        latency_s, jitter_s = self.latency_ms / 1000, self.jitter_ms / 1000

        def play(exchange: Exchange) -> None:
            delay_s = latency_s + (exchange.random.random() * jitter_s if jitter_s else 0)
            exchange.later(delay_s, lambda: exchange.answer(wire, status, close=close))

        return play


class RetryAfterForm(StrEnum):
    """How `Retry-After` is written: RFC 9110 section 10.2.3, with the three date forms of section 5.6.7."""

    SECONDS = "seconds"
    IMF = "imf"
    RFC850 = "rfc850"
    ASCTIME = "asctime"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimited:
    """Answer 429 (or 503) with `Retry-After`.

    Attributes:
        retry_after_s: seconds from the answer.
        form: how they are written.
        status: 429, or another that may carry the field.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["rate-limited"] = "rate-limited"
    retry_after_s: Annotated[int, Field(ge=0, le=10 * 365 * 86_400)] = 1
    form: RetryAfterForm = RetryAfterForm.SECONDS
    status: FinalStatus = 429

    @property
    def accepts(self) -> bool:
        """Never: the sender has to come back."""
        return False

    def player(self) -> Player:
        """The answer; a date is rendered each time."""

        def play(exchange: Exchange) -> None:
            exchange.answer(render(self.status, (("Retry-After", self._value()),)), self.status)

        return play

    def _value(self) -> str:
        if self.form is RetryAfterForm.SECONDS:
            return str(self.retry_after_s)
        # formatdate is English whatever the locale: "Sun, 06 Nov 1994 08:49:37 GMT"
        imf = formatdate(time() + self.retry_after_s, usegmt=True)
        if self.form is RetryAfterForm.IMF:
            return imf
        weekday, day, month, year, clock = imf[:3], imf[5:7], imf[8:11], imf[12:16], imf[17:25]
        if self.form is RetryAfterForm.ASCTIME:
            return f"{weekday} {month} {day.lstrip('0'):>2} {clock} {year}"
        return f"{_LONG_DAYS[weekday]}, {day}-{month}-{year[2:]} {clock} GMT"


_LONG_DAYS = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Fri": "Friday",
    "Sat": "Saturday",
    "Sun": "Sunday",
}
