# SPDX-License-Identifier: Apache-2.0
"""`ojak hosts`: how hosts are doing, and what to do about it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from ojak.cli.duration import Duration
from ojak.cli.operator import operator_name
from ojak.cli.show import print_cancelled, print_json
from ojak.cli.show_hosts import host_as_json, print_host, print_host_whole
from ojak.cli.where import where_options
from ojak.cli.which import WHERE, on_queue, say_ended, say_unaware, say_waiting
from ojak.errors import InputError
from ojak.host_control import PER_HOST_MAX
from ojak.model.host import ContentForm, HostFilter, HostSort, ProbeAnswer, canonical_host
from ojak.signing import Scheme

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
_NONE: Final = "none"
_PROBED: Final = {
    ProbeAnswer.GOES: "its probe goes now, with the oldest delivery that waits for it",
    ProbeAnswer.NOT_QUARANTINED: "it is not quarantined: nothing to probe",
    ProbeAnswer.UNDER_WAY: "its probe is under way already",
    ProbeAnswer.NOTHING_WAITS: "nothing waits for it: the next delivery is its probe",
    ProbeAnswer.PAUSED: "it is paused: resume first",
    ProbeAnswer.GATED: "it asked for no request for now: its probe goes when that is over",
}


@click.group("hosts")
def hosts() -> None:
    """Show how hosts are doing; pause, probe, pin, limit and purge them.

    HOST is a name, with its port if that is not its scheme's own: c.example, c.example:8443. :443 and :80 are dropped,
    since that is how hosts are kept; only an inbox that has the other scheme's port is named by its origin, as in
    http://c.example:443. Names of other scripts are taken as they are written.
    """


@hosts.command("list")
@click.option("--only", "which", type=click.Choice([str(word) for word in HostFilter]), help="Only these.")
@click.option(
    "--sort", type=click.Choice([str(word) for word in HostSort]), default="name", show_default=True, help="The order."
)
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="So many at most.")
@where_options(*WHERE)
@_JSON
def list_(*, which: str | None, sort: str, limit: int, config: Path | None, as_json: bool, **flags: str | None) -> None:
    """List hosts, each with what holds it and how much waits for it.

    \b
    held     nothing goes to them for now
    open     their circuit breaker is open
    paused   an operator paused them
    failing  the last attempt did not come through
    set      an operator has set something for them
    """
    found = on_queue(config, flags, lambda queue: queue.hosts(which, sort=sort, limit=limit))
    if as_json:
        for host in found:
            print_json(host_as_json(host))
        return
    for host in found:
        print_host(host)
    if len(found) == limit:
        click.echo(f"… these are the first {limit}; --limit lists more", err=True)


@hosts.command("show")
@click.argument("host")
@where_options(*WHERE)
@_JSON
def show(host: str, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Show all that is known of HOST: what holds it, breaker, scheme, settings, and what waits.

    \b
    Exit codes: 0 · 2 usage, or nothing is known of it · 5, 6 no database.
    """
    found = on_queue(config, flags, lambda queue: queue.host(host))
    if as_json:
        print_json(host_as_json(found))
    else:
        print_host_whole(found)


