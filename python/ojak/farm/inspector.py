# SPDX-License-Identifier: Apache-2.0
"""Looks at a request's signature, digest and activity."""

from dataclasses import dataclass
from hashlib import sha256
from time import time

import orjson

from ojak._ojak import Verified, verify
from ojak.farm.arrival import VERIFIED
from ojak.farm.request import Head
from ojak.farm.senders import KnownSenders
from ojak.signing.errors import SignatureRefused
from ojak.signing.scheme import Scheme

_KEPT_BODIES = 4096
_KEY_MAY_HAVE_CHANGED = frozenset({"signature_mismatch", "algorithm_mismatch"})


@dataclass(frozen=True, slots=True)
class Finding:
    """What a request's signature says.

    Attributes:
        scheme: the signature's; None: there is no signature.
        key_id: the key it names, when it could be read.
        verdict: `verified`, or the reason why it is not.
    """

    scheme: Scheme | None
    key_id: str
    verdict: str


UNSIGNED = Finding(None, "", "missing_signature")


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a body.

    Attributes:
        activity: its `id`, or `sha256:` and its digest.
        sha256: in hex.
    """

    activity: str
    sha256: str


class Inspector:
    """Verifies requests against the keys of known senders."""

    def __init__(self, senders: KnownSenders) -> None:
        self._senders = senders
        # one activity goes to many inboxes: its body is parsed once
        self._contents: dict[bytes, Contents] = {}

    def signature(self, head: Head, url: str, body: bytes) -> Finding:
        """Verify the signature and the digest that it covers."""
        senders = self._senders
        senders.asked = ""
        try:
            try:
                found = self._verify(head, url, body)
            except SignatureRefused as error:
                if error.reason not in _KEY_MAY_HAVE_CHANGED or not senders.refresh(senders.asked):
                    raise
                found = self._verify(head, url, body)
        except SignatureRefused as error:
            scheme = claimed_scheme(head.fields)
            if scheme is None:
                return UNSIGNED
            return Finding(scheme, senders.asked, error.reason)
        return Finding(Scheme(found.scheme), found.key_id, VERIFIED)

    def _verify(self, head: Head, url: str, body: bytes) -> Verified:
        return verify(head.method, url, head.fields, body, self._senders.find, now_s=int(time()))

    def contents(self, body: bytes) -> Contents:
        """Name a body's activity."""
        digest = sha256(body)
        key = digest.digest()
        known = self._contents.get(key)
        if known is not None:
            return known
        hexed = digest.hexdigest()
        contents = Contents(_activity_id(body) or f"sha256:{hexed}", hexed)
        if len(self._contents) >= _KEPT_BODIES:
            self._contents.clear()
        self._contents[key] = contents
        return contents


def claimed_scheme(fields: list[tuple[str, str]]) -> Scheme | None:
    """The scheme that a request's fields speak of, whether its signature is right or not."""
    names = {name.lower() for name, _ in fields}
    if "signature-input" in names:
        return Scheme.RFC9421
    if "signature" in names or "authorization" in names:
        return Scheme.CAVAGE
    return None


def _activity_id(body: bytes) -> str:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    found = value.get("id") if isinstance(value, dict) else None
    return found[:2048] if isinstance(found, str) else ""
