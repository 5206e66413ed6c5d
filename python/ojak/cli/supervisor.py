# SPDX-License-Identifier: Apache-2.0
"""`ojak supervisor`."""

import os
import sys

import click


@click.command(
    "supervisor",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def supervisor(arguments: tuple[str, ...]) -> None:
    """Run the workers that deliver what is queued; --help tells every setting."""
    # In this process's place, since what is loaded here is larger than the supervisor may be.
    os.execv(sys.executable, [sys.executable, "-m", "ojak.supervisor", *arguments])  # noqa: S606 - no shell is wanted
