# SPDX-License-Identifier: Apache-2.0
"""`KeyFields`: where in the rows of a MongoDB collection senders' keys are."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Self

from ojak.errors import ConfigError

_PATH = re.compile(r"[^\s.$\0][^\s.\0]*(\.[^\s.$\0][^\s.\0]*)*")
_MAX_PATH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFields:
    """The fields of a row that holds a sender's keys; dots lead into what a field holds: `keys.rsa`.

    Attributes:
        sender: the sender's id.
        rsa: its RSA key, as PEM.
        ed25519: its Ed25519 key, as PEM or as a multikey, where it has one.
        rsa_id, ed25519_id: the ids of the keys; where a row has none, `<sender>#main-key` and `<sender>#ed25519-key`.
        retired: when the keys were retired; written by `ojak keys retire`.

    Raises:
        ConfigError: one is no field's name.
    """

    sender: str = "_id"
    rsa: str = "rsa"
    ed25519: str = "ed25519"
    rsa_id: str = "rsa_id"
    ed25519_id: str = "ed25519_id"
    retired: str = "retired_at"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) or len(value) > _MAX_PATH or not _PATH.fullmatch(value):
                raise ConfigError(
                    f"keys_fields has {value!r:.100} for {field.name}; allowed is the name of a field, such as keys.rsa"
                )

    @classmethod
    def of_words(cls, words: Iterable[str]) -> Self:
        """Read `name=field` words, such as `rsa=privateKeyPem`; what is not named has its default.

        Raises:
            ConfigError: a word is none.
        """
        names = [field.name for field in fields(cls)]
        found: dict[str, str] = {}
        for word in words:
            name, separator, field = word.partition("=")
            if not separator or name.strip() not in names or name.strip() in found:
                raise ConfigError(
                    f"keys_fields has {word!r:.100}; allowed are name=field, once each, of {', '.join(names)}"
                )
            found[name.strip()] = field.strip()
        return cls(**found)
