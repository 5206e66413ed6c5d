# SPDX-License-Identifier: Apache-2.0
"""How hosts and pauses look in a terminal."""

from dataclasses import asdict
from typing import Any

import click

from ojak.cli.show import counted, time_in_words
from ojak.model.host import HostBreaker, HostRecord, HostState, Pause


def print_pause(pause: Pause) -> None:
    """Print a pause: of what, since when, by whom, until when, and how much waits."""
    until = f"until {time_in_words(pause.until)}" if pause.until is not None else "until it is resumed"
    what = "everything" if pause.host is None else pause.host
    waits = counted(pause.waiting, "delivery")
    verb = "waits" if pause.waiting == 1 else "wait"
    click.echo(f"paused: {what} since {time_in_words(pause.since)} by {pause.by}, {until}; {waits} {verb}")


def print_host(host: HostRecord) -> None:
    """Print a host in two lines: its name, and how it stands."""
    click.echo(host.authority)
    click.echo(f"  {' · '.join(_standing(host))}")


def _standing(host: HostRecord) -> list[str]:
    parts = [_held(host)]
    if host.total_waiting:
        parts.append(f"{counted(host.total_waiting, 'delivery')} waiting")
    if host.proven is not None:
        parts.append("last attempt came through" if host.proven else "last attempt failed")
    if host.answer_ms is not None:
        parts.append(f"answers in {host.answer_ms:.0f} ms")
    return parts + _set(host)


def _held(host: HostRecord) -> str:
    if host.pause is not None:
        until = f"until {time_in_words(host.pause.until)}" if host.pause.until is not None else "until it is resumed"
        return f"paused by {host.pause.by} since {time_in_words(host.pause.since)}, {until}"
    if host.held_until is not None:
        return f"{host.state} until {time_in_words(host.held_until)}"
    if host.state is HostState.LATER:
        return f"next try {time_in_words(host.due)}"
    return host.state.value


def _set(host: HostRecord) -> list[str]:
    overrides = host.overrides
    parts: list[str] = []
    if overrides.scheme is not None:
        parts.append(f"pinned to {overrides.scheme}")
    elif host.scheme is not None:
        parts.append(f"takes {host.scheme}")
    if overrides.per_host is not None:
        parts.append(f"{overrides.per_host} at a time")
    if host.limit is not None:
        parts.append(f"{host.limit} at a time for now")
    if overrides.form is not None:
        parts.append(f"as {overrides.form}")
    return parts


def print_host_whole(host: HostRecord) -> None:
    """Print everything of a host, a line each."""
    print_host(host)
    if host.breaker is not None:
        _print_breaker(host.breaker)
    for state, count in host.waiting.items():
        click.echo(f"  {count:>10}  {state}")
    if host.waiting_small:
        click.echo(f"  {host.waiting_small:>10}  of these go before others")
    if host.scheme_until is not None and host.scheme is not None:
        click.echo(f"  {host.scheme} is remembered until {time_in_words(host.scheme_until)}")
    for name, moment in (
        ("next try", host.next_try),
        ("last success", host.last_success),
        ("last failure", host.last_failure),
    ):
        if moment is not None:
            click.echo(f"  {name} {time_in_words(moment)}")
    click.echo(f"  shard {host.shard}")


def _print_breaker(breaker: HostBreaker) -> None:
    failures = f", {counted(breaker.failures, 'failure')} in a row" if breaker.failures else ""
    click.echo(f"  breaker {breaker.state}{failures}")
    if breaker.quarantine:
        click.echo(f"  quarantine number {breaker.quarantine}, ends {time_in_words(breaker.ends)}")
    if breaker.to_go:
        click.echo(f"  {breaker.to_go} successes in a row to go")
    if breaker.quiet_since is not None:
        click.echo(f"  nothing came through since {time_in_words(breaker.quiet_since)}")
    if breaker.unavailable_at is not None:
        click.echo(f"  what goes there ends at once from {time_in_words(breaker.unavailable_at)} on")


def host_as_json(host: HostRecord) -> dict[str, Any]:
    """A host as one object."""
    return {**asdict(host), "next_try": host.next_try, "total_waiting": host.total_waiting}
