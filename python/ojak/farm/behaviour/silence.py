# SPDX-License-Identifier: Apache-2.0
"""Hosts that say nothing, hang up, or cannot be reached."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ojak.farm.behaviour.exchange import Exchange, Player
from ojak.farm.behaviour.respond import render


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """Read the request and never answer; after `hold_s` seconds, close."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["silent"] = "silent"
    hold_s: Annotated[float, Field(gt=0, le=3600)] = 300

    @property
    def accepts(self) -> bool:
        """Never."""
        return False

    def player(self) -> Player:
        """Waits for the sender to give up."""
        return lambda exchange: exchange.later(self.hold_s, exchange.close)


class Moment(StrEnum):
    """When a host hangs up."""

    CONNECT = "connect"
    """As soon as the connection stands."""
    REQUEST = "request"
    """When the request has been read whole."""
    ANSWER_HEAD = "answer-head"
    """In the middle of the answer's head."""
    ANSWER_BODY = "answer-body"
    """After a complete 202 head, in the middle of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """End the connection where the sender does not expect it.

    Attributes:
        moment: when.
        abrupt: by a reset (RST) rather than in order (FIN).
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["hang-up"] = "hang-up"
    moment: Moment = Moment.REQUEST
    abrupt: bool = True

    @property
    def accepts(self) -> bool:
        """Only if the head of a 2xx went out before."""
        return self.moment is Moment.ANSWER_BODY

    def player(self) -> Player:
        """Writes what comes before the end, then ends."""
        whole = render(202, body=b"x" * 64)
        head_bytes = len(whole) - 64

        def play(exchange: Exchange) -> None:
            if self.moment is Moment.ANSWER_HEAD:
                exchange.write(whole[: head_bytes // 2])
            elif self.moment is Moment.ANSWER_BODY:
                exchange.write(whole[: head_bytes + 32])
                exchange.head_written(202)
            if not self.abrupt:
                exchange.close()
            elif self.moment in {Moment.ANSWER_HEAD, Moment.ANSWER_BODY}:
                # bytes and reset in one loop step could reach the sender as a reset alone, which is another case
                exchange.later(0.02, exchange.reset)
            else:
                exchange.reset()

        return play


class Reach(StrEnum):
    """How far a connection to a host gets."""

    LISTENS = "listens"
    REFUSES = "refuses"
    SWALLOWS = "swallows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """No connection comes about: refused at once, or never answered (a black hole)."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["unreachable"] = "unreachable"
    reach: Literal[Reach.REFUSES, Reach.SWALLOWS] = Reach.REFUSES

    @property
    def accepts(self) -> bool:
        """Never."""
        return False

    def player(self) -> Player:
        """For a connection that was made just before the host went away."""
        return lambda exchange: exchange.reset()
