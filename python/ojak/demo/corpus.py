# SPDX-License-Identifier: Apache-2.0
"""The corpus: activities as servers really send them, each with the actor that sends it."""

from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

import orjson

from ojak.errors import InputError
from ojak.model.activity import activity_of

MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One activity of the corpus.

    Attributes:
        name: its file's.
        body: its bytes, which go out as they are.
        identity: its id, as queue and ledger know it.
        sender: the id of the actor that sends it.
    """

    name: str
    body: bytes
    identity: str
    sender: str

    @property
    def body_sha256(self) -> str:
        """The digest of its bytes, in hexadecimal."""
        return sha256(self.body).hexdigest()


def load_corpus() -> tuple[Piece, ...]:
    """Every activity, in the order of their names.

    Raises:
        InvalidActivity: a file holds no activity.
        InputError: a file does not say who sends it.
    """
    folder = files("ojak.demo") / "activities"
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return tuple(_piece(entry.name, entry.read_bytes()) for entry in entries if entry.name.endswith(".json"))


def _piece(name: str, body: bytes) -> Piece:
    activity = activity_of(body, max_bytes=MAX_BYTES)
    return Piece(name=name, body=body, identity=activity.identity, sender=_sender(name, body))


def _sender(name: str, body: bytes) -> str:
    """An activity names its actor, a bare object its author; either by id, or whole with an id inside."""
    value = orjson.loads(body)
    sender = value.get("actor") or value.get("attributedTo")
    if isinstance(sender, dict):
        sender = sender.get("id")
    if not isinstance(sender, str) or not sender:
        raise InputError(f"activity {name} names no sender; allowed is an id in actor or attributedTo")
    return sender
