# SPDX-License-Identifier: Apache-2.0
"""One attempt at one inbox: a signed request, and if its scheme was refused, one more with the other scheme."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ojak.clock import Clock, SystemClock
from ojak.errors import ConfigError, InputError, shown
from ojak.http.transport import PostAnswer, PostError, PostRequest, Transport
from ojak.http.user_agent import user_agent
from ojak.model.status import KNOCK_STATUSES
from ojak.signing import BodyDigest, Scheme, SigningKey, sign

ACTIVITY_JSON: Final = "application/activity+json"
"""What every large server sends, and so what every server takes."""
LD_JSON: Final = 'application/ld+json; profile="https://www.w3.org/ns/activitystreams"'
"""What ActivityPub section 7 names first; the same activity to a server that follows it."""

Headers = Sequence[tuple[str, str]]

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE: Final = re.compile(r"[\t -~]{0,8192}")
# What a transport, the signature, or this module sets; a second one would make what was signed ambiguous.
_OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-digest",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "digest",
        "expect",
        "host",
        "signature",
        "signature-input",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knocked:
    """What an attempt that was answered came to.

    Attributes:
        answer: the last answer.
        scheme: the scheme of the request that it answered.
        first_status: the status that the first scheme was refused with, or None if one knock was enough.
        sign_ms: the time spent signing.
        post_ms: the time spent on requests.
    """

    answer: PostAnswer
    scheme: Scheme
    first_status: int | None
    sign_ms: float
    post_ms: float

    @property
    def knocked(self) -> bool:
        """Whether both schemes were tried, so that a refusal is about the activity (`classify_status`)."""
        return self.first_status is not None

    @property
    def decisive(self) -> bool:
        """Whether it shows which scheme the inbox takes: the first was refused, and the second accepted.

        Source: SPEC section 4, "Scheme".
        """
        return self.first_status is not None and 200 <= self.answer.status < 300


class Knocker:
    """Makes attempts over one transport.

    Args:
        transport: what posts. Both knocks go through its guard.
        agent: the User-Agent; by default product and version.
        content_type: the Content-Type unless an attempt names another.
        clock: what tells the time that is signed.

    Raises ConfigError if `agent` or `content_type` cannot be sent.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        agent: str | None = None,
        content_type: str = ACTIVITY_JSON,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(content_type, str) or not content_type or not _VALUE.fullmatch(content_type):  # type: ignore[redundant-expr]
            raise ConfigError(f"content_type is {shown(content_type)}; allowed is a media type in printable ASCII")
        self._transport = transport
        self._clock = clock if clock is not None else SystemClock()
        self._content_type = ("Content-Type", content_type)
        # Nothing is decoded, so nothing may be encoded.
        self._always = [("User-Agent", user_agent(given=agent)), ("Accept", "*/*"), ("Accept-Encoding", "identity")]

    async def knock(
        self,
        url: str,
        body: bytes,
        *,
        digest: BodyDigest,
        key: SigningKey,
        first: Scheme,
        second: bool = True,
        signed: Headers = (),
        unsigned: Headers = (),
        content_type: str | None = None,
        allowance: Callable[[], float | None] | None = None,
    ) -> Knocked:
        """POST `body` to the canonical `url`, signed with the `first` scheme, and once more if that is refused.

        A 400, 401 or 403 is what refuses a scheme. Both requests belong to one attempt and one slot.

        Args:
            url: a canonical inbox URL.
            body: the activity, byte for byte.
            digest: of that body; made once, used for every attempt.
            key: what signs.
            first: the scheme to try first.
            second: whether the other scheme may be tried; not, where an operator pinned the first.
            signed: further fields to send that the signature covers. They must be checked (`check_headers`).
            unsigned: further fields to send that it does not cover, likewise.
            content_type: another Content-Type, for a host that wants it.
            allowance: asked before each request how many seconds it may take at most, None for no limit but the
                transport's own; with 0 or less a second one is not made.

        Raises:
            PostError: a request got no answer, the second one too.
            SigningError: the key cannot sign.
        """
        extra = [("Content-Type", content_type) if content_type is not None else self._content_type, *self._always]
        extra += signed
        extra += unsigned
        scheme = first
        first_status: int | None = None
        sign_s = post_s = 0.0
        while True:
            within_s = allowance() if allowance is not None else None
            began_s = time.perf_counter()
            headers = sign(
                key.key, key.key_id, scheme.value, "POST", url, digest, int(self._clock.wall_s()), signed or None
            )
            signed_s = time.perf_counter()
            headers += extra
            try:
                answer = await self._transport.post(PostRequest(url=url, headers=headers, body=body, within_s=within_s))
            except PostError as error:
                error.scheme, error.first_status = scheme, first_status
                raise
            sign_s += signed_s - began_s
            post_s += time.perf_counter() - signed_s
            if not second or first_status is not None or answer.status not in KNOCK_STATUSES:
                break
            left_s = allowance() if allowance is not None else None
            if left_s is not None and left_s <= 0:
                break
            first_status = answer.status
            scheme = scheme.other
        return Knocked(
            answer=answer, scheme=scheme, first_status=first_status, sign_ms=sign_s * 1000, post_ms=post_s * 1000
        )


def check_headers(headers: Headers) -> None:
    """Refuse further fields that cannot be sent, or that are ours to set.

    Raises InputError naming the field and what is allowed. The value is not shown: it may be a token.
    """
    seen: set[str] = set()
    # The types are checked for callers that run without a type checker.
    if not isinstance(headers, list | tuple):
        raise InputError(f"headers is a {type(headers).__name__}; allowed is a list of pairs of name and value")
    for field in headers:
        if not (isinstance(field, tuple) and len(field) == 2 and all(isinstance(part, str) for part in field)):
            raise InputError(f"headers holds a {type(field).__name__}; allowed are pairs of name and value, both texts")
    for name, value in headers:
        lower = name.lower()
        if not _NAME.fullmatch(name) or lower in _OURS or lower in seen:
            raise InputError(f"header {name!r} cannot be added; allowed are tokens, once each, but {sorted(_OURS)}")
        if not _VALUE.fullmatch(value) or value != value.strip(" \t"):
            raise InputError(
                f"the value of header {name!r} cannot be sent; allowed is printable ASCII, at most 8192 characters"
            )
        seen.add(lower)
