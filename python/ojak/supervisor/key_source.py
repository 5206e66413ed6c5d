# SPDX-License-Identifier: Apache-2.0
"""Where the senders' keys come from that no application gives: a folder, or a collection."""

from collections.abc import Sequence
from os import PathLike

from ojak.errors import ConfigError
from ojak.model.key_fields import KeyFields
from ojak.signing import FolderSenderKeys
from ojak.signing.folder_store import FolderKeyStore
from ojak.signing.key_store import KeyStore
from ojak.store.sender_keys import CollectionSenderKeys


def key_store(
    *,
    folder: str | PathLike[str] | None,
    collection: str | None,
    fields: Sequence[str],
    mongo_url: str,
    database: str,
) -> KeyStore | None:
    """The keys that the settings name, or None if they name none.

    Args:
        folder: The folder of PEM files.
        collection: The collection, with its database before a dot if it is another than the queue's.
        fields: Where in its rows the keys are, as `KeyFields.of_words` reads them.
        mongo_url: Where the collection is.
        database: The queue's database.

    Raises:
        ConfigError: Both are named.
    """
    if folder is not None and collection is not None:
        raise ConfigError("keys and keys_collection are both given; allowed is one of them")
    if folder is not None:
        return FolderKeyStore(FolderSenderKeys(folder))
    if collection is None:
        return None
    elsewhere, dot, name = collection.rpartition(".")
    return CollectionSenderKeys(
        mongo_url, database=elsewhere if dot else database, collection=name, fields=KeyFields.of_words(fields)
    )
