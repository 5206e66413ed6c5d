# SPDX-License-Identifier: Apache-2.0
"""`ojak jobs`: jobs of an application's own kinds, and what to do about them."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ojak.cli.kinds import print_job
from ojak.cli.show import counted, print_json
from ojak.cli.where import where_options
from ojak.cli.which import WHERE, on_queue, say_waiting
from ojak.model.job import UNFINISHED
from ojak.model.kind_job import JobOutcome

_OUTCOMES = click.Choice([str(outcome) for outcome in JobOutcome])
_STATES = click.Choice([*UNFINISHED, *_OUTCOMES.choices])
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


def _which(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--kind", metavar="NAME", help="All of this kind.")(command)
    return click.option("--job", metavar="ID", help="The job with this id.")(command)


@click.group("jobs")
def jobs() -> None:
    """Show jobs of an application's own kinds; cancel and replay them."""


@jobs.command("list")
@click.option("--kind", metavar="NAME", help="Of this kind; of all kinds unless given.")
@click.option("--state", "states", type=_STATES, multiple=True, help="In this state; may be given many times.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="So many at most.")
@where_options(*WHERE)
@_JSON
def list_(
    *, config: Path | None, limit: int, states: tuple[str, ...], kind: str | None, as_json: bool, **flags: str | None
) -> None:
    """List jobs; unless told which states, those that have not ended."""
    found = on_queue(config, flags, lambda queue: queue.jobs(kind, states=states or UNFINISHED, limit=limit))
    for job in found:
        if as_json:
            print_json(asdict(job))
        else:
            print_job(job)
    if len(found) == limit and not as_json:
        click.echo(f"… these are the first {limit}; --limit lists more", err=True)


@jobs.command("cancel")
@_which
@where_options(*WHERE)
@_JSON
def cancel(*, config: Path | None, job: str | None, kind: str | None, as_json: bool, **flags: str | None) -> None:
    """End a job, or all unfinished ones of a kind. Give exactly one.

    When this returns, none of them begins any more. What runs is asked to stop, and ends as what it comes to.
    """
    done = on_queue(config, flags, lambda queue: queue.cancel_jobs(job=job, kind=kind, on_waiting=say_waiting))
    if as_json:
        print_json({"cancelled": done.count, "running": done.on_wire})
        return
    click.echo(f"{counted(done.count, 'job')} cancelled")
    if done.on_wire:
        click.echo(f"{counted(done.on_wire, 'job')} had begun already, asked to stop")


@jobs.command("replay")
@_which
@click.option(
    "--outcome",
    "outcomes",
    type=_OUTCOMES,
    multiple=True,
    help="Only what ended so; may be given many times. Unless given: refused, out of retries, parked.",
)
@where_options(*WHERE)
@_JSON
def replay(
    *,
    config: Path | None,
    outcomes: tuple[str, ...],
    job: str | None,
    kind: str | None,
    as_json: bool,
    **flags: str | None,
) -> None:
    """Queue an ended job again, or those of a kind. Give exactly one."""
    wanted = [JobOutcome(name) for name in outcomes] or None
    count = on_queue(config, flags, lambda queue: queue.replay_jobs(job=job, kind=kind, outcomes=wanted))
    if as_json:
        print_json({"replayed": count})
    else:
        click.echo(f"{counted(count, 'job')} queued again")
