# SPDX-License-Identifier: Apache-2.0
"""`Handler`: what runs an application's own kind of job, and `HandledJob`: what it is given (SPEC section 2)."""

import inspect
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from ojak.errors import ConfigError, InputError, OjakError, shown
from ojak.model.kind import check_kind


class JobRefused(OjakError):
    """Raised by a handler: the job is refused for good, and not tried again. Its text is kept with the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandledJob:
    """A job as its handler gets it.

    Attributes:
        id: 32 hexadecimal digits.
        kind: its kind.
        key: what it was queued under, or None.
        payload: the bytes that were handed over; `json` reads them.
        attempt: the number of this attempt, from 1.
        is_last: whether the job is given up on if this attempt fails.
        deaths: how many workers died while it ran.
        queued_at: when it was handed over, by the database's clock.
        timeout_s: how long it may take, or None.
        stopping: set when the handler should come to an end: its lease was taken, the job was cancelled, its time is
            over, or the worker drains. An asynchronous handler is cancelled beside that (when the worker drains, at
            the end of the drain); a plain function, which cannot be, may look at it.
    """

    id: str
    kind: str
    key: str | None
    payload: bytes = field(repr=False)
    attempt: int
    is_last: bool
    deaths: int
    queued_at: datetime
    timeout_s: float | None
    stopping: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    def json(self) -> dict[str, Any]:
        """The payload as the JSON object that was handed over.

        Raises:
            InputError: it is none.
        """
        try:
            read = orjson.loads(self.payload)
        except orjson.JSONDecodeError:
            read = None
        if not isinstance(read, dict):
            raise InputError(f"payload of job {self.id} is no JSON object; payload has its bytes")
        return read


Call = Callable[[HandledJob], Awaitable[object] | object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What runs one kind of job.

    Attributes:
        kind: 1 to 40 of a-z 0-9 _ - with a letter first.
        call: called with each job, at least once. An asynchronous function runs in the event loop, a plain one in a
            thread of its own. What it returns is dropped; what it raises makes the job be tried again later, but
            `JobRefused`, which ends it.
        concurrency: jobs of this kind at a time in one `run()`, 1 to 256.
        max_attempts: attempts before a job is given up on, 1 to 100; None: as deliveries.
        timeout_s: how long one attempt may take, from 0.1 s; None: as long as it likes. An asynchronous handler is
            cancelled then, which counts as a failure; a plain one is asked to stop and awaited.

    Raises:
        ConfigError: a field is not usable; names it, its value and what is allowed.
    """

    kind: str
    call: Call
    concurrency: int = 4
    max_attempts: int | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        try:
            check_kind(self.kind)
        except InputError as error:
            raise ConfigError(f"handler: {error}") from None
        if not callable(self.call):
            raise ConfigError(
                f"call of handler {self.kind!r} is a {type(self.call).__name__}; allowed is a function of a HandledJob"
            )
        if inspect.isgeneratorfunction(self.call) or inspect.isasyncgenfunction(self.call):
            # Calling one runs nothing of it, and its job would be done.
            raise ConfigError(f"call of handler {self.kind!r} is a generator function; allowed is one that returns")
        self._check("concurrency", self.concurrency, 1, 256, whole=True)
        if self.max_attempts is not None:
            self._check("max_attempts", self.max_attempts, 1, 100, whole=True)
        if self.timeout_s is not None:
            self._check("timeout_s", self.timeout_s, 0.1, 365 * 86_400.0, whole=False)

    def _check(self, name: str, value: object, low: float, high: float, *, whole: bool) -> None:
        allowed = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed) or not low <= value <= high:
            what = "a whole number" if whole else "a number"
            raise ConfigError(
                f"{name} of handler {self.kind!r} is {shown(value)}; allowed is {what} from {low:g} to {high:g}"
            )

    @property
    def is_async(self) -> bool:
        """Whether it runs in the event loop."""
        call = self.call
        return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def check_handlers(handlers: object) -> tuple[Handler, ...]:
    """Give handlers back, one a kind.

    Raises:
        ConfigError: it is no list of them, or two are of one kind.
    """
    if isinstance(handlers, Handler) or not isinstance(handlers, list | tuple):
        raise ConfigError(f"handlers is a {type(handlers).__name__}; allowed is a list of Handler, also for one")
    kinds: set[str] = set()
    for handler in handlers:
        if not isinstance(handler, Handler):
            raise ConfigError(f"handlers holds a {type(handler).__name__}; allowed is Handler")
        if handler.kind in kinds:
            raise ConfigError(f"handlers holds two of kind {handler.kind!r}; allowed is one a kind")
        kinds.add(handler.kind)
    return tuple(handlers)
