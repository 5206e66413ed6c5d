# SPDX-License-Identifier: Apache-2.0
"""Why a key or a signature was refused: one word to branch on, and one sentence to read."""

from pathlib import Path

from ojak.errors import OjakError, SigningError


class KeyRefused(SigningError):
    """A key cannot be used: malformed, of a kind that is not used here, or too small.

    Attributes:
        reason: a word of the closed list in `ojak.signing.REASONS`, such as `malformed_key` or `weak_key`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason

    def __reduce__(self) -> tuple[type["KeyRefused"], tuple[str, str]]:
        return type(self), (self.reason, str(self))


class KeysOutOfReach(OjakError):
    """This machine cannot read keys for now: it is out of descriptors or memory, or its disk fails. No key is broken.

    What is to be signed waits, as after any fault of our own (SPEC section 4).
    """


class SignatureRefused(SigningError):
    """A signature does not pass, or a message cannot be signed as asked.

    Attributes:
        reason: a word of the closed list in `ojak.signing.REASONS`, such as `signature_mismatch` or `stale`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason

    def __reduce__(self) -> tuple[type["SignatureRefused"], tuple[str, str]]:
        return type(self), (self.reason, str(self))


class KeyExists(SigningError):
    """A key was to be made for a sender that has one.

    Attributes:
        sender: the sender's id.
        place: the file or the collection that holds it.
    """

    def __init__(self, sender: str, place: Path | str) -> None:
        super().__init__(f"sender {sender!r} has a key already in {place}; it is replaced only when that is asked for")
        self.sender = sender
        self.place = place
