# SPDX-License-Identifier: Apache-2.0
"""The public keys of the senders that the farm knows."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic

import orjson

from ojak._ojak import PrivateKey, PublicKey
from ojak.errors import SigningError
from ojak.farm.errors import FarmError
from ojak.signing.folder import FolderSenderKeys

RECHECK_S = 1.0
"""A key that was not there is looked for again after this long, so that unknown names cost no look-up a request."""
_MAX_MISSING = 10_000
_MAX_FILE_BYTES = 65_536
_FRAGMENTS = ("main-key", "ed25519-key")


class KnownSenders:
    """Looks keys up by their id: in what it was given, then in folders of PEM files named by sender.

    A folder is one of `FolderSenderKeys`, but its files may also hold public keys. Of a private key only the public
    half is kept.

    Attributes:
        asked: the key id that was last asked for.
    """

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self.asked = ""
        kept = tuple(folders)
        self._given: dict[str, PublicKey] = {}
        self._keys: dict[str, PublicKey] = {}
        self._missing: dict[str, float] = {}
        for folder in kept:
            if not folder.is_dir():
                raise FarmError(f"keys folder {folder} is no folder; give one that holds PEM files named by sender")
        self._folders = tuple(FolderSenderKeys(folder) for folder in kept)

    def add(self, keys: Mapping[str, str]) -> None:
        """Take keys by id, each a PEM (SPKI).

        Raises:
            FarmError: names the first id whose key cannot be used; none is taken then.
        """
        parsed: dict[str, PublicKey] = {}
        for key_id, pem in keys.items():
            try:
                parsed[key_id] = PublicKey.from_pem(pem)
            except SigningError as error:
                raise FarmError(f"the key of {key_id!r} cannot be used: {error}") from error
        self._given.update(parsed)
        self._keys.update(parsed)
        self._missing.clear()

    def add_file(self, path: Path) -> None:
        """Take keys from a JSON file: an object of PEMs by key id.

        Raises:
            FarmError: the file cannot be read or holds something else.
        """
        try:
            value = orjson.loads(path.read_bytes())
        except OSError as error:
            raise FarmError(f"key file {path} cannot be read: {error.strerror}") from error
        except orjson.JSONDecodeError as error:
            raise FarmError(f"key file {path} is not JSON: {error}") from error
        if not isinstance(value, dict) or not all(isinstance(pem, str) for pem in value.values()):
            raise FarmError(f"key file {path} is no JSON object of PEMs by key id")
        self.add(value)

    def forget(self) -> None:
        """Read every key from its folder anew, when it is next asked for."""
        self._keys = dict(self._given)
        self._missing.clear()

    def find(self, key_id: str) -> PublicKey | None:
        """The key with this id, or None."""
        self.asked = key_id
        key = self._keys.get(key_id)
        if key is not None or not self._folders:
            return key
        now_s = monotonic()
        if self._missing.get(key_id, 0.0) > now_s:
            return None
        key = self._load(key_id)
        if key is not None:
            self._keys[key_id] = key
            return key
        if len(self._missing) >= _MAX_MISSING:
            self._missing.clear()
        self._missing[key_id] = now_s + RECHECK_S
        return None

    def refresh(self, key_id: str) -> bool:
        """Read a key anew from its folder, as a server does when a signature fails; whether it has changed."""
        old = self._keys.get(key_id)
        if old is None or key_id in self._given:
            return False
        new = self._load(key_id)
        if new is None:
            del self._keys[key_id]
            return True
        self._keys[key_id] = new
        return new.spki_sha256 != old.spki_sha256

    def _load(self, key_id: str) -> PublicKey | None:
        sender, _, fragment = key_id.rpartition("#")
        if fragment not in _FRAGMENTS:
            return None
        for folder in self._folders:
            try:
                path = folder.paths_of(sender)[_FRAGMENTS.index(fragment)]
                with path.open("rb") as file:
                    return _public_half(file.read(_MAX_FILE_BYTES))
            except (OSError, SigningError):
                continue
        return None


def _public_half(pem: bytes) -> PublicKey:
    if b"PRIVATE KEY" in pem:
        return PrivateKey.from_pem(pem).public_key()
    return PublicKey.from_pem(pem)
