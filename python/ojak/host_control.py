# SPDX-License-Identifier: Apache-2.0
"""`HostControl`: what an operator asks of hosts, and does to them (SPEC section 4)."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

from ojak.breaker.admission import BreakerScope
from ojak.breaker.rules import CircuitBreaker
from ojak.control import QueueControl, translated
from ojak.errors import InputError, shown
from ojak.model.activity import check_text
from ojak.model.given import check_duration, check_limit
from ojak.model.host import (
    ContentForm,
    HostFilter,
    HostRecord,
    HostSort,
    HostState,
    Pause,
    ProbeAnswer,
    canonical_host,
)
from ojak.model.selection import Cancelled, Selection
from ojak.shard import SHARDS, shard_of
from ojak.signing import Scheme
from ojak.store import host_settings, host_views, notices
from ojak.store.breakers import MongoBreakers
from ojak.store.wakeups import wake

W = TypeVar("W", bound=StrEnum)

PER_HOST_MAX: Final = 64
_BY_MAX: Final = 200


class HostControl(QueueControl):
    """What an application or an operator asks of hosts, and of the queue."""

    async def hosts(
        self, which: HostFilter | str | None = None, *, sort: HostSort | str = HostSort.NAME, limit: int = 100
    ) -> Sequence[HostRecord]:
        """Some hosts that are known, each with how much waits for it.

        Args:
            which: only these; None: any.
            sort: in which order.
            limit: how many at most.

        Raises:
            InputError: an argument is not usable.
        """
        wanted = _word(HostFilter, "which", which) if which is not None else None
        order = _word(HostSort, "sort", sort)
        check_limit("limit", limit)
        await self.set_up()
        async with translated():
            return await host_views.list_hosts(self._db, wanted, sort=order, limit=limit)

    async def host(self, name: str) -> HostRecord:
        """One host: what holds it, its breaker, its scheme, what is set for it, and how much waits.

        Raises:
            UnknownHost: nothing is known of it.
        """
        authority = canonical_host(name)
        await self.set_up()
        async with translated():
            return await host_views.host_record(self._db, authority)

    async def pauses(self) -> Sequence[Pause]:
        """What is paused, everything first: since when, by whom, until when, and how much waits."""
        await self.set_up()
        async with translated():
            return await host_views.pauses(self._db)

    async def pause_host(
        self,
        name: str,
        *,
        by: str,
        duration: timedelta | None = None,
        on_waiting: Callable[[int], None] | None = None,
    ) -> None:
        """Send nothing to a host, for a time or until `resume_host`. Restarts do not end it.

        When this returns, no request to it begins any more. One that was on the wire ends as what it comes to. A host
        that is paused stays so with the new end; repeating it is safe.

        Args:
            name: the host, with its port if that is not its scheme's own; or its origin.
            by: who pauses it, to be shown.
            duration: for how long; None: until it is resumed.
            on_waiting: told now and then of how many workers have not said that they know. If one is dead and nobody
                says so, this waits until its shards are free: 45 seconds at most unless `shard_lease_s` is another.

        Raises:
            InputError: an argument is not usable.
            QueueUnavailable: the database did not answer. Call again.
        """
        authority, for_s = canonical_host(name), _checked_pause(by, duration)
        await self.set_up()
        async with translated():
            await host_settings.pause_host(self._db, authority, by=by, for_s=for_s)
            number = await notices.announce_settings(self._db)
            await notices.until_known(self._db, number, on_waiting=on_waiting)

    async def resume_host(self, name: str) -> bool:
        """Send to a host again: its pause ends, and if it is quarantined its probe goes now. Gives whether it held.

        A time that it asked for itself by `Retry-After` is kept.
        """
        authority = canonical_host(name)
        await self.set_up()
        async with translated():
            paused = await host_settings.resume_host(self._db, authority)
            probed = await self._breakers_in_records().probe_now(authority)
            await self._tell(authority)
        return paused or probed

    async def pause_everything(
        self, *, by: str, duration: timedelta | None = None, on_waiting: Callable[[int], None] | None = None
    ) -> None:
        """Send nothing at all, for a time or until `resume_everything`. As `pause_host`, of every host."""
        for_s = _checked_pause(by, duration)
        await self.set_up()
        async with translated():
            number = await notices.pause_everything(self._db, by=by, for_s=for_s)
            await notices.until_known(self._db, number, on_waiting=on_waiting)

    async def resume_everything(self) -> bool:
        """End the pause of everything. Gives whether there was one. Hosts that are paused by themselves stay so."""
        await self.set_up()
        async with translated():
            paused = await notices.resume_everything(self._db)
            await wake(self._db, range(SHARDS))
        return paused

    async def probe_host(self, name: str) -> ProbeAnswer:
        """Try a quarantined host now, with the oldest delivery that waits for it.

        If that fails, the quarantine goes on as it was. Where breakers are not kept in the queue's database, this works
        once in each quarantine.

        Raises:
            UnknownHost: nothing is known of it.
        """
        authority = canonical_host(name)
        await self.set_up()
        async with translated():
            record = await host_views.host_record(self._db, authority)
            paused = record.pause is not None or await notices.pause_of_everything(self._db) is not None
            forward = await self._breakers_in_records().probe_now(authority)
            await self._tell(authority)
        if paused:
            return ProbeAnswer.PAUSED
        if not forward:
            is_open = record.state in (HostState.QUARANTINED, HostState.PROBING, HostState.UNAVAILABLE)
            return ProbeAnswer.UNDER_WAY if is_open else ProbeAnswer.NOT_QUARANTINED
        if not record.total_waiting:
            return ProbeAnswer.NOTHING_WAITS
        quarantined_until = record.breaker.until if record.breaker is not None else None
        gated = None not in (record.held_until, quarantined_until) and record.held_until != quarantined_until
        return ProbeAnswer.GATED if gated else ProbeAnswer.GOES

    async def reset_host(self, name: str) -> bool:
        """Forget what stands against a host: its breaker is as new. Gives whether anything did.

        Raises:
            UnknownHost: nothing is known of it.
            InputError: its breaker is not kept in the queue's database.
        """
        authority = canonical_host(name)
        await self.set_up()
        async with translated():
            record = await host_views.host_record(self._db, authority)
            if record.breaker is None:
                return False
            if not await self._breakers_in_records().reset(authority):
                raise InputError(
                    f"the breaker of {authority!r} is kept by a store of the application's own; reset it there"
                )
            await self._tell(authority)
        return True

    async def pin_scheme(self, name: str, scheme: Scheme | str | None) -> None:
        """Sign what goes to a host with this scheme and no other, whatever is learnt; None: as it was learnt."""
        pinned = None if scheme is None else _word(Scheme, "scheme", scheme).value
        await self._set(name, scheme=pinned)

    async def limit_host(self, name: str, per_host: int | None) -> None:
        """Let a host have so many requests open, also more than two; None: as many as any other."""
        if per_host is not None and (type(per_host) is not int or not 1 <= per_host <= PER_HOST_MAX):
            raise InputError(f"per_host is {shown(per_host)}; allowed is 1 to {PER_HOST_MAX}, or None")
        await self._set(name, per_host=per_host)

    async def set_content_form(self, name: str, form: ContentForm | str | None) -> None:
        """Send to a host with this Content-Type; None: with `application/activity+json`, as to any other."""
        wanted = None if form is None else _word(ContentForm, "form", form).value
        await self._set(name, form=wanted)

    async def purge_host(
        self,
        name: str,
        *,
        on_progress: Callable[[int], None] | None = None,
        on_waiting: Callable[[int], None] | None = None,
    ) -> Cancelled:
        """End what waits for a host as cancelled, in steps; what is sent to it later goes as ever.

        As `cancel` by host: what it reads and writes grows with what waits there, and repeating it is safe.

        Args:
            name: the host.
            on_progress: told after each step how many have ended.
            on_waiting: as for `cancel`.
        """
        return await self._cancel(Selection(host=name).canonical(), on_waiting=on_waiting, on_progress=on_progress)

    async def _set(self, name: str, **values: str | int | None) -> None:
        authority = canonical_host(name)
        await self.set_up()
        async with translated():
            await host_settings.set_for_host(self._db, authority, **values)
            await self._tell(authority)

    async def _tell(self, authority: str) -> None:
        """Tell the workers that something changed about a host: those that have jobs of it, and its owner."""
        await notices.announce_settings(self._db)
        await wake(self._db, [shard_of(authority)])

    def _breakers_in_records(self) -> MongoBreakers:
        # Also where workers keep them for inboxes now: what a record says of its host is of before.
        rules = replace(CircuitBreaker.configured(self._config), scope=BreakerScope.HOST)
        return MongoBreakers(self._db, rules, holder=secrets.token_bytes(16))


def _checked_pause(by: str, duration: timedelta | None) -> float | None:
    """Check who pauses and for how long; gives that in seconds."""
    check_text("by", by)
    if len(by) > _BY_MAX or not by.isprintable():
        raise InputError(f"by is {by[:80]!a}; allowed is a name of printable characters, at most {_BY_MAX}")
    return check_duration(duration)


def _word(kind: type[W], field: str, value: W | str) -> W:
    try:
        return kind(value)
    except (ValueError, TypeError):
        allowed = ", ".join(str(word) for word in kind)
        raise InputError(f"{field} is {shown(value)}; allowed is {allowed}") from None
