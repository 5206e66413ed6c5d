# SPDX-License-Identifier: Apache-2.0
"""`ojak batch`: how far a batch of deliveries is."""

from dataclasses import asdict
from pathlib import Path

import click

from ojak.cli.show import counted, print_cancelled, print_counts, print_json, printable, time_in_words
from ojak.cli.where import where_options
from ojak.cli.which import WHERE, on_queue, say_waiting

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group("batch")
def batch() -> None:
    """Follow a batch of deliveries, or cancel it."""


@batch.command("show")
@click.argument("tag")
@click.option(
    "--failures", type=click.IntRange(0, 1_000_000), default=20, show_default=True, help="List so many failures."
)
@where_options(*WHERE)
@_JSON
def show(tag: str, failures: int, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Show how far the batch TAG is: counts by state, an estimate of its end, and what failed.

    \b
    Exit codes: 0 · 2 usage, or no such batch is kept · 5, 6 no database.
    """
    progress = on_queue(config, flags, lambda queue: queue.follow(tag, failures=failures))
    if as_json:
        print_json({**asdict(progress), "total": progress.total, "unfinished": progress.unfinished})
        return
    click.echo(f"{printable(tag)}: {counted(progress.total, 'delivery')}, {progress.unfinished} unfinished")
    print_counts(progress.counts)
    click.echo(f"began {time_in_words(progress.began_at)}")
    if progress.deadline is not None:
        click.echo(f"deadline {time_in_words(progress.deadline)}")
    if progress.unfinished:
        click.echo(
            f"ends about {time_in_words(progress.ends_at)}" if progress.ends_at else "no estimate of its end yet"
        )
    for failure in progress.failures:
        click.echo(f"  {failure.outcome} {failure.inbox}: {failure.reason or failure.status or 'never tried'}")


@batch.command("cancel")
@click.argument("tag")
@where_options(*WHERE)
@_JSON
def cancel(tag: str, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """End what is queued of the batch TAG. When this returns, no request of it begins any more."""
    done = on_queue(config, flags, lambda queue: queue.cancel(batch=tag, on_waiting=say_waiting))
    print_cancelled(done, as_json=as_json)
