# SPDX-License-Identifier: Apache-2.0
"""`ojak keys`: the senders' keys in a folder."""

import json
from pathlib import Path

import click

from ojak.cli.where import settings_of, where_options
from ojak.errors import ConfigError, OjakError
from ojak.signing import FolderSenderKeys


@click.group("keys")
def keys() -> None:
    """Make senders' keys."""


@keys.command("generate")
@click.argument("sender")
@where_options("keys")
@click.option(
    "--bits", type=click.Choice(["2048", "3072", "4096"]), default="2048", show_default=True, help="Of the RSA key."
)
@click.option(
    "--replace", is_flag=True, help="Replace keys that are there; what they signed can no longer be verified."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def generate(sender: str, keys: str | None, config: Path | None, bits: str, *, replace: bool, as_json: bool) -> None:
    r"""Make an RSA and an Ed25519 key for SENDER, the id of an actor, and print their public halves.

    The private keys stay in the folder, readable by their user alone.

    \b
    Exit codes: 0 made · 1 the folder cannot be written · 2 usage · 9 there are keys already.
    """
    folder = settings_of(config, keys=keys).keys
    if folder is None:
        raise ConfigError("keys is not given; name the folder of the senders' keys with --keys")
    if not sender.startswith(("https://", "http://")):
        raise ConfigError(f"sender is {sender[:200]!r}; allowed is the id of an actor, an http or https URL")
    try:
        ring = FolderSenderKeys(folder).generate(sender, rsa_bits=int(bits), replace=replace)
    except OSError as error:
        raise OjakError(f"keys folder {str(folder)!r} cannot be written: {error.strerror}") from error
    made = [key for key in (ring.rsa, ring.ed25519) if key is not None]
    if as_json:
        public = [{"id": key.key_id, "owner": sender, "publicKeyPem": key.key.public_pem()} for key in made]
        click.echo(json.dumps({"sender": sender, "folder": str(folder), "keys": public}))
        return
    for key in made:
        click.echo(f"{key.key_id}\n{key.key.public_pem().strip()}\n")
