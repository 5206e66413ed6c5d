# SPDX-License-Identifier: Apache-2.0
"""Which signature scheme a host takes, and what is allowed to change that (SPEC section 4, "Scheme"). Pure.

A decisive pair of knocks changes it: the first scheme was refused, the other one accepted. So does what the host shows
of itself, here an `Accept-Signature` in an answer to us. Never a lone 2xx, which a server gives that looks at no
signature; nor a 5xx, 408 or 429, which may come from something in front of it.

What a pair showed stands for a day against what a host says of itself: one that asks for RFC 9421 and does not take it
would otherwise cost two requests at each delivery.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from ojak.http.knock import Knocked
from ojak.signing import Scheme, SignatureRefused, parse_signature_input

FIRM_S: Final = 86_400.0
"""How long a decisive pair stands against hints."""

_RSA: Final = "rsa-v1_5-sha256"
_ALGORITHM: Final = re.compile(r';alg="([^"]*)"')
_BAD_TIMES: Final = frozenset({408, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeShown:
    """What an attempt showed: a scheme that the host takes, and whether a pair of knocks decided it."""

    scheme: Scheme
    decisive: bool


def shown_by(knocked: Knocked) -> SchemeShown | None:
    """What an attempt showed of its host's scheme, or None: nothing."""
    if knocked.decisive:
        return SchemeShown(scheme=knocked.scheme, decisive=True)
    answer = knocked.answer
    if answer.accept_signature is None or answer.status >= 500 or answer.status in _BAD_TIMES:
        return None
    return SchemeShown(scheme=Scheme.RFC9421, decisive=False) if _asks_for_rsa(answer.accept_signature) else None


def _asks_for_rsa(accept_signature: str) -> bool:
    """Whether an Accept-Signature asks for a signature that an RSA key can make (RFC 9421 section 5.1)."""
    try:
        members = parse_signature_input(accept_signature)
    except SignatureRefused:
        return False
    algorithms = [_ALGORITHM.search(inner) for _, inner in members]
    return any(algorithm is None or algorithm[1] == _RSA for algorithm in algorithms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeMemory:
    """What is remembered of a host.

    Attributes:
        scheme: the scheme that it takes, None if nothing is known.
        firm: a pair decided that within a day, so that hints do not change it.
    """

    scheme: Scheme | None = None
    firm: bool = False

    def after(self, shown: SchemeShown | None) -> "SchemeMemory":
        """The memory after an attempt. The same object, if nothing is to be written down."""
        if shown is None:
            return self
        if shown.decisive:
            return SchemeMemory(scheme=shown.scheme, firm=True)
        if self.firm or self.scheme is shown.scheme:
            return self
        return replace(self, scheme=shown.scheme)
