# SPDX-License-Identifier: Apache-2.0
"""Keys in any form in which they are found."""

from typing import Literal

from ojak._ojak import PrivateKey, PublicKey
from ojak.signing.errors import KeyRefused


def load_key(
    text: str | bytes, *, private: bool, form: Literal["pem", "multibase"] = "pem", min_rsa_bits: int = 2048
) -> PublicKey:
    """Read a key to learn what it is, and give its public half. Nothing of a private key is kept.

    Args:
        text: the key.
        private: whether it has to be a private key; if not, it has to be a public one.
        form: `pem` (PKCS#1, PKCS#8, SPKI) or `multibase` (a multikey of FEP-521a).
        min_rsa_bits: the fewest bits of an RSA key: at least 1024, or 2048 for a private one.

    Raises:
        KeyRefused: `malformed_key`, `unsupported_key`, `weak_key`, or `invalid_param` for another form.
    """
    match form, private:
        case "pem", True:
            return PrivateKey.from_pem(text, min_rsa_bits=min_rsa_bits).public_key()
        case "pem", False:
            return PublicKey.from_pem(text, min_rsa_bits=min_rsa_bits)
        case "multibase", True:
            return PrivateKey.from_multikey(text).public_key()
        case "multibase", False:
            return PublicKey.from_multikey(text, min_rsa_bits=min_rsa_bits)
        case _:
            raise KeyRefused("invalid_param", f"a key's form is {form!r}; pem or multibase is allowed")
