# SPDX-License-Identifier: Apache-2.0
"""`PortableInbox`: an inbox that several gateways accept deliveries for (FEP-ef61), and its canonical form. Pure.

A portable actor is named by a DID and not by a host. The same inbox comes in several spellings; all of them are brought
to one, which deliveries are told apart and ordered by. No URL parser is asked: to most, `ap://did:key:…` is a host
`did` with a broken port.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Final, Never
from urllib.parse import unquote

from ojak.model.inbox import InvalidInbox, canonical_inbox, check_ref

MAX_GATEWAYS: Final = 10
MAX_PORTABLE_BYTES: Final = 2048
GATEWAY_PATH: Final = "/.well-known/apgateway/"
"""Where a gateway serves what is portable, and takes deliveries to it. Source: FEP-ef61, "Inboxes and outboxes"."""

_SHOWN: Final = 100
_URI: Final = re.compile(r"(?:ap|ap\+ef61)://([^/?#]*)([^?#]*)(?:\?[^#]*)?(#.*)?", re.IGNORECASE | re.DOTALL)
_HTTP: Final = re.compile(r"https?:", re.IGNORECASE)
_ENCODED: Final = re.compile(r"did%3a", re.IGNORECASE)
_ID_CHARS: Final = r"(?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})"
_DID: Final = re.compile(rf"did:[a-z0-9]+:(?:{_ID_CHARS}*:)*{_ID_CHARS}+")
# Nothing of a key may be spelt in two ways, or one inbox would be two.
_DID_KEY: Final = re.compile(r"did:key:(?:[0-9.]+:)?z[1-9A-HJ-NP-Za-km-z]+")
# As in any inbox: printable ASCII without a space. The fragment and the query are cut off before.
_PATH: Final = re.compile(r"/[!\"$->@-~]+")
_FORMS: Final = (
    "ap://did:…/…, ap+ef61://did:…/…, or the same at a gateway: https://gateway.example/.well-known/apgateway/did:…/…"
)


@dataclass(frozen=True, slots=True)
class PortableInbox:
    """A portable actor's inbox as an application hands it over (FEP-ef61).

    Attributes:
        url: its id in any form: `ap://did:key:…/…`, `ap+ef61://did:key:…/…`, or the compatible
            `https://gateway.example/.well-known/apgateway/did:key:…/…`. A query, which holds but hints, is dropped.
        gateways: the origins that accept deliveries to it, `https://gateway.example`, in the order its actor lists
            them; at most 10. With none, the gateway that a compatible id names.
        ref: an opaque reference of the application's that comes back with the outcome: at most 4 KiB of UTF-8.

    Raises:
        InvalidInbox: the reference cannot be kept, or `gateways` is no list of them. The rest is looked at when it is
            sent to.
    """

    url: str
    gateways: Sequence[str] = ()
    _: KW_ONLY
    ref: str | None = None

    def __post_init__(self) -> None:
        if self.ref is not None:
            check_ref(self.ref)
        # The types are checked for callers that run without a type checker.
        if isinstance(self.gateways, str | bytes) or not isinstance(self.gateways, Iterable):
            kind = type(self.gateways).__name__
            raise InvalidInbox("gateways", f"a {kind}", "a list of origins, such as https://gateway.example")
        # What has no end is not read to it; one too many is seen when it is sent to.
        object.__setattr__(self, "gateways", tuple(islice(self.gateways, MAX_GATEWAYS + 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway of an inbox.

    Attributes:
        origin: `https://gateway.example`, in canonical form.
        authority: the key of its host's record.
    """

    origin: str
    authority: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalPortableInbox:
    """A portable inbox in canonical form.

    Attributes:
        uri: `ap://did:…/…`, the same for every spelling of it.
        gateways: in the order they are tried; at least one, each once.
    """

    uri: str
    gateways: tuple[Gateway, ...]


