# SPDX-License-Identifier: Apache-2.0
"""`ojak explain`: where an activity went."""

from dataclasses import asdict
from pathlib import Path

import click

from ojak.cli.show import counted, print_delivery, print_json, printable
from ojak.cli.where import where_options
from ojak.cli.which import WHERE, on_queue
from ojak.model.outcome import SentState


@click.command("explain")
@click.argument("activity")
@click.option("--limit", type=click.IntRange(0, 1_000_000), default=100, show_default=True, help="List so many.")
@where_options(*WHERE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(activity: str, limit: int, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Say where ACTIVITY went: each inbox with its state, attempts, last answer, and what it waits for.

    ACTIVITY is its id; of one without an id, what `ojak send` printed. What has not ended comes first.

    \b
    Exit codes: 0 · 2 usage, or no delivery of it is kept · 5, 6 no database.
    """
    explained = on_queue(config, flags, lambda queue: queue.explain(activity, limit=limit))
    if as_json:
        print_json(asdict(explained) | {"total": explained.total})
        return
    counts = ", ".join(f"{count} {state}" for state, count in sorted(explained.counts.items()))
    click.echo(f"{printable(explained.activity_id)}: {counted(explained.total, 'delivery')}, {counts}")
    for delivery in explained.deliveries:
        print_delivery(delivery, named=False)
    left = explained.total - explained.counts.get(SentState.PENDING, 0) - len(explained.deliveries)
    if left > 0:
        click.echo(f"… and {left} more; --limit lists more", err=True)
