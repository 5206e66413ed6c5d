# SPDX-License-Identifier: Apache-2.0
"""The two ways in which a signature is laid into a message."""

from enum import StrEnum


class Scheme(StrEnum):
    """How a request is signed (SPEC section 6)."""

    CAVAGE = "cavage"
    """draft-cavage-http-signatures-12, which every server reads."""
    RFC9421 = "rfc9421"
    """RFC 9421, which the newer ones read."""

    @property
    def other(self) -> "Scheme":
        """The scheme to knock with when this one was refused (SPEC section 3)."""
        return Scheme.RFC9421 if self is Scheme.CAVAGE else Scheme.CAVAGE
