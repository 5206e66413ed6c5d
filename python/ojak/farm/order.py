# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a running farm: each order as a line to send, and how its answer reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import orjson

from ojak.farm.behaviour import Behaviour
from ojak.farm.errors import FarmError, FarmGone
from ojak.farm.plan import Phase
from ojak.farm.report import Counted, FarmReport, HostReport

EVERY: Final = "*"
"""All hosts; elsewhere a host's name, or a label that several share."""

T = TypeVar("T")
_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Generic[T]):
    """One order.

    Attributes:
        line: as it is sent.
        read: makes the answer's value from its JSON.
        patience_s: how long the answer may take.
    """

    line: bytes
    read: Callable[[Any], T]
    patience_s: float = _ANSWER_S

    def answer(self, line: bytes) -> T:
        """Read the answer.

        Raises:
            FarmError: the farm could not carry the order out, and says why.
            FarmGone: it stopped before it answered.
        """
        if not line.endswith(b"\n"):
            raise FarmGone("the farm stopped before it answered")
        answer = orjson.loads(line)
        if "error" in answer:
            raise FarmError(answer["error"])
        return self.read(answer["ok"])


def _order(name: str, read: Callable[[Any], T], patience_s: float = _ANSWER_S, **fields: object) -> Order[T]:
    line = orjson.dumps({"order": name} | fields, option=orjson.OPT_APPEND_NEWLINE)
    return Order(line=line, read=read, patience_s=patience_s)


def _nothing(_: object) -> None:
    return None


def report() -> Order[FarmReport]:
    """All counters."""
    return _order("report", lambda value: FarmReport(**value))


def hosts(which: str) -> Order[tuple[HostReport, ...]]:
    """Counters by host."""
    return _order("hosts", lambda value: tuple(HostReport(**host) for host in value), which=which)


def flush() -> Order[int]:
    """Write the ledger's file up to now; the number of the last arrival."""
    return _order("flush", int)


def behave(which: str, script: Sequence[Phase | Behaviour], *, cycle: bool) -> Order[int]:
    """Begin another script; how many hosts did."""
    phases = [step if isinstance(step, Phase) else Phase(behaviour=step) for step in script]
    return _order("behave", int, which=which, script=phases, cycle=cycle)


def wait(counted: Counted, which: str, *, at_least: int | None, at_most: int | None, timeout_s: float) -> Order[bool]:
    """Wait for a counter; whether it got there in time."""
    return _order(
        "wait",
        bool,
        patience_s=timeout_s + _ANSWER_S,
        counted=counted,
        which=which,
        at_least=at_least,
        at_most=at_most,
        timeout_s=timeout_s,
    )


def add_keys(keys: Mapping[str, str]) -> Order[None]:
    """Take public keys by key id."""
    return _order("add-keys", _nothing, keys=dict(keys))


def forget_keys() -> Order[None]:
    """Read keys anew from their folders."""
    return _order("forget-keys", _nothing)


def stop() -> Order[None]:
    """Stop the farm."""
    return _order("stop", _nothing)
