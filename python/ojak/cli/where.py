# SPDX-License-Identifier: Apache-2.0
"""The flags that say where the queue and the keys are, for every command that needs them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from ojak.control import url_of
from ojak.settings import PREFIX, OperatorSettings, flag_of, load_settings, settings_class
from ojak.signing.key_store import KeyStore
from ojak.supervisor.key_source import key_store

_FLAGS: Final = ("data", "mongo_url", "mongo_url_file", "database", "keys", "keys_collection", "keys_fields", "app")


def where_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command these settings as flags, and `--config`; its parameters have the settings' names.

    Args:
        names: Which; all that say where the queue and the keys are, unless given.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        known = settings_class().model_fields
        for name in reversed(names or _FLAGS):
            text = f"{(known[name].description or '').rstrip('.')}. [{PREFIX}{name.upper()}]"
            command = click.option(flag_of(name), name, metavar="X", help=text)(command)
        return click.option(
            "--config", type=click.Path(path_type=Path), help=f"A TOML file with settings. [{PREFIX}CONFIG]"
        )(command)

    return add


def settings_of(config: Path | None, **flags: str | None) -> OperatorSettings:
    """The settings with what a command line gave.

    Raises:
        ConfigError: A setting is not usable.
    """
    return load_settings({name: value for name, value in flags.items() if value is not None}, config=config)


def key_store_of(settings: OperatorSettings) -> KeyStore | None:
    """Where the settings have the senders' keys, or None if they name no place.

    Raises:
        ConfigError: They name two, or the collection's server does not run.
    """
    # A folder needs no server.
    url = url_of(queue_of(settings)) if settings.keys_collection is not None else ""
    return key_store(
        folder=settings.keys,
        collection=settings.keys_collection,
        fields=settings.keys_fields,
        mongo_url=url,
        database=settings.database,
    )


def queue_of(settings: OperatorSettings) -> str:
    """Where a `Deliverer` finds the queue: the operator's MongoDB, or the data folder of a running supervisor."""
    url = settings.url()
    return str(settings.data) if url is None else url