def canonical_portable(inbox: PortableInbox) -> CanonicalPortableInbox:
    """Bring a portable inbox to its canonical form.

    Raises:
        InvalidInbox: its id or a gateway is none, there are no gateways or too many, or a URL becomes too long.

    Source: FEP-ef61, "ap:// URLs", "Compatibility".
    """
    uri, own = _split(inbox.url)
    given = tuple(inbox.gateways) or ((own,) if own is not None else ())
    if not given:
        raise InvalidInbox("gateways", "empty", f"1 to {MAX_GATEWAYS} origins, such as https://gateway.example")
    if len(given) > MAX_GATEWAYS:
        raise InvalidInbox("gateways", f"more than {MAX_GATEWAYS}", f"1 to {MAX_GATEWAYS} origins")
    gateways: dict[str, Gateway] = {}
    for number, text in enumerate(given):
        gateway = _gateway(text, number)
        gateways.setdefault(gateway.origin, gateway)
        if len(inbox_at(gateway.origin, uri)) > MAX_PORTABLE_BYTES:
            raise InvalidInbox(f"gateways[{number}]", "too long with the inbox", f"at most {MAX_PORTABLE_BYTES} bytes")
    return CanonicalPortableInbox(uri=uri, gateways=tuple(gateways.values()))


def inbox_at(gateway: str, uri: str) -> str:
    """The URL that a delivery to a canonical portable inbox is POSTed at, at a gateway's origin."""
    return f"{gateway}{GATEWAY_PATH}{uri.removeprefix('ap://')}"


def portable_form(url: str) -> PortableInbox | None:
    """An inbox URL in the compatible form, as the portable inbox that it is; None if it is an ordinary one."""
    if GATEWAY_PATH not in url or _HTTP.match(url) is None:
        return None
    try:
        uri, gateway = _split(url)
    except InvalidInbox:
        return None
    return PortableInbox(uri, (gateway,)) if gateway is not None else None


def _split(url: str) -> tuple[str, str | None]:
    """The canonical id, and the gateway that a compatible one names."""
    if not isinstance(url, str):
        raise InvalidInbox("url", f"a {type(url).__name__}", _FORMS)
    if len(url) > MAX_PORTABLE_BYTES:
        raise InvalidInbox("url", f"{len(url)} characters long", f"at most {MAX_PORTABLE_BYTES} bytes")
    if _HTTP.match(url) is None:
        parts = _URI.fullmatch(url)
        if parts is None:
            _refuse("url", url, _FORMS)
        if parts[3] is not None:
            _refuse("fragment", parts[3], "an id without a fragment")
        return f"ap://{_did(parts[1])}{_path(parts[2])}", None
    at_gateway = canonical_inbox(url)
    if not at_gateway.target.startswith(GATEWAY_PATH):
        _refuse("url", at_gateway.url, _FORMS)
    did, slash, rest = at_gateway.target.removeprefix(GATEWAY_PATH).partition("?")[0].partition("/")
    return f"ap://{_did(did)}{_path(slash + rest)}", f"{at_gateway.scheme}://{at_gateway.authority}"


def _did(given: str) -> str:
    # Encoded as a whole, so that a URL parser takes it for a host: its own percent signs are encoded too.
    did = unquote(given, errors="replace") if _ENCODED.match(given) else given
    form = _DID_KEY if did.startswith("did:key:") else _DID
    if not form.fullmatch(did):
        _refuse("DID", given, "a DID, such as did:key:z6Mk…")
    return did


def _path(given: str) -> str:
    if not _PATH.fullmatch(given):
        _refuse("path", given, "a path in ASCII without spaces and control characters; percent-encode everything else")
    return given


def _gateway(given: str, number: int) -> Gateway:
    field = f"gateways[{number}]"
    try:
        found = canonical_inbox(given)
    except InvalidInbox as error:
        raise InvalidInbox(f"{field} {error.field}", error.value, error.allowed) from None
    if found.target != "/":
        _refuse(
            field, found.url, "an origin: http or https, a host, and a port if it has one, such as https://h.example"
        )
    return Gateway(origin=found.url.removesuffix("/"), authority=found.authority)


def _refuse(field: str, value: str, allowed: str) -> Never:
    """Raise InvalidInbox, showing of `value` what can be shown: no password, no control character, not too much."""
    shown = ascii(value[:_SHOWN] + ("…" if len(value) > _SHOWN else ""))
    raise InvalidInbox(field, "one with a user name" if "@" in value else shown, allowed)
