# SPDX-License-Identifier: Apache-2.0
"""`ojak queue`: what waits, and what to do about it."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import click

from ojak.cli.duration import Duration
from ojak.cli.kinds import print_kinds
from ojak.cli.operator import operator_name
from ojak.cli.show import counted, print_cancelled, print_counts, print_deliveries_json, print_delivery, print_json
from ojak.cli.show_hosts import print_pause
from ojak.cli.show_senders import print_sender_pause
from ojak.cli.where import where_options
from ojak.cli.which import WHERE, on_queue, say_unaware, say_waiting, which_options
from ojak.deliverer import Deliverer
from ojak.model.hold import SenderPause
from ojak.model.host import Pause
from ojak.model.job import UNFINISHED
from ojak.model.kind_job import KindStatus
from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.model.queue_settings import QueueSettings
from ojak.model.selection import Selection

_OUTCOMES = click.Choice([str(outcome) for outcome in (*SettledOutcome, *FailureReason)])
_STATES = click.Choice([*UNFINISHED, *_OUTCOMES.choices])
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


@click.group("queue")
def queue() -> None:
    """Show what is queued; cancel and replay it; pause senders."""


@queue.command("status")
@where_options(*WHERE)
@_JSON
def status(config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Show what is paused, and count the deliveries by state. Those that have ended are kept for some days."""
    counts, pauses, senders, kinds, settings = on_queue(config, flags, _status)
    if as_json:
        print_json(
            {
                "counts": counts,
                "unfinished": sum(counts.get(state, 0) for state in UNFINISHED),
                "pauses": [asdict(pause) for pause in pauses],
                "outbox": {
                    "waiting": settings.outbox_waiting,
                    "newer": settings.outbox_newer,
                    "parked": settings.outbox_parked,
                },
                "sender_pauses": [asdict(pause) for pause in senders],
                "kinds": [asdict(kind) for kind in kinds],
            }
        )
        return
    for pause in pauses:
        print_pause(pause)
    for held in senders:
        print_sender_pause(held)
    if counts:
        print_counts(counts)
    else:
        click.echo("the queue is empty")
    if settings.outbox_waiting or settings.outbox_parked:
        waiting = counted(settings.outbox_waiting, "send")
        newer = f" ({settings.outbox_newer} by workers of a later version)" if settings.outbox_newer else ""
        click.echo(f"in the outbox: {waiting} to be queued{newer}, {settings.outbox_parked} parked")
    print_kinds(kinds)


async def _status(
    queue: Deliverer,
) -> tuple[dict[str, int], Sequence[Pause], Sequence[SenderPause], Sequence[KindStatus], QueueSettings]:
    senders = await queue.sender_pauses()
    return await queue.counts(), await queue.pauses(), senders, await queue.kinds(), await queue.queue_settings()


@queue.command("pause")
@click.option("--sender", metavar="ID", required=True, help="The sender whose deliveries are to wait.")
@click.option("--for", "duration", type=Duration(), help="It ends by itself after this: 90s, 15m, 1h, 2d, 1w.")
@click.option("--by", metavar="NAME", help="Who pauses, to be shown; the user of this machine unless given.")
@where_options(*WHERE)
@_JSON
def pause(
    *,
    sender: str,
    duration: timedelta | None,
    by: str | None,
    config: Path | None,
    as_json: bool,
    **flags: str | None,
) -> None:
    """Send nothing for a sender, for a time or until it is resumed. Hosts, and everything: `ojak hosts pause`.

    When this returns, no request of it begins any more, on any machine, also after a restart. What was on the wire
    already ends as what it comes to. A worker that died without anybody noticing is waited for until its shards are
    free.
    """
    who = by if by is not None else operator_name()
    on_queue(
        config,
        flags,
        lambda queue: queue.pause_sender(sender, by=who, duration=duration, on_waiting=say_unaware),
    )
    if as_json:
        print_json({"paused": sender, "by": who})
    else:
        click.echo("paused")


@queue.command("resume")
@click.option("--sender", metavar="ID", required=True, help="The sender whose deliveries are to go again.")
@where_options(*WHERE)
@_JSON
def resume(*, sender: str, config: Path | None, as_json: bool, **flags: str | None) -> None:
    """Send for a sender again. One that had no key that could be used is asked for at once."""
    was_held = on_queue(config, flags, lambda queue: queue.resume_sender(sender))
    if as_json:
        print_json({"resumed": sender, "was_held": was_held})
    else:
        click.echo("resumed" if was_held else "nothing held it")


@queue.command("list")
@which_options
@click.option("--state", "states", type=_STATES, multiple=True, help="In this state; may be given many times.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="So many at most.")
@where_options(*WHERE)
@_JSON
def list_(
    *,
    config: Path | None,
    limit: int,
    states: tuple[str, ...],
    which: dict[str, str],
    as_json: bool,
    **flags: str | None,
) -> None:
    """List deliveries, all or some, with what they wait for; unless told which states, those that have not ended."""
    selection = Selection(**which) if which else None
    found = on_queue(config, flags, lambda queue: queue.deliveries(selection, states=states or UNFINISHED, limit=limit))
    if as_json:
        print_deliveries_json(found)
        return
    for delivery in found:
        print_delivery(delivery, named=True)
    if len(found) == limit:
        click.echo(f"… these are the first {limit}; --limit lists more", err=True)


@queue.command("cancel")
@which_options
@where_options(*WHERE)
@_JSON
def cancel(
    *,
    config: Path | None,
    which: dict[str, str],
    as_json: bool,
    **flags: str | None,
) -> None:
    """End what is queued of an activity, an object, a sender, a host or a batch. Give exactly one.

    When this returns, no request of it begins any more. What was on the wire already ends as what it comes to. A worker
    that died without anybody noticing is waited for until its leases have run out.
    """
    Selection(**which)
    done = on_queue(config, flags, lambda queue: queue.cancel(**which, on_waiting=say_waiting))
    print_cancelled(done, as_json=as_json)


@queue.command("replay")
@which_options
@click.option(
    "--outcome",
    "outcomes",
    type=_OUTCOMES,
    multiple=True,
    help="Only what ended so; may be given many times. Unless given: all but delivered, superseded and cancelled.",
)
@where_options(*WHERE)
@_JSON
def replay(
    *,
    config: Path | None,
    outcomes: tuple[str, ...],
    which: dict[str, str],
    as_json: bool,
    **flags: str | None,
) -> None:
    """Queue ended deliveries again of an activity, an object, a sender, a host or a batch. Give exactly one."""
    Selection(**which)
    wanted = [_outcome(name) for name in outcomes] or None
    done = on_queue(config, flags, lambda queue: queue.replay(**which, outcomes=wanted))
    if as_json:
        print_json({"replayed": done.count, "without_body": done.without_body})
        return
    click.echo(f"{counted(done.count, 'delivery')} queued again")
    if done.without_body:
        click.echo(f"{done.without_body} left: their activity is not kept any more, or its id has other bytes now")


def _outcome(name: str) -> SettledOutcome | FailureReason:
    return SettledOutcome(name) if name in set(SettledOutcome) else FailureReason(name)
