# SPDX-License-Identifier: Apache-2.0
"""`ojak keys`: the senders' keys, in a folder or in a collection."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from ojak.cli.show import counted, print_json, printable
from ojak.cli.where import key_store_of, queue_of, settings_of, where_options
from ojak.cli.which import WHERE
from ojak.deliverer import Deliverer
from ojak.errors import ConfigError
from ojak.settings import OperatorSettings
from ojak.signing import SenderKeyring
from ojak.signing.key_store import KeyStore
from ojak.store.sender_keys import CollectionSenderKeys

T = TypeVar("T")

_PLACES: Final = ("keys", "keys_collection", "keys_fields", *WHERE)
_LOOK_EVERY_S: Final = 2.0
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


@click.group("keys")
def keys() -> None:
    """Make, show, list and retire senders' keys, in a folder (--keys) or a collection (--keys-collection)."""


@keys.command("generate")
@click.argument("sender")
@where_options(*_PLACES)
@click.option(
    "--bits", type=click.Choice(["2048", "3072", "4096"]), default="2048", show_default=True, help="Of the RSA key."
)
@click.option(
    "--replace", is_flag=True, help="Replace keys that are there; what they signed can no longer be verified."
)
@_JSON
def generate(sender: str, config: Path | None, bits: str, *, replace: bool, as_json: bool, **flags: str | None) -> None:
    """Make an RSA and an Ed25519 key for SENDER, the id of an actor, and print their public halves.

    The private keys stay in the folder, readable by their user alone, or in the collection.

    \b
    Exit codes: 0 made · 1 the folder cannot be written · 2 usage · 5, 6 no database · 9 there are keys already.
    """
    if not sender.startswith(("https://", "http://")):
        raise ConfigError(f"sender is {sender[:200]!r}; allowed is the id of an actor, an http or https URL")

    async def make(store: KeyStore) -> tuple[SenderKeyring, KeyStore]:
        return await store.make(sender, rsa_bits=int(bits), replace=replace), store

    ring, store = _on_store(settings_of(config, **flags), make)
    _print_ring(sender, ring, store, as_json=as_json)


@keys.command("show")
@click.argument("sender")
@where_options(*_PLACES)
@_JSON
def show(sender: str, config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """Print the ids and the public halves of the keys of SENDER, as its actor document has to have them.

    \b
    Exit codes: 0 · 2 usage · 5, 6 no database · 9 it has no key, or one that cannot be used.
    """

    async def read(store: KeyStore) -> tuple[SenderKeyring, KeyStore]:
        return await store.keys_of(sender), store

    ring, store = _on_store(settings_of(config, **flags), read)
    _print_ring(sender, ring, store, as_json=as_json)


def _print_ring(sender: str, ring: SenderKeyring, store: KeyStore, *, as_json: bool) -> None:
    found = [key for key in (ring.rsa, ring.ed25519) if key is not None]
    if as_json:
        public = [{"id": key.key_id, "owner": sender, "publicKeyPem": key.key.public_pem()} for key in found]
        place = "collection" if isinstance(store, CollectionSenderKeys) else "folder"
        click.echo(json.dumps({"sender": sender, place: store.where, "keys": public}))
        return
    for key in found:
        click.echo(f"{key.key_id}\n{key.key.public_pem().strip()}\n")


@keys.command("list")
@where_options(*_PLACES)
@_JSON
def list_(config: Path | None, *, as_json: bool, **flags: str | None) -> None:
    """List the senders that have keys. A retired one is said to be.

    \b
    Exit codes: 0 · 1 the folder cannot be read · 2 usage · 5, 6 no database.
    """
    for known in _on_store(settings_of(config, **flags), lambda store: store.senders()):
        if as_json:
            print_json({"sender": known.sender, "retired": known.retired})
        else:
            click.echo(printable(known.sender) + ("  (retired)" if known.retired else ""))


@keys.command("retire")
@click.argument("sender", required=False)
@where_options(*_PLACES)
@click.option("--wait", is_flag=True, help="Wait until nothing of it waits, which can take days.")
@_JSON
def retire(sender: str | None, config: Path | None, *, wait: bool, as_json: bool, **flags: str | None) -> None:
    """Remove the keys of SENDER, a deleted account, as soon as no delivery of it waits; until then they sign on.

    Without SENDER: remove those of all retired senders of which nothing waits any more. Run that once a day.

    \b
    Exit codes: 0 removed, or kept for what waits · 1 the folder cannot be read or written · 2 usage
                5, 6 no database · 9 it has no key.
    """
    settings = settings_of(config, **flags)

    async def go(store: KeyStore) -> None:
        queue = Deliverer(queue_of(settings), database=settings.database, config=settings.deliverer_config())
        async with queue:
            if sender is not None:
                await store.retire(sender)
            known = [known.sender for known in await store.senders() if known.retired] if sender is None else []
            senders = [sender] if sender is not None else known
            for name in senders:
                waiting = await queue.waiting_of(name)
                while waiting and wait:
                    await asyncio.sleep(_LOOK_EVERY_S)
                    waiting = await queue.waiting_of(name)
                if not waiting:
                    await store.remove(name)
                _say_retired(name, waiting, as_json=as_json)

    _on_store(settings, go)


def _say_retired(sender: str, waiting: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"sender": sender, "removed": not waiting, "waiting": waiting})
    elif waiting:
        click.echo(f"{sender}: retired; its keys are kept for {counted(waiting, 'delivery')} that wait")
    else:
        click.echo(f"{sender}: keys removed")


def _on_store(settings: OperatorSettings, ask: Callable[[KeyStore], Awaitable[T]]) -> T:
    store = key_store_of(settings)
    if store is None:
        raise ConfigError(
            "keys is not given; name the folder of the senders' keys with --keys, or a collection with"
            " --keys-collection"
        )

    async def answered(store: KeyStore) -> T:
        try:
            return await ask(store)
        finally:
            await store.close()

    return asyncio.run(answered(store))
