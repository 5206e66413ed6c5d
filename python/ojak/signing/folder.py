# SPDX-License-Identifier: Apache-2.0
"""Sender keys in PEM files in a folder (SPEC section 1, `SenderKeys`)."""

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import stat
from pathlib import Path
from tempfile import mkstemp
from urllib.parse import quote

from ojak._ojak import PrivateKey
from ojak.errors import ConfigError, OjakError, UnknownSender, shown
from ojak.signing.errors import KeyExists, KeyRefused, KeysOutOfReach
from ojak.signing.keys import SenderKeyring, SigningKey

_log = logging.getLogger(__name__)

# File systems end names at 255 bytes; what is added to the encoded sender takes up to 12 of them.
_MAX_NAME_BYTES = 200
_MAX_FILE_BYTES = 32 * 1024
_OUT_OF_REACH = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.EIO, errno.ESTALE, errno.ETIMEDOUT}
)
"""What a machine says that lacks something, or whose disk or file server fails: nothing about the file."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class FolderSenderKeys:
    """Sender keys in a folder: `<percent-encoded sender>.pem` (RSA) and, if there is one, `….ed25519.pem`.

    The key ids are `<sender>#main-key` and `<sender>#ed25519-key`. A sender whose encoded name is longer than 200
    bytes is found under `sha256-<hex of its SHA-256>` instead. Files that others can read are used, with a warning.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise ConfigError(f"folder is {shown(folder)}; allowed is a folder's path")
        self._folder = Path(folder)
        self._warned: set[Path] = set()

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._folder

    async def keys_of(self, sender: str) -> SenderKeyring:
        """Read the keys of a sender, in a thread.

        Raises:
            UnknownSender: the folder has no RSA key of it.
            KeyRefused: a file cannot be read (`unknown_key`), or holds no key that can be used.
            KeysOutOfReach: this machine cannot read files for now.
        """
        return await asyncio.to_thread(self.load, sender)

    def load(self, sender: str) -> SenderKeyring:
        """Read the keys of a sender, at once. Raises as `keys_of` does."""
        rsa_path, ed25519_path = self.paths_of(sender)
        rsa = self._read(rsa_path)
        if rsa is None:
            raise UnknownSender(sender)
        ed25519 = self._read(ed25519_path)
        return SenderKeyring(
            rsa=SigningKey(key_id=f"{sender}#main-key", key=rsa),
            ed25519=None if ed25519 is None else SigningKey(key_id=f"{sender}#ed25519-key", key=ed25519),
        )

    def generate(self, sender: str, *, rsa_bits: int = 2048, replace: bool = False) -> SenderKeyring:
        """Make a pair of keys for a sender and save it, readable by its owner alone. Takes a tenth of a second.

        Each file appears whole or not at all. `rsa_bits` is 2048, 3072, 4096 or 8192.

        Raises:
            KeyExists: the sender has a key already, and `replace` is not set.
            UnknownSender: the sender's id is empty or no text.
            OSError: the folder cannot be written to.
        """
        rsa_path, ed25519_path = self.paths_of(sender)
        for path in (rsa_path, ed25519_path):
            if not replace and path.exists():
                raise KeyExists(sender, path)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ed25519, rsa = PrivateKey.generate_ed25519(), PrivateKey.generate_rsa(rsa_bits)
        # The RSA key last: it is what makes the sender known.
        for path, key in ((ed25519_path, ed25519), (rsa_path, rsa)):
            if not _save(path, key.private_pem(), replace=replace):
                raise KeyExists(sender, path)
        return SenderKeyring(
            rsa=SigningKey(key_id=f"{sender}#main-key", key=rsa),
            ed25519=SigningKey(key_id=f"{sender}#ed25519-key", key=ed25519),
        )

    def paths_of(self, sender: str) -> tuple[Path, Path]:
        """Name the files of a sender's RSA and Ed25519 key. Raises `UnknownSender` for an id that is no text."""
        # As the type says, for callers that run without a type checker.
        if not isinstance(sender, str):
            raise UnknownSender(sender)
        try:
            # Not even a slash or a colon stays, so no sender leads out of the folder.
            name = quote(sender, safe="")
        except UnicodeEncodeError:
            raise UnknownSender(sender) from None
        if not name:
            raise UnknownSender(sender)
        if len(name) > _MAX_NAME_BYTES:
            name = f"sha256-{hashlib.sha256(sender.encode()).hexdigest()}"
        return self._folder / f"{name}.pem", self._folder / f"{name}.ed25519.pem"

    def _read(self, path: Path) -> PrivateKey | None:
        try:
            # O_NONBLOCK: a FIFO in the folder must not hang the reader.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unread(path, error) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
                raise KeyRefused("malformed_key", f"the key file {path} is not a PEM file of at most 32 KiB")
            if status.st_mode & _OTHERS and path not in self._warned:
                self._warned.add(path)
                _log.warning("key file can be read by others", extra={"path": str(path)})
            pem = os.read(descriptor, _MAX_FILE_BYTES)
        except OSError as error:
            raise _unread(path, error) from error
        finally:
            os.close(descriptor)
        try:
            return PrivateKey.from_pem(pem)
        except KeyRefused as refused:
            raise KeyRefused(refused.reason, f"the key file {path}: {refused}") from None


def _unread(path: Path, error: OSError) -> OjakError:
    text = f"the key file {path} cannot be read: {error.strerror}"
    return KeysOutOfReach(text) if error.errno in _OUT_OF_REACH else KeyRefused("unknown_key", text)


def _save(path: Path, pem: str, *, replace: bool) -> bool:
    """Write a file whole, for its owner alone; False if it is there already and must not be replaced."""
    descriptor, name = mkstemp(dir=path.parent, prefix=".", suffix=".tmp")  # with mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.replace(path)
        else:
            try:
                path.hardlink_to(temporary)  # unlike a rename, this never replaces
            except FileExistsError:
                return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True
