# SPDX-License-Identifier: Apache-2.0
"""Handy words for behaviours: `slow:3000+cavage-only+tls` instead of a page of JSON."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from ojak.farm.behaviour import (
    Behaviour,
    Drip,
    HangUp,
    HugeBody,
    HugeHead,
    Interim,
    Moment,
    Part,
    RateLimited,
    Raw,
    Reach,
    Respond,
    Silent,
    Unreachable,
)
from ojak.farm.errors import PlanError
from ojak.farm.plan import Certificate, HostPlan, Phase, check_behaviour
from ojak.signing.scheme import Scheme

Arguments = tuple[str, ...]
Change = Callable[[HostPlan, Arguments], HostPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A word for what a host does.

    Attributes:
        usage: the word with its arguments; those in brackets may be left out.
        about: what it does.
        change: turns a plan without it into one with it.
    """

    usage: str
    about: str
    change: Change


def apply_preset(host: HostPlan, text: str, field: str) -> HostPlan:
    """A host that does what `text` says: words joined by `+`, arguments after `:`, between commas.

    Raises:
        PlanError: an unknown word, or an argument that is not usable.
    """
    for part in text.split("+"):
        word, _, rest = part.partition(":")
        preset = PRESETS.get(word)
        if preset is None:
            raise PlanError(f"{field} is {text!r}, but {word!r} is none of: {', '.join(PRESETS)}")
        try:
            host = preset.change(host, tuple(rest.split(",")) if rest else ())
        except (ValueError, IndexError) as error:
            raise PlanError(f"{field} is {text!r}, but it is written {preset.usage}") from error
    return host


def preset_behaviour(text: str, field: str) -> Behaviour:
    """The one behaviour that `text` stands for.

    Raises:
        PlanError: it stands for more than a behaviour.
    """
    blank = HostPlan(name="blank")
    host = apply_preset(blank, text, field)
    if len(host.script) != 1 or replace(host, script=blank.script) != blank:
        raise PlanError(f"{field} is {text!r}, which changes the host; a phase takes only what answers a request")
    return host.script[0].behaviour


def _always(build: Callable[[Arguments], Behaviour]) -> Change:
    def change(host: HostPlan, arguments: Arguments) -> HostPlan:
        # built from text, so the ranges are checked by the same rules as a plan file's
        return replace(host, script=(Phase(behaviour=check_behaviour(asdict(build(arguments)), "behaviour")),))

    return change


def _number(arguments: Arguments, index: int, default: int) -> int:
    if index >= len(arguments):
        return default
    text = arguments[index]
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def _first(arguments: Arguments, default: str) -> str:
    return arguments[0] if arguments else default


def _unreachable(reach: Reach) -> Change:
    def change(host: HostPlan, arguments: Arguments) -> HostPlan:
        gone = Unreachable(reach=Reach.REFUSES if reach is Reach.REFUSES else Reach.SWALLOWS)
        if not arguments:
            return replace(host, script=(Phase(behaviour=gone),))
        return replace(host, script=(Phase(behaviour=gone, for_s=_number(arguments, 0, 1)), Phase(behaviour=Respond())))

    return change


def _rate_limited(host: HostPlan, arguments: Arguments) -> HostPlan:
    limited = RateLimited(retry_after_s=_number(arguments, 1, 1))
    times = _number(arguments, 0, 3)
    return replace(host, script=(Phase(behaviour=limited, requests=times), Phase(behaviour=Respond())))


def _recovering(host: HostPlan, arguments: Arguments) -> HostPlan:
    failing = Phase(behaviour=Respond(status=503), requests=_number(arguments, 0, 3))
    return replace(host, script=(failing, Phase(behaviour=Respond())))


def _flapping(host: HostPlan, arguments: Arguments) -> HostPlan:
    failing = Phase(behaviour=Respond(status=503), requests=_number(arguments, 0, 3))
    working = Phase(behaviour=Respond(), requests=_number(arguments, 1, 10))
    return replace(host, script=(failing, working), cycle=True)


def _taking(*schemes: Scheme) -> Change:
    return lambda host, _: replace(host, schemes=schemes)


def _showing(certificate: Certificate) -> Change:
    return lambda host, _: replace(host, tls=True, certificate=certificate)


def _preset(usage: str, about: str, change: Change) -> tuple[str, Preset]:
    word = usage.partition(":")[0].partition("[")[0]
    return word, Preset(usage=usage, about=about, change=change)


def _status(arguments: Arguments) -> Behaviour:
    return Respond(status=_number(arguments, 0, int(arguments[0])))


