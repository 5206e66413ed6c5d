# SPDX-License-Identifier: Apache-2.0
"""How jobs of an application's own kinds, and the kinds, look in a terminal."""

from collections.abc import Iterable

import click

from ojak.cli.show import printable, time_in_words
from ojak.model.kind_job import JobInfo, KindStatus

_UNITS = (("day", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def print_kinds(kinds: Iterable[KindStatus]) -> None:
    """Print how each kind stands, a line each; of one that nobody handles it says so."""
    for kind in kinds:
        leased = kind.counts.get("leased", 0)
        parts = [f"{kind.unfinished - leased} waiting"]
        if kind.workers:
            parts[0] += f" of kind {kind.kind}"
            if leased:
                parts.append(f"{leased} running")
            parts.append(f"{kind.workers} worker{'s' if kind.workers > 1 else ''}")
        else:
            parts.append(f"no worker for kind {kind.kind}")
        if kind.oldest_at is not None:
            parts.append(f"the oldest for {span_in_words(kind.oldest_s)}")
        click.echo(", ".join(parts))


def span_in_words(seconds: float) -> str:
    """A span of time in its largest unit: 45 s, 3 min, 2 days."""
    for unit, length_s in _UNITS:
        if seconds >= length_s:
            count = int(seconds // length_s)
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
    return "0 s"


def print_job(job: JobInfo) -> None:
    """Print a job: its id, kind and key, and how it stands."""
    click.echo(f"{job.id} {job.kind}" + (f" {printable(job.key)}" if job.key is not None else ""))
    parts = [job.state]
    if job.next_try is not None:
        parts.append(f"next try {time_in_words(job.next_try)}")
    if job.finished_at is not None and job.next_try is None:
        parts.append(time_in_words(job.finished_at))
    if job.attempts:
        parts.append(f"{job.attempts} attempt{'s' if job.attempts > 1 else ''}")
    if job.deaths:
        parts.append(f"{job.deaths} death{'s' if job.deaths > 1 else ''} of a worker")
    if job.reason:
        parts.append(f"last {job.reason}")
    if job.detail:
        parts.append(printable(job.detail))
    click.echo(f"  {' · '.join(parts)}")
