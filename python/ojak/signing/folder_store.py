# SPDX-License-Identifier: Apache-2.0
"""A folder of PEM files as a `KeyStore`: what the command line does with it."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from ojak.errors import OjakError, UnknownSender
from ojak.signing.folder import FolderSenderKeys
from ojak.signing.key_store import KnownSender
from ojak.signing.keys import SenderKeyring


class FolderKeyStore:
    """Keeps senders' keys in a folder, as `FolderSenderKeys` reads them.

    Retired keys have a file `<name>.retired` beside them that holds the sender's id.
    """

    def __init__(self, keys: FolderSenderKeys) -> None:
        self._keys = keys

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._keys.folder)

    async def keys_of(self, sender: str) -> SenderKeyring:
        """Read the keys of a sender. Raises as `FolderSenderKeys` does."""
        return await self._keys.keys_of(sender)

    async def make(self, sender: str, *, rsa_bits: int, replace: bool) -> SenderKeyring:
        """Make a pair of keys; what was retired is in use again."""
        with _touching(self._keys.folder):
            made = await asyncio.to_thread(self._keys.generate, sender, rsa_bits=rsa_bits, replace=replace)
            self._mark_of(sender).unlink(missing_ok=True)
        return made

    async def senders(self) -> Sequence[KnownSender]:
        """Every sender with a key file. One with a long id, whose file is named by a hash, is shown by that name."""
        found: list[KnownSender] = []
        with _touching(self._keys.folder, verb="read"):
            # Not `glob`, which finds nothing in a folder that is not there, or that cannot be read.
            for path in sorted(path for path in self._keys.folder.iterdir() if path.name.endswith(".pem")):
                if path.name.startswith(".") or path.name.endswith(".ed25519.pem"):
                    continue
                mark = path.with_suffix(".retired")
                named = mark.read_text("utf-8").strip() if mark.exists() else ""
                name = unquote(path.stem)
                known = named or (name if quote(name, safe="") == path.stem else path.stem)
                found.append(KnownSender(sender=known, retired=mark.exists()))
        return found

    async def retire(self, sender: str) -> None:
        """Mark the keys of a sender."""
        rsa, _ = self._keys.paths_of(sender)
        with _touching(self._keys.folder, verb="read"):
            # Apart: without the folder, nothing is known of any sender.
            self._keys.folder.stat()
            try:
                rsa.stat()
            except FileNotFoundError:
                raise UnknownSender(sender) from None
        with _touching(self._keys.folder):
            self._mark_of(sender).write_text(f"{sender}\n", "utf-8")

    async def remove(self, sender: str) -> None:
        """Remove the files of a sender's keys: the RSA key, which makes it known, first; the mark last."""
        with _touching(self._keys.folder):
            for path in (*self._keys.paths_of(sender), self._mark_of(sender)):
                path.unlink(missing_ok=True)

    async def close(self) -> None:
        """Nothing is held open."""

    def _mark_of(self, sender: str) -> Path:
        return self._keys.paths_of(sender)[0].with_suffix(".retired")


@contextlib.contextmanager
def _touching(folder: Path, *, verb: str = "written") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OjakError(f"keys folder {str(folder)!r} cannot be {verb}: {error.strerror}") from error