PRESETS: dict[str, Preset] = dict(
    (
        _preset("accept[:MS]", "202, at once or after MS", _always(lambda a: Respond(latency_ms=_number(a, 0, 0)))),
        _preset("slow[:MS]", "202 after MS (2500)", _always(lambda a: Respond(latency_ms=_number(a, 0, 2500)))),
        _preset("status:CODE", "answer with CODE, 200 to 599", _always(_status)),
        _preset("gone", "410", _always(lambda _: Respond(status=410))),
        _preset(
            "redirect[:URL]",
            "308 to URL",
            _always(lambda a: Respond(status=308, headers=(("Location", _first(a, "/elsewhere")),))),
        ),
        _preset(
            "html",
            "200 with a page, as a parked domain",
            _always(lambda _: Respond(status=200, headers=(("Content-Type", "text/html"),), body="<h1>For sale</h1>")),
        ),
        _preset("rate-limited[:N[,S]]", "429 with Retry-After S (1), N times (3), then accept", _rate_limited),
        _preset("recovering[:N]", "503 N times (3), then accept", _recovering),
        _preset("flapping[:N[,M]]", "503 N times (3), accept M times (10), and again", _flapping),
        _preset(
            "silent[:S]",
            "accept the connection and never answer; close after S (300)",
            _always(lambda a: Silent(hold_s=_number(a, 0, 300))),
        ),
        _preset(
            "reset[:MOMENT]",
            "reset the connection at connect, request (so by default), answer-head or answer-body",
            _always(lambda a: HangUp(moment=Moment(_first(a, "request")))),
        ),
        _preset(
            "cut[:MOMENT]",
            "the same, but close it in order",
            _always(lambda a: HangUp(moment=Moment(_first(a, "request")), abrupt=False)),
        ),
        _preset(
            "refuse[:S]", "refuse connections, for ever or for S seconds, then accept", _unreachable(Reach.REFUSES)
        ),
        _preset("black-hole[:S]", "connections never come about, for ever or for S", _unreachable(Reach.SWALLOWS)),
        _preset("cavage-only", "401 to RFC 9421", _taking(Scheme.CAVAGE)),
        _preset("rfc9421-only", "401 to draft-cavage", _taking(Scheme.RFC9421)),
        _preset("no-scheme", "401 to both schemes", _taking()),
        _preset("unsigned", "take everything, look at no signature", lambda host, _: replace(host, signed=False)),
        _preset("close-each", "close after each answer, unannounced", lambda host, _: replace(host, close_after=1)),
        _preset(
            "close-after:N",
            "close after N answers, unannounced",
            lambda host, a: replace(host, close_after=_number(a, 0, int(a[0]))),
        ),
        _preset("tls", "inboxes are https", lambda host, _: replace(host, tls=True)),
        _preset("own-port", "can refuse connections later on", lambda host, _: replace(host, own_port=True)),
        _preset("expired", "TLS with a certificate of the past", _showing(Certificate.EXPIRED)),
        _preset("wrong-name", "TLS with somebody else's certificate", _showing(Certificate.WRONG_NAME)),
        _preset("untrusted", "TLS with a certificate of an unknown authority", _showing(Certificate.UNTRUSTED)),
        _preset(
            "drip-head[:MS]", "a byte of the head each MS (1000)", _always(lambda a: Drip(every_ms=_number(a, 0, 1000)))
        ),
        _preset(
            "drip-body[:MS]",
            "202, then a byte of the body each MS (1000)",
            _always(lambda a: Drip(part=Part.BODY, every_ms=_number(a, 0, 1000))),
        ),
        _preset(
            "interim[:N]",
            "103 N times (3), then 202",
            _always(lambda a: Interim(statuses=(103,), every_ms=200, count=_number(a, 0, 3))),
        ),
        _preset("endless-interim[:MS]", "102 each MS (1000)", _always(lambda a: Interim(every_ms=_number(a, 0, 1000)))),
        _preset(
            "huge-head[:BYTES]", "one field of BYTES", _always(lambda a: HugeHead(size_bytes=_number(a, 0, 1 << 20)))
        ),
        _preset(
            "many-fields[:N]",
            "N fields (10000)",
            _always(lambda a: HugeHead(size_bytes=1 << 20, fields=_number(a, 0, 10_000))),
        ),
        _preset(
            "huge-body[:BYTES]",
            "202 with a body of BYTES",
            _always(lambda a: HugeBody(size_bytes=_number(a, 0, 1 << 30))),
        ),
        _preset("bomb", "202 with a gigabyte of zeros, compressed", _always(lambda _: HugeBody(gzip=True))),
        _preset("garbage[:BYTES]", "noise (256)", _always(lambda a: Raw(random_bytes=_number(a, 0, 256)))),
    )
)
"""By word."""
