# SPDX-License-Identifier: Apache-2.0
"""`ojak send`: one activity into the queue."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from ojak.cli.where import queue_of, settings_of, where_options
from ojak.deliverer import Deliverer
from ojak.errors import InputError
from ojak.http.outbound import Outbound
from ojak.model.inbox import Inbox
from ojak.model.outcome import Sent, SentState
from ojak.model.portable import PortableInbox
from ojak.settings import OperatorSettings
from ojak.signing import FolderSenderKeys, SenderKeys
from ojak.supervisor.app import load_app
from ojak.supervisor.exits import ExitCode

_SHOWN_MAX: Final = 20
_TEXT_MAX: Final = 200


@click.command("send")
@click.argument("activity", type=click.Path(path_type=Path, allow_dash=True), default="-")
@click.option("--sender", required=True, metavar="ID", help="The id of the actor that sends, whose key signs.")
@click.option("--inbox", "inboxes", multiple=True, metavar="URL", help="An inbox; may be given many times.")
@click.option("--shared-inbox", "shared", multiple=True, metavar="URL", help="A shared inbox; may be given many times.")
@click.option(
    "--portable",
    "portable",
    multiple=True,
    metavar="ID",
    help="A portable inbox, ap://did:key:…/…; may be given many times. All of them have the gateways of --gateway.",
)
@click.option(
    "--gateway",
    "gateways",
    multiple=True,
    metavar="URL",
    help="A gateway of the portable inboxes, https://gateway.example; given in the order they are asked.",
)
@click.option(
    "--inboxes",
    "file",
    type=click.Path(path_type=Path),
    help="A file with one inbox URL a line; - reads standard input.",
)
@where_options()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def send(
    *,
    activity: Path,
    sender: str,
    inboxes: tuple[str, ...],
    shared: tuple[str, ...],
    portable: tuple[str, ...],
    gateways: tuple[str, ...],
    file: Path | None,
    config: Path | None,
    as_json: bool,
    **flags: str | None,
) -> int:
    r"""Queue ACTIVITY, a JSON file or standard input, for some inboxes. Its bytes are sent as they are.

    \b
    Exit codes: 0 queued · 1 some inbox was refused, the others are queued · 2 usage, or a bad activity
    5, 6 no database · 7 the --app factory · 9 the sender has no key, or none that can be used.
    """
    if str(activity) == "-" and file is not None and str(file) == "-":
        raise InputError("activity and --inboxes are both '-'; allowed is one of them from standard input")
    wanted = [*map(Inbox, inboxes), *(Inbox(url, shared=True) for url in shared), *_listed(file)]
    elsewhere = [PortableInbox(uri, gateways) for uri in portable]
    if not wanted and not elsewhere:
        raise InputError("no inbox is given; name some with --inbox, --shared-inbox, --portable or --inboxes")
    if gateways and not elsewhere:
        raise InputError("--gateway is given without a portable inbox; allowed is both: --portable names one")
    settings = settings_of(config, **flags)
    sent = asyncio.run(_send(settings, _read(activity, "activity"), sender, wanted, elsewhere))
    if as_json:
        _print_json(sent)
    else:
        _print_words(sent)
    return int(ExitCode.FAILURE if sent.refused else ExitCode.OK)


async def _send(
    settings: OperatorSettings, body: bytes, sender: str, inboxes: list[Inbox], portable: list[PortableInbox]
) -> Sent:
    keys: SenderKeys | None = None
    if settings.app is not None:
        keys = (await load_app(settings.app)).keys
    if keys is None and settings.keys is not None:
        keys = FolderSenderKeys(settings.keys)
    async with Deliverer(
        queue_of(settings),
        keys=keys,
        database=settings.database,
        config=settings.deliverer_config(),
        outbound=Outbound(blocked_domains=settings.blocked_domains),
    ) as deliverer:
        sent = await deliverer.send(body, sender, inboxes) if inboxes else None
        if not portable:
            assert sent is not None
            return sent
        other = await deliverer.send_portable(body, sender, portable)
        return other if sent is None else replace(sent, inboxes={**sent.inboxes, **other.inboxes})


def _listed(file: Path | None) -> Iterator[Inbox]:
    if file is not None:
        for line in _read(file, "inboxes").decode("utf-8", "replace").splitlines():
            if line.strip():
                yield Inbox(line.strip())


def _read(file: Path, what: str) -> bytes:
    if str(file) == "-" and sys.stdin is None:
        raise InputError(f"{what} is '-', and standard input is closed; allowed is a file, or something to read from")
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise InputError(f"{what} is {str(file)!r}, which cannot be read: {error.strerror}") from error


def _print_json(sent: Sent) -> None:
    counts = {str(state): sent.count(state) for state in SentState}
    inboxes = {
        given: {
            "state": str(inbox.state),
            "url": inbox.url,
            **({"outcome": str(inbox.outcome)} if inbox.outcome is not None else {}),
            **({"reason": inbox.reason} if inbox.reason is not None else {}),
        }
        for given, inbox in sent.inboxes.items()
    }
    click.echo(json.dumps({"activity": sent.activity_id, "counts": counts, "inboxes": inboxes}))


def _print_words(sent: Sent) -> None:
    counts = ", ".join(f"{sent.count(state)} {state}" for state in SentState if sent.count(state))
    click.echo(f"{_printable(sent.activity_id)}: {counts}")
    for number, (given, reason) in enumerate(sent.refused.items()):
        if number == _SHOWN_MAX:
            click.echo(f"  … and {len(sent.refused) - _SHOWN_MAX} more refused; --json lists all", err=True)
            break
        click.echo(f"  refused {_printable(given)}: {reason}", err=True)


def _printable(text: str) -> str:
    """What others wrote, as a terminal may have it: without its control characters and halves of characters."""
    return text[:_TEXT_MAX] if text.isprintable() else ascii(text[:_TEXT_MAX])[1:-1]
