# SPDX-License-Identifier: Apache-2.0
"""An inbox that an activity goes to, and the one form that its URL is brought to.

The canonical form is what is signed, sent, hashed into the dedupe key and dialled, byte for byte, so that no later
parser gets to have its own opinion of a URL (SPEC section 3).
"""

import re
from dataclasses import KW_ONLY, dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Final, Never

import idna

from ojak.errors import InputError

MAX_URL_BYTES: Final = 2048
MAX_REF_BYTES: Final = 4096
_MAX_HOST_BYTES: Final = 253
_MAX_PORT: Final = 65535
_MAX_SHOWN: Final = 100
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PORTABLE: Final = frozenset({"ap", "ap+ef61"})


class InvalidInbox(InputError):
    """An inbox URL cannot be delivered to.

    Attributes:
        field: the part of the URL that is wrong: url, scheme, userinfo, host, port, path or fragment.
        value: what was found there, shortened, escaped, and without a password.
        allowed: what would be accepted.
    """

    def __init__(self, field: str, value: str, allowed: str) -> None:
        super().__init__(f"inbox {field} is {value}; allowed: {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Inbox:
    """An inbox as an application hands it over.

    Attributes:
        url: its URL, in any form that `canonical_inbox` accepts.
        shared: whether it is a shared inbox, where a 410 speaks of the server and not of one recipient.
        ref: an opaque reference of the application's that comes back with the outcome: at most 4 KiB of UTF-8.

    Raises:
        InvalidInbox: the reference cannot be kept, or `shared` is no bool. The URL is looked at when it is sent to.
    """

    url: str
    # SPEC section 1 names the three; only the URL reads well without its name.
    _: KW_ONLY
    shared: bool = False
    ref: str | None = None

    def __post_init__(self) -> None:
        # Checked for callers that run without a type checker: it decides what a 410 means.
        if not isinstance(self.shared, bool):
            raise InvalidInbox("shared", f"a {type(self.shared).__name__}", "True or False")
        if self.ref is not None:
            check_ref(self.ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalInbox:
    """An inbox URL in canonical form, with its parts.

    Attributes:
        url: the whole: what is signed and sent.
        scheme: `http` or `https`.
        authority: host and, unless it is the scheme's default, port: the `Host` field, and the key of a host record.
        host: what is resolved and dialled: lower-case A-labels or an address, IPv6 without brackets.
        port: the port, also when it is the default.
        target: path and query, byte for byte as they were given; at least `/`.
    """

    url: str
    scheme: str
    authority: str
    host: str
    port: int
    target: str


# What nearly every inbox looks like already. The last label may not begin with a digit here, which leaves addresses
# (and everything that some resolver would take for one) to the slow path.
_PLAIN = re.compile(r"(https?)://((?:[a-z0-9_-]{1,63}\.)*[a-z_-][a-z0-9_-]{0,62})(/[!\"$-~]*)")
_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?//([^/?#\\]*)(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_TARGET = re.compile(r"(?:[/?][!\"$-~]*)?")
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_IPV4 = re.compile(r"(?:(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])(?:\.(?!$)|$)){4}")
_PORT = re.compile(r"0*[0-9]{1,5}")
_USERINFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:)?([/\\]*)[^/?#]*@")


def canonical_inbox(url: str) -> CanonicalInbox:
    """Bring an inbox URL to its canonical form.

    Scheme and host become lower case, the host A-labels (UTS 46, then IDNA 2008) without a trailing dot, an IPv6
    literal its shortest form; a default port and an empty one go; an empty path becomes `/`. Path and query stay as
    they are. Only strings of at most 2 KiB, of http or https, without userinfo, fragment, control character, space or
    raw non-ASCII in path and query are accepted.

    Raises InvalidInbox, and nothing else, for anything that is not such a URL.

    Source: SPEC section 3; RFC 3986, RFC 9110 section 4.2.
    """
    # The type is checked for callers that run without a type checker.
    if not isinstance(url, str):
        raise InvalidInbox("url", f"a {type(url).__name__}", "a string, such as https://example.org/inbox")
    # Called for each inbox of a fan-out, so the common case is one match.
    plain = _PLAIN.fullmatch(url)
    if plain is not None and len(url) <= MAX_URL_BYTES:
        scheme, host, target = plain.groups()
        if len(host) <= _MAX_HOST_BYTES:
            return CanonicalInbox(
                url=url,
                scheme=scheme,
                authority=host,
                host=host,
                port=443 if scheme == "https" else 80,
                target=target,
            )
    return _canonical(url)


def check_ref(ref: object) -> None:
    """Refuse a reference that cannot be kept; raises InvalidInbox."""
    allowed = f"None, or a string of at most {MAX_REF_BYTES} bytes"
    if not isinstance(ref, str):
        raise InvalidInbox("ref", f"a {type(ref).__name__}", allowed)
    try:
        length = len(ref.encode())
    except UnicodeEncodeError:
        raise InvalidInbox("ref", "a string with a lone surrogate", allowed) from None
    if length > MAX_REF_BYTES:
        raise InvalidInbox("ref", f"{length} bytes long", allowed)


def _canonical(url: str) -> CanonicalInbox:
    if len(url) > MAX_URL_BYTES:
        raise InvalidInbox("url", f"{len(url)} characters long", f"at most {MAX_URL_BYTES} bytes")
    parts = _PARTS.fullmatch(url)
    if parts is None or parts[1] is None:
        _refuse("url", url, "an absolute http or https URL, such as https://example.org/inbox")
    scheme = parts[1].lower()
    if scheme not in _DEFAULT_PORTS:
        portable = "; a portable inbox goes with its gateways: send_portable" if scheme in _PORTABLE else ""
        _refuse("scheme", parts[1], f"http or https{portable}")
    if "@" in parts[2]:
        _refuse("userinfo", url, "a URL without a user name or password")
    authority = _AUTHORITY.fullmatch(parts[2])
    if authority is None:
        _refuse("host", parts[2], "a host name or an address, and optionally a colon and a port number")
    host = _ipv6(authority[1]) if authority[1].startswith("[") else _name(authority[1])
    port = _port(authority[2] or "", scheme)
    target = _target(parts[3])

    bracketed = f"[{host}]" if ":" in host else host
    named = bracketed if port == _DEFAULT_PORTS[scheme] else f"{bracketed}:{port}"
    canonical = f"{scheme}://{named}{target}"
    if len(canonical) > MAX_URL_BYTES:
        raise InvalidInbox("url", f"{len(canonical)} bytes long", f"at most {MAX_URL_BYTES} bytes")
    return CanonicalInbox(url=canonical, scheme=scheme, authority=named, host=host, port=port, target=target)


def _ipv6(literal: str) -> str:
    text = literal[1:-1]
    try:
        # A zone is meaningless to another machine, and would be one more thing that a parser can disagree about.
        address = IPv6Address("" if "%" in text else text)
    except AddressValueError:
        _refuse("host", literal, "an IPv6 address in brackets, without a zone")
    # Python 3.13 began to write mapped addresses with dots; the canonical form cannot depend on the version.
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def _name(given: str) -> str:
    allowed = "a host name of letters, digits, hyphens, underscores and dots, or an address"
    name = given
    if not name.isascii():
        name = _a_labels(name)
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _MAX_HOST_BYTES or not all(map(_LABEL.fullmatch, labels)):
        _refuse("host", given, f"{allowed}, at most {_MAX_HOST_BYTES} bytes and 63 a label")
    # Resolvers take 127.1, 0x7f.0.0.1, 017700000001 and the like for addresses, each in its own way.
    if _NUMBER.fullmatch(labels[-1]) and not _IPV4.fullmatch(name):
        _refuse("host", given, "an IPv4 address of four decimal numbers, or a name whose last label is no number")
    return name


def _a_labels(name: str) -> str:
    allowed = "a host name that IDNA 2008 allows"
    # Code points cost at least a byte each in an A-label; idna's own work grows faster than the length.
    if len(name) > _MAX_HOST_BYTES:
        _refuse("host", name, f"{allowed}, at most {_MAX_HOST_BYTES} bytes")
    try:
        mapped = idna.uts46_remap(name, std3_rules=False, transitional=False)
        # ASCII labels are left to our own rule, which allows the underscore that idna refuses.
        labels = [label if label.isascii() else idna.alabel(label).decode("ascii") for label in mapped.split(".")]
    except (idna.IDNAError, UnicodeError, ValueError, IndexError):
        labels = []
    if not labels:
        # Raised out here, since what idna says of a string quotes it whole and unescaped.
        _refuse("host", name, allowed)
    return ".".join(labels)


def _port(digits: str, scheme: str) -> int:
    if not digits:
        return _DEFAULT_PORTS[scheme]
    if not _PORT.fullmatch(digits) or not 1 <= int(digits) <= _MAX_PORT:
        _refuse("port", digits, f"1 to {_MAX_PORT}")
    return int(digits)


def _target(given: str) -> str:
    if "#" in given:
        _refuse("fragment", given[given.index("#") :], "a URL without a fragment")
    if given.startswith("\\") or not _TARGET.fullmatch(given):
        _refuse(
            "path",
            given,
            "path and query in ASCII without spaces and control characters; percent-encode everything else",
        )
    return given if given.startswith("/") else f"/{given}"


def _refuse(field: str, value: str, allowed: str) -> Never:
    """Raise InvalidInbox, showing of `value` what can be shown: no password, no control character, not too much."""
    shown = _USERINFO.sub(r"\1\2***@", value)
    if len(shown) > _MAX_SHOWN:
        shown = shown[:_MAX_SHOWN] + "…"
    raise InvalidInbox(field, ascii(shown), allowed)
