# SPDX-License-Identifier: Apache-2.0
"""The flags that say which deliveries, and what every command on the queue does first."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ojak.cli.where import queue_of, settings_of
from ojak.deliverer import Deliverer

T = TypeVar("T")

WHERE: Final = ("data", "mongo_url", "mongo_url_file", "database")
"""The settings that say where the queue is."""

_SELECTORS: Final = (
    ("activity", "ID", "Of the activity with this id."),
    ("object", "ID", "Of activities whose object has this id."),
    ("sender", "ID", "Of this sender."),
    ("host", "NAME", "To this host."),
    ("batch", "TAG", "Of the batch with this tag."),
)


def which_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for each way to select deliveries; those that are given come to it as `which`, by name."""

    @wraps(command)
    def with_which(**given: Any) -> Any:
        named = {name: given.pop(name) for name, _, _ in _SELECTORS}
        return command(which={name: value for name, value in named.items() if value is not None}, **given)

    for name, shown, text in reversed(_SELECTORS):
        with_which = click.option(f"--{name}", name, metavar=shown, help=text)(with_which)
    return with_which


def on_queue(config: Path | None, flags: dict[str, str | None], ask: Callable[[Deliverer], Awaitable[T]]) -> T:
    """Ask something of the queue that flags and settings name."""
    settings = settings_of(config, **flags)

    async def answered() -> T:
        deliverer = Deliverer(queue_of(settings), database=settings.database, config=settings.deliverer_config())
        async with deliverer:
            return await ask(deliverer)

    return asyncio.run(answered())


def say_waiting(count: int) -> None:
    """Tell on a terminal that a cancel waits for workers."""
    if sys.stderr.isatty():
        click.echo(
            f"waiting for workers to let go of {count}; one that died is waited for until its leases end", err=True
        )


def say_unaware(count: int) -> None:
    """Tell on a terminal that a pause waits for workers."""
    if sys.stderr.isatty():
        click.echo(
            f"waiting for {count} workers to know; one that died is waited for until its shards are free", err=True
        )


def say_ended(count: int) -> None:
    """Tell on a terminal how far a long step is."""
    if sys.stderr.isatty():
        click.echo(f"{count:>10} ended", err=True)