def _host_or_all(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--all", "everything", is_flag=True, help="Everything.")(command)
    return click.argument("host", required=False)(command)


def _check_host_or_all(host: str | None, *, everything: bool) -> None:
    if (host is None) is not everything:
        raise InputError(
            f"{'both HOST and --all are' if everything else 'neither HOST nor --all is'} given; allowed is one of them"
        )


@hosts.command("pause")
@_host_or_all
@click.option("--for", "duration", type=Duration(), help="It ends by itself after this: 90s, 15m, 1h, 2d, 1w.")
@click.option("--by", metavar="NAME", help="Who pauses, to be shown; the user of this machine unless given.")
@where_options(*WHERE)
@_JSON
def pause(
    *,
    host: str | None,
    everything: bool,
    duration: timedelta | None,
    by: str | None,
    config: Path | None,
    as_json: bool,
    **flags: str | None,
) -> None:
    """Send nothing to HOST, or nothing at all with --all, for a time or until it is resumed.

    When this returns, no request to it begins any more, on any machine, also after a restart. What was on the wire
    already ends as what it comes to. A worker that died without anybody noticing is waited for until its shards are
    free.
    """
    _check_host_or_all(host, everything=everything)
    who = by if by is not None else operator_name()
    if host is None:
        on_queue(
            config,
            flags,
            lambda queue: queue.pause_everything(by=who, duration=duration, on_waiting=say_unaware),
        )
    else:
        on_queue(
            config,
            flags,
            lambda queue: queue.pause_host(host, by=who, duration=duration, on_waiting=say_unaware),
        )
    # As it is kept, which is what has to be looked for from now on.
    paused = canonical_host(host) if host is not None else True
    _say({"paused": paused, "by": who}, "paused", as_json=as_json)


@hosts.command("resume")
@_host_or_all
@where_options(*WHERE)
@_JSON
def resume(*, host: str | None, everything: bool, config: Path | None, as_json: bool, **flags: str | None) -> None:
    """Send to HOST again, or to all with --all; if HOST is quarantined, its probe goes now.

    Hosts that are paused by themselves stay so when everything is resumed.
    """
    _check_host_or_all(host, everything=everything)
    if host is None:
        held = on_queue(config, flags, lambda queue: queue.resume_everything())
    else:
        held = on_queue(config, flags, lambda queue: queue.resume_host(host))
    _say({"resumed": held}, "resumed" if held else "it was not held by a pause or a quarantine", as_json=as_json)


@hosts.command("probe")
@click.argument("host")
@where_options(*WHERE)
@_JSON
def probe(host: str, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Try HOST now if it is quarantined, with the oldest delivery that waits for it.

    \b
    Exit codes: 0 · 2 usage, or nothing is known of it · 5, 6 no database.
    """
    answer = on_queue(config, flags, lambda queue: queue.probe_host(host))
    _say({"probe": str(answer)}, _PROBED[answer], as_json=as_json)


@hosts.command("reset")
@click.argument("host")
@where_options(*WHERE)
@_JSON
def reset(host: str, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Forget what stands against HOST: its circuit breaker closes, and the next quarantine is a first one."""
    done = on_queue(config, flags, lambda queue: queue.reset_host(host))
    _say({"reset": done}, "reset" if done else "nothing stood against it", as_json=as_json)


@hosts.command("pin")
@click.argument("host")
@click.argument("scheme", required=False, type=click.Choice([*(str(word) for word in Scheme), _NONE]))
@click.option(
    "--content-type", "form", type=click.Choice([*(str(word) for word in ContentForm), _NONE]), help="Its Content-Type."
)
@where_options(*WHERE)
@_JSON
def pin(
    host: str, scheme: str | None, form: str | None, config: Path | None, *, as_json: bool, **flags: str | None
) -> None:
    """Sign what goes to HOST with SCHEME, whatever is learnt, or send it with this Content-Type; none takes it back.

    \b
    activity+json  application/activity+json, as to any other
    ld+json        application/ld+json with the profile of ActivityStreams
    """
    if scheme is None and form is None:
        raise InputError("neither SCHEME nor --content-type is given; allowed is one of them, or both")
    if scheme is not None:
        on_queue(config, flags, lambda queue: queue.pin_scheme(host, None if scheme == _NONE else scheme))
    if form is not None:
        on_queue(config, flags, lambda queue: queue.set_content_form(host, None if form == _NONE else form))
    _say({"scheme": scheme, "content_type": form}, "set", as_json=as_json)


class _Limit(click.ParamType["int | str"]):
    """A number of requests, or none."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == _NONE:
            return _NONE
        if not (str(value).isascii() and str(value).isdigit() and 1 <= int(value) <= PER_HOST_MAX):
            self.fail(f"{value!r} is no limit; allowed is 1 to {PER_HOST_MAX}, or none", param, ctx)
        return int(value)


@hosts.command("limit")
@click.argument("host")
@click.argument("limit", type=_Limit())
@where_options(*WHERE)
@_JSON
def limit(host: str, limit: int | str, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Let HOST have LIMIT requests open at a time; none: as many as any other."""
    per_host = limit if isinstance(limit, int) else None
    on_queue(config, flags, lambda queue: queue.limit_host(host, per_host))
    _say({"per_host": per_host}, "set", as_json=as_json)


@hosts.command("purge")
@click.argument("host")
@where_options(*WHERE)
@_JSON
def purge(host: str, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """End what waits for HOST as cancelled. What is sent to it later goes as ever.

    When this returns, no request of it begins any more. It goes in steps; interrupted, what was ended is, and it can be
    called again.
    """
    done = on_queue(config, flags, lambda queue: queue.purge_host(host, on_progress=say_ended, on_waiting=say_waiting))
    print_cancelled(done, as_json=as_json)


def _say(answer: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        click.echo(text)
