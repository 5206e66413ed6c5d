# SPDX-License-Identifier: Apache-2.0
"""Further headers of a request, as the application says them at the time it is sent (FEP-8fcf, SPEC section 1)."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ojak.clock import Clock
from ojak.errors import InputError
from ojak.http.knock import Headers, check_headers
from ojak.model.job import Job
from ojak.model.outgoing import Outgoing
from ojak.worker.foreign import ForeignCall

_log = logging.getLogger("ojak.worker.headers")

HeadersFor = Callable[[Outgoing], Mapping[str, str] | Awaitable[Mapping[str, str] | None] | None]
"""What an application gives as `headers=`."""

ASK_S: Final = 5.0
"""For so long an asynchronous callback is waited for: it holds a slot meanwhile."""
MOST: Final = 16
MOST_BYTES: Final = 8192
_SAID_EVERY_S: Final = 60.0
# What belongs to a connection, and what a delivery never carries.
_NEVER: Final = frozenset({"cookie", "cookie2", "keep-alive", "set-cookie"})


class RequestHeaders:
    """Asks the application for further headers of each attempt.

    They are a hint to the receiver: where the application raises, takes too long or gives what cannot be sent, the
    delivery goes without them, and that is logged once a minute.

    Args:
        ask: the application's.
        clock: for how often a fault is logged.
    """

    def __init__(self, ask: HeadersFor, *, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._quiet_until_s = 0.0
        self._failed = 0

    async def of(self, job: Job) -> Headers:
        """The headers of an attempt, checked; none where there are none that can be sent."""
        try:
            with ForeignCall():
                answer = self._ask(
                    Outgoing(
                        host=job.lane,
                        inbox=job.inbox,
                        url=job.url,
                        shared=job.shared,
                        ref=job.ref,
                        sender=job.sender,
                        activity_id=job.activity_id,
                        number=job.tries + 1,
                    )
                )
                if inspect.isawaitable(answer):
                    async with asyncio.timeout(ASK_S):
                        answer = await answer
                # A mapping is the application's code too.
                return checked(answer)
        except Exception as error:  # noqa: BLE001 - an application may raise anything
            self._say(error)
            return ()

    def _say(self, error: Exception) -> None:
        self._failed += 1
        now_s = self._clock.boot_s()
        if now_s < self._quiet_until_s:
            return
        _log.error("headers cannot be had; deliveries go without", exc_info=error, extra={"count": self._failed})
        self._quiet_until_s, self._failed = now_s + _SAID_EVERY_S, 0


def checked(answer: object) -> Headers:
    """What a callback gave, as it can be sent.

    Raises:
        InputError: it cannot be; names the header and what is allowed, and never shows a value.
    """
    if answer is None:
        return ()
    if not isinstance(answer, Mapping):
        raise InputError(f"headers are a {type(answer).__name__}; allowed is a mapping of names to values, or None")
    given = list(answer.items())
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in given):
        raise InputError("headers hold what is no text; allowed are names and values as str")
    size = sum(len(name) + len(value) for name, value in given)
    if len(given) > MOST or size > MOST_BYTES:
        raise InputError(f"headers are {len(given)} of {size} bytes; allowed are {MOST} of {MOST_BYTES} in all")
    for name, _ in given:
        if name.lower() in _NEVER or name.lower().startswith("proxy-"):
            raise InputError(f"header {name!r} cannot be added; a delivery carries no cookies and no proxy's headers")
    check_headers(given)
    return given
