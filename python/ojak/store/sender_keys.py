# SPDX-License-Identifier: Apache-2.0
"""Sender keys in a MongoDB collection: Ojak's own, or one of the application's (SPEC section 1, `SenderKeys`)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError, InvalidName

from ojak.errors import ConfigError, UnknownSender, shown
from ojak.model.key_fields import KeyFields
from ojak.signing import KeyExists, KeyRefused, PrivateKey, SenderKeyring, SigningKey
from ojak.signing.key_store import KnownSender
from ojak.store.database import CODEC, MAJORITY, Document, connect
from ojak.store.trouble import DRIVER_ERRORS, explained

_MAX_KEY_BYTES: Final = 32 * 1024
_MAX_ID: Final = 2048


class CollectionSenderKeys:
    """Sender keys in a collection, one row a sender.

    Args:
        mongo: the MongoDB: an `AsyncMongoClient`, or a URL.
        database: the name of its database.
        collection: the name of the collection.
        fields: where in a row the keys are.

    Raises:
        ConfigError: the URL or a name cannot be used.
    """

    def __init__(
        self,
        mongo: AsyncMongoClient[Any] | str,
        *,
        database: str = "ojak",
        collection: str = "sender_keys",
        fields: KeyFields | None = None,
    ) -> None:
        if not isinstance(mongo, AsyncMongoClient | str):
            raise ConfigError(f"mongo is {shown(mongo)}; allowed is an AsyncMongoClient, or a MongoDB URL")
        if not isinstance(database, str):
            raise ConfigError(f"database is {shown(database)}; allowed is a MongoDB database name")
        self._own = None if isinstance(mongo, AsyncMongoClient) else connect(mongo, maxPoolSize=4)
        client = self._own if self._own is not None else mongo
        assert isinstance(client, AsyncMongoClient)
        self._fields = fields or KeyFields()
        try:
            self._rows = client.get_database(database).get_collection(
                collection, codec_options=CODEC, write_concern=MAJORITY
            )
        except (InvalidName, TypeError) as error:
            raise ConfigError(
                f"keys_collection is {f'{database}.{collection}'!r}; allowed are names that MongoDB takes ({error})"
            ) from None
        self._where = f"{database}.{collection}"

    @property
    def where(self) -> str:
        """The collection, with its database."""
        return self._where

    async def close(self) -> None:
        """Let go of the connection, if it is its own."""
        if self._own is not None:
            await self._own.close()

    async def keys_of(self, sender: str) -> SenderKeyring:
        """Read the keys of a sender.

        Raises:
            UnknownSender: the collection has no RSA key of it.
            KeyRefused: its row holds no key that can be used.
            QueueUnavailable: MongoDB did not answer.
        """
        fields = self._fields
        wanted = dict.fromkeys((fields.rsa, fields.ed25519, fields.rsa_id, fields.ed25519_id), 1)
        try:
            row = await self._rows.find_one(self._is(sender), wanted)
        except DRIVER_ERRORS as error:
            raise explained(error) from error
        if row is None or _at(row, fields.rsa) is None:
            raise UnknownSender(sender)
        rsa = self._key(row, fields.rsa, sender)
        assert rsa is not None
        ed25519 = self._key(row, fields.ed25519, sender)
        return SenderKeyring(
            rsa=SigningKey(key_id=self._id(row, fields.rsa_id, f"{sender}#main-key"), key=rsa),
            ed25519=None
            if ed25519 is None
            else SigningKey(key_id=self._id(row, fields.ed25519_id, f"{sender}#ed25519-key"), key=ed25519),
        )

    async def make(self, sender: str, *, rsa_bits: int = 2048, replace: bool = False) -> SenderKeyring:
        """Make a pair of keys for a sender and store it, in its row if it has one. Retired keys are in use again.

        Raises:
            KeyExists: it has a key already, and `replace` is not set.
            QueueUnavailable: MongoDB did not answer.
        """
        ed25519, rsa = await asyncio.gather(
            asyncio.to_thread(PrivateKey.generate_ed25519), asyncio.to_thread(PrivateKey.generate_rsa, rsa_bits)
        )
        fields = self._fields
        keys = {fields.rsa: rsa.private_pem(), fields.ed25519: ed25519.private_pem()}
        has_none: Document = {} if replace else {fields.rsa: None}
        try:
            changed = await self._rows.update_one(
                {**self._is(sender), **has_none}, {"$set": keys, "$unset": {fields.retired: ""}}
            )
            if not changed.matched_count:
                if await self._rows.find_one(self._is(sender), {"_id": 1}) is not None:
                    raise KeyExists(sender, self._where)
                row: Document = {}
                for path, value in ((fields.sender, sender), *keys.items()):
                    _put(row, path, value)
                await self._rows.insert_one(row)
        except DuplicateKeyError:
            # Somebody else made them at the same moment.
            raise KeyExists(sender, self._where) from None
        except DRIVER_ERRORS as error:
            raise explained(error) from error
        return await self.keys_of(sender)

    async def senders(self) -> Sequence[KnownSender]:
        """Every sender that has a key, in order."""
        fields = self._fields
        try:
            rows = self._rows.find({fields.rsa: {"$ne": None}}, {fields.sender: 1, fields.retired: 1})
            found = [
                KnownSender(sender=sender, retired=_at(row, fields.retired) is not None)
                async for row in rows.sort(fields.sender)
                if isinstance(sender := _at(row, fields.sender), str)
            ]
        except DRIVER_ERRORS as error:
            raise explained(error) from error
        return found

    async def retire(self, sender: str) -> None:
        """Note that a sender's keys are to go.

        Raises:
            UnknownSender: it has none.
            QueueUnavailable: MongoDB did not answer.
        """
        has_key = {**self._is(sender), self._fields.rsa: {"$ne": None}}
        try:
            result = await self._rows.update_one(has_key, {"$currentDate": {self._fields.retired: True}})
        except DRIVER_ERRORS as error:
            raise explained(error) from error
        if not result.matched_count:
            raise UnknownSender(sender)

    async def remove(self, sender: str) -> None:
        """Remove a sender's keys from its row. The row stays where it holds anything else."""
        fields = self._fields
        ours = dict.fromkeys((fields.rsa, fields.ed25519, fields.rsa_id, fields.ed25519_id, fields.retired), "")
        try:
            await self._rows.update_one(self._is(sender), {"$unset": ours})
            if fields.sender == "_id":
                alone = {"$eq": [{"$size": {"$objectToArray": "$$ROOT"}}, 1]}
                await self._rows.delete_one({**self._is(sender), "$expr": alone})
        except DRIVER_ERRORS as error:
            raise explained(error) from error

    def _is(self, sender: str) -> Document:
        try:
            sender.encode()
        except (UnicodeEncodeError, AttributeError):
            # No text that MongoDB could hold.
            raise UnknownSender(sender) from None
        # As a value: an id that came from outside must never be read as an operator.
        return {self._fields.sender: {"$eq": sender}}

    def _key(self, row: Document, path: str, sender: str) -> PrivateKey | None:
        value = _at(row, path)
        if value is None:
            return None
        what = f"the key of {sender!r:.200} in {self._where}, field {path},"
        if not isinstance(value, str | bytes) or len(value) > _MAX_KEY_BYTES:
            raise KeyRefused("malformed_key", f"{what} is no text of at most 32 KiB; allowed is PEM")
        try:
            is_multikey = value[:1] in {"z", b"z"}
            return PrivateKey.from_multikey(value) if is_multikey else PrivateKey.from_pem(value)
        except KeyRefused as refused:
            raise KeyRefused(refused.reason, f"{what} {refused}") from None

    @staticmethod
    def _id(row: Document, path: str, default: str) -> str:
        value = _at(row, path)
        return value if isinstance(value, str) and 0 < len(value) <= _MAX_ID else default


def _at(row: Mapping[str, Any], path: str) -> Any:
    """What stands at a dotted path; None where nothing does."""
    value: Any = row
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _put(row: Document, path: str, value: object) -> None:
    *parents, last = path.split(".")
    for name in parents:
        row = row.setdefault(name, {})
    row[last] = value
