# SPDX-License-Identifier: Apache-2.0
"""Sender keys kept as parsed handles for a while (SPEC section 1, `CachingSenderKeys`)."""

import asyncio
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from ojak.clock import Clock, SystemClock
from ojak.errors import ConfigError, UnknownSender, shown
from ojak.signing.keys import SenderKeyring, SenderKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What the last load of a sender gave, and until when it is not asked for again."""

    keyring: SenderKeyring | None
    failure: Exception | None
    until_s: float


class CachingSenderKeys:
    """Keeps what another `SenderKeys` gives.

    A key is kept for `ttl_s` after it was loaded. Of many who ask at the same time one loads, and the others wait; or,
    where an old key is there, go on with it. An old key serves while its refresh fails, except when the answer is
    that the sender is not known. After a failure it is asked again no sooner than `retry_s` later. At most
    `max_senders` are kept, the ones asked for last.

    It starts no tasks, and can be used from several event loops at once.
    """

    def __init__(
        self,
        inner: SenderKeys,
        *,
        ttl_s: float = 300.0,
        retry_s: float = 1.0,
        max_senders: int = 10_000,
        clock: Clock | None = None,
    ) -> None:
        for name, value in (("ttl_s", ttl_s), ("retry_s", retry_s), ("max_senders", max_senders)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:  # type: ignore[redundant-expr]
                raise ConfigError(f"{name} is {shown(value)}; a number above 0 is allowed")
        self._inner = inner
        self._ttl_s = ttl_s
        self._retry_s = retry_s
        self._max_senders = max_senders
        self._clock = clock if clock is not None else SystemClock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        # A future belongs to one loop, and several loops may share this cache.
        self._flights: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Future[None]] = {}

    def kept(self, sender: str) -> SenderKeyring | None:
        """The keys of a sender if they are here and need not be loaded anew."""
        entry = self._entries.get(sender)
        if entry is None or entry.keyring is None or self._clock.boot_s() >= entry.until_s:
            return None
        with suppress(KeyError):
            # Another loop's thread may have forgotten it since.
            self._entries.move_to_end(sender)
        return entry.keyring

    async def keys_of(self, sender: str) -> SenderKeyring:
        """Give the keys of a sender, kept or loaded. Raises what the inner `SenderKeys` raises."""
        flight_key = (asyncio.get_running_loop(), sender)
        while True:
            entry = self._entries.get(sender)
            flight = self._flights.get(flight_key)
            fresh = entry is not None and self._clock.boot_s() < entry.until_s
            if entry is not None and (fresh or flight is not None):
                if entry.keyring is not None:
                    self._entries.move_to_end(sender)
                    return entry.keyring
                if fresh and entry.failure is not None:
                    # Without what it gathered when it was raised before, which would only grow.
                    raise entry.failure.with_traceback(None)
            if flight is None:
                return await self._load(flight_key, sender, entry.keyring if entry is not None else None)
            # Whoever loads may be cancelled, so what comes of it is looked up anew.
            await asyncio.shield(flight)

    def forget(self, sender: str) -> None:
        """Load the keys of a sender anew when they are asked for next: they were changed."""
        self._entries.pop(sender, None)

    async def _load(
        self, flight_key: tuple[asyncio.AbstractEventLoop, str], sender: str, old: SenderKeyring | None
    ) -> SenderKeyring:
        flight = flight_key[0].create_future()
        self._flights[flight_key] = flight
        try:
            keyring = await self._inner.keys_of(sender)
        except UnknownSender as unknown:
            self._keep(sender, None, unknown, self._retry_s)
            raise
        except Exception as failure:
            self._keep(sender, old, failure, self._retry_s)
            if old is None:
                raise
            return old
        else:
            self._keep(sender, keyring, None, self._ttl_s)
            return keyring
        finally:
            del self._flights[flight_key]
            flight.set_result(None)

    def _keep(self, sender: str, keyring: SenderKeyring | None, failure: Exception | None, for_s: float) -> None:
        self._entries[sender] = _Entry(keyring=keyring, failure=failure, until_s=self._clock.boot_s() + for_s)
        self._entries.move_to_end(sender)
        while len(self._entries) > self._max_senders:
            self._entries.popitem(last=False)
