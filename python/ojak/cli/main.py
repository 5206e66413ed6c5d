# SPDX-License-Identifier: Apache-2.0
"""`ojak`: finds the command, and ends quietly and in words."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from types import MappingProxyType
from typing import Final

import click

from ojak.errors import OjakError
from ojak.streams import occupy_closed_streams
from ojak.supervisor.exits import ExitCode, exit_code_of

COMMANDS: Final = MappingProxyType(
    {
        "batch": "Follow a batch of deliveries, or cancel it.",
        "bench": "Measure what a delivery costs here.",
        "config": "Show the settings in effect, and the queue's own; clear those.",
        "demo": "Watch real activities go to two hundred hosts, every signature checked.",
        "explain": "Say where an activity went, and what it waits for.",
        "farm": "Serve thousands of mock inboxes that verify and count what arrives.",
        "jobs": "Show jobs of an application's own kinds; cancel and replay them.",
        "hosts": "Show how hosts are doing; pause, probe, pin, limit and purge them.",
        "keys": "Make, show, list and retire senders' keys.",
        "queue": "Show what is queued; cancel and replay it.",
        "send": "Queue one activity for some inboxes.",
        "supervisor": "Run the workers that deliver what is queued.",
    }
)
"""Each command, in the module of its name, with its line in the help: showing that loads none of them."""

PIPE_CLOSED: Final = 141
INTERRUPTED: Final = 130


_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


class _Commands(click.Group):
    """Loads a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"ojak.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's own shape
    if wanted and not ctx.resilient_parsing:
        click.echo(f"ojak {version('ojak')}")
        ctx.exit()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """The delivery engine of ActivityPub servers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; answers the exit code (docs/running.md lists them)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # The supervisor is for service managers, and writes nothing there.
    if occupy_closed_streams() and given[:1] != ["supervisor"]:
        print("ojak: standard output is closed; give it a file or /dev/null", file=sys.stderr)
        return int(ExitCode.FAILURE)
    try:
        # Not by the group's own `main`, which ends the process at a closed pipe.
        with cli.make_context("ojak", given) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as answered:
        return answered.exit_code
    except OjakError as error:
        for line in str(error).splitlines():
            print(f"ojak: {line}", file=sys.stderr)
        return int(exit_code_of(error))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return int(ExitCode.USAGE)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:
        return _could_not_write(error)
    return code if isinstance(code, int) else int(ExitCode.OK)


def _could_not_write(error: OSError) -> int:
    """The exit code where standard output takes no more; anything else is raised again."""
    if not isinstance(error, BrokenPipeError) and error.errno not in _UNWRITABLE:
        raise error
    # What is still buffered must not raise once more at the end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        # Whoever read has read enough.
        return PIPE_CLOSED
    print(f"ojak: the output cannot be written: {error.strerror}", file=sys.stderr)
    return int(ExitCode.FAILURE)
