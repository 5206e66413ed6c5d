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

from ojak.cli.show import printable
from ojak.cli.where import key_store_of, queue_of, settings_of, where_options
from ojak.deliverer import Deliverer
from ojak.errors import InputError
from ojak.http.outbound import Outbound
from ojak.model.inbox import Inbox
from ojak.model.outcome import Sent, SentState
from ojak.model.portable import PortableInbox
from ojak.settings import OperatorSettings
from ojak.signing import SenderKeys
from ojak.supervisor.app import load_app
from ojak.supervisor.exits import ExitCode

_SHOWN_MAX: Final = 20
_TEXT_MAX: Final = 200
_INBOXES_MAX_BYTES: Final = 1 << 26


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
    """Queue ACTIVITY, a JSON file or standard input, for some inboxes. Its bytes are sent as they are.

    \b
    Exit codes: 0 queued · 1 some inbox was refused, the others are queued · 2 usage, or a bad activity
    5, 6 no database · 7 the --app factory · 9 the sender has no key, or none that can be used.
    """
    if str(activity) == "-" and file is not None and str(file) == "-":
        raise InputError("activity and --inboxes are both '-'; allowed is one of them from standard input")
    settings = settings_of(config, **flags)
    wanted = [*map(Inbox, inboxes), *(Inbox(url, shared=True) for url in shared), *_listed(file)]
    elsewhere = [PortableInbox(uri, gateways) for uri in portable]
    if not wanted and not elsewhere:
        raise InputError("no inbox is given; name some with --inbox, --shared-inbox, --portable or --inboxes")
    if gateways and not elsewhere:
        raise InputError("--gateway is given without a portable inbox; allowed is both: --portable names one")
    body = _read(activity, "activity", most=settings.deliverer_config().max_body_bytes, limit="max_body_bytes")
    sent = asyncio.run(_send(settings, body, sender, wanted, elsewhere))
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
    store = key_store_of(settings) if keys is None else None
    deliverer = Deliverer(
        queue_of(settings),
        keys=keys or store,
        database=settings.database,
        config=settings.deliverer_config(),
        outbound=Outbound(blocked_domains=settings.blocked_domains),
    )
    try:
        async with deliverer:
            sent = await deliverer.send(body, sender, inboxes) if inboxes else None
            if not portable:
                assert sent is not None
                return sent
            other = await deliverer.send_portable(body, sender, portable)
            return other if sent is None else replace(sent, inboxes={**sent.inboxes, **other.inboxes})
    finally:
        if store is not None:
            await store.close()


def _listed(file: Path | None) -> Iterator[Inbox]:
    if file is not None:
        content = _read(file, "inboxes", most=_INBOXES_MAX_BYTES, limit="send to them in parts")
        for line in content.decode("utf-8", "replace").splitlines():
            if line.strip():
                yield Inbox(line.strip())


def _read(file: Path, what: str, *, most: int, limit: str) -> bytes:
    """Read a file or standard input, but never more than `most` bytes: it may be of any length, or endless."""
    if str(file) == "-" and sys.stdin is None:
        raise InputError(f"{what} is '-', and standard input is closed; allowed is a file, or something to read from")
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(most + 1)
        else:
            with file.open("rb") as stream:
                content = stream.read(most + 1)
    except OSError as error:
        raise InputError(f"{what} is {str(file)!r}, which cannot be read: {error.strerror}") from error
    if len(content) > most:
        raise InputError(f"{what} is {str(file)!r}, which is too long; allowed are {most} bytes ({limit})")
    return content


def _print_json(sent: Sent) -> None:
    # Nothing is pending here, where there is no session.
    counts = {str(state): sent.count(state) for state in SentState if state is not SentState.PENDING}
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
    click.echo(f"{printable(sent.activity_id[:_TEXT_MAX])}: {counts}")
    for number, (given, reason) in enumerate(sent.refused.items()):
        if number == _SHOWN_MAX:
            click.echo(f"  … and {len(sent.refused) - _SHOWN_MAX} more refused; --json lists all", err=True)
            break
        click.echo(f"  refused {printable(given[:_TEXT_MAX])}: {reason}", err=True)
