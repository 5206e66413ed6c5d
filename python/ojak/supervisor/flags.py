# SPDX-License-Identifier: Apache-2.0
"""The supervisor's command line: one flag a setting, each with its variable."""

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ojak.settings import PREFIX, OperatorSettings, flag_of, load_settings, settings_class

_EPILOG = (
    "Flags go over variables, variables over the configuration file. "
    "TERM or INT drains and ends; a second one forces. docs/running.md lists the exit codes."
)


class _Version(argparse.Action):
    """Looks the version up when it is asked for, and not at every start."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"ojak {version('ojak')}")  # noqa: T201 - the answer to --version
        parser.exit()


def parse_argv(argv: list[str]) -> OperatorSettings:
    """Read the settings with this command line.

    Raises:
        ConfigError: A setting is not usable.
        SystemExit: `--help` and `--version` are answered (0), or a flag is unknown (2).
    """
    parser = argparse.ArgumentParser(
        prog="ojak supervisor",
        usage="%(prog)s [--data FOLDER | --mongo-url URL] [--workers N] [--app MODULE:FACTORY | --keys FOLDER] …",
        description="Fork workers that deliver what is queued, and keep them running.",
        epilog=_EPILOG,
        # A flag cut short would become another one as soon as a longer one is added.
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="show the version and end")
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"a TOML file with settings [{PREFIX}CONFIG]")
    for name, field in settings_class().model_fields.items():
        text = (field.description or "").rstrip(".").replace("%", "%%").replace("\n", " ")
        default = (
            ""
            if field.default_factory is not None or field.default in (None, (), frozenset())
            else f" ({_in_words(field.default)})"
        )
        parser.add_argument(flag_of(name), dest=name, metavar="X", help=f"{text}{default} [{PREFIX}{name.upper()}]")
    given = vars(parser.parse_args(argv))
    config = given.pop("config")
    return load_settings({name: value for name, value in given.items() if value is not None}, config=config)


def _in_words(default: object) -> str:
    """A default as it would be written on a command line."""
    return ",".join(map(str, sorted(default))) if isinstance(default, frozenset) else str(default)
