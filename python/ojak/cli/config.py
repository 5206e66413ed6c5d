# SPDX-License-Identifier: Apache-2.0
"""`ojak config`: the settings in effect and where each came from; what the queue itself has set, and clearing it."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ojak.cli.show import counted, print_json, time_in_words
from ojak.cli.where import settings_of, where_options
from ojak.cli.which import WHERE, on_queue
from ojak.model.queue_settings import QueueSettings
from ojak.settings import SECRET, OperatorSettings, origins, settings_class, unknown_variables

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_HIDDEN: Final = "set, and not shown"


@click.group("config")
def config() -> None:
    """Show the settings in effect, and the queue's own; clear those."""


@config.command("show")
@where_options(*settings_class().model_fields)
@_JSON
def show(config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Show every setting with its value and where that came from: a flag, a variable, the file, or its default.

    \b
    Exit codes: 0 · 2 a setting cannot be used.
    """
    settings = settings_of(config, **flags)
    came_from = origins({name: value for name, value in flags.items() if value is not None}, config=config)
    shown = {name: _shown(settings, name) for name in came_from}
    unknown = unknown_variables()
    if as_json:
        values = {name: {"value": value, "from": came_from[name]} for name, value in shown.items()}
        print_json({"settings": values, "unknown_variables": unknown})
        return
    for name, value in shown.items():
        click.echo(f"{name} = {value if value is not None else ''}  ({came_from[name]})")
    for name in unknown:
        click.echo(f"{name} looks like a setting and is none", err=True)


def _shown(settings: OperatorSettings, name: str) -> str | int | float | None:
    value = getattr(settings, name)
    if value is None or (isinstance(value, int | float | str) and name not in SECRET):
        return value
    if name in SECRET:
        return _HIDDEN
    if isinstance(value, frozenset | tuple):
        return ", ".join(str(part) for part in sorted(value, key=str))
    return str(value)


@config.command("queue")
@where_options(*WHERE)
@_JSON
def queue(config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Show what the queue itself has set, in its database, for all processes that share it.

    \b
    Exit codes: 0 · 2 usage · 5, 6 no database.
    """
    found = on_queue(config, flags, lambda queue: queue.queue_settings())
    if as_json:
        print_json(asdict(found))
        return
    for line in _lines(found):
        click.echo(line)


def _lines(found: QueueSettings) -> list[str]:
    since = f", since {time_in_words(found.callbacks_since)}" if found.callbacks_since is not None else ""
    callbacks = "yes: ends are kept until they were told" if found.callbacks else "no"
    outbox = "not used"
    if found.outbox:
        newer = f" ({found.outbox_newer} for a later version)" if found.outbox_newer else ""
        outbox = f"{counted(found.outbox_waiting, 'send')} waiting{newer}, {found.outbox_parked} parked"
    return [f"callbacks: {callbacks}{since}", f"outbox: {outbox}", f"schema: {found.schema}"]


@config.command("clear")
@click.argument("setting", type=click.Choice(["callbacks"]))
@where_options(*WHERE)
@_JSON
def clear(setting: str, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Clear what the queue has set: `callbacks`, when nobody is to be told of ends any more.

    Ends that are untold by then expire untold. As long as a process with callbacks runs it sets that anew.

    \b
    Exit codes: 0 · 2 usage · 5, 6 no database.
    """
    was_set = on_queue(config, flags, lambda queue: queue.clear_callbacks())
    if as_json:
        print_json({"setting": setting, "was_set": was_set})
    else:
        click.echo(f"{setting} cleared" if was_set else f"{setting} was not set")
