# SPDX-License-Identifier: Apache-2.0
"""What a farm is to be: its hosts, and how each behaves (SPEC section 9)."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from ipaddress import AddressValueError, IPv4Address
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ojak.farm.address import LOOPBACK, MAX_HOSTS, host_address
from ojak.farm.behaviour import Behaviour, HangUp, Moment, Reach, Respond, Unreachable
from ojak.farm.errors import PlanError
from ojak.signing.scheme import Scheme

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$")]
Port = Annotated[int, Field(ge=0, le=65_535)]

SENDER_PATIENCE_MS = 30_000
"""A sender gives up a request after this long (SPEC section 3), so a host that answers later never accepts."""

_UNAUTHORIZED = Respond(status=401)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of a host's script.

    Attributes:
        behaviour: how requests are treated in it.
        requests: it ends after so many; null: not by number.
        for_s: it ends so many seconds after it began (the first when the farm is ready); null: not by time.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    behaviour: Behaviour
    requests: Annotated[int, Field(ge=1)] | None = None
    for_s: Annotated[float, Field(gt=0)] | None = None

    @property
    def ends(self) -> bool:
        """Whether anything ends it."""
        return self.requests is not None or self.for_s is not None


class Certificate(StrEnum):
    """What a TLS host shows."""

    GOOD = "good"
    EXPIRED = "expired"
    WRONG_NAME = "wrong-name"
    UNTRUSTED = "untrusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """One virtual host.

    Attributes:
        name: its DNS name, in lower case.
        address: its loopback address, 127.x.y.z; empty: given by the farm.
        label: a word to find hosts of one sort by.
        tls: whether its inboxes are https.
        certificate: what it shows there.
        schemes: the signature schemes it takes; others get its refusal.
        signed: false: it accepts without looking at signatures, and its requests count as neither verified nor not.
        script: its phases; the last goes on for ever, unless `cycle`.
        cycle: begin again after the last phase.
        refusal: the answer to a request whose signature it does not accept.
        only_paths: the paths that are inboxes, byte for byte; others get 404. Null: every path.
        content_types: the exact values of Content-Type that it takes; others get 415. Null: every one.
        close_after: close the connection after so many requests, without saying so before. Null: keep it.
        own_port: give it a listener of its own, so that it can refuse connections or swallow them later on.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Name
    address: Annotated[str, Field(pattern=r"^(127(\.\d{1,3}){3})?$")] = ""
    label: Annotated[str, Field(min_length=1, max_length=64)] = "accept"
    tls: bool = False
    certificate: Certificate = Certificate.GOOD
    schemes: tuple[Scheme, ...] = (Scheme.CAVAGE, Scheme.RFC9421)
    signed: bool = True
    script: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=1000)] = (Phase(behaviour=Respond()),)
    cycle: bool = False
    refusal: Respond = _UNAUTHORIZED
    only_paths: tuple[Annotated[str, Field(pattern=r"^/")], ...] | None = None
    content_types: tuple[str, ...] | None = None
    close_after: Annotated[int, Field(ge=1)] | None = None
    own_port: bool = False

    @property
    def living(self) -> bool:
        """Whether it accepts in the end, before a sender's patience does."""
        if self.cycle:
            return any(_accepts(phase.behaviour) for phase in self.script)
        return _accepts(self.script[-1].behaviour)

    @property
    def needs_own_port(self) -> bool:
        """Whether it has a listener of its own."""
        return self.own_port or any(isinstance(phase.behaviour, Unreachable) for phase in self.script)

    def check(self, field: str) -> None:
        """Raise what a type cannot say.

        Raises:
            PlanError: a phase can never end, or never begin.
        """
        last = len(self.script) - 1
        for index, phase in enumerate(self.script):
            where = f"{field}.script[{index}]"
            if index < last and not phase.ends:
                raise PlanError(f"{where} never ends, so what follows never comes; give it requests or for_s")
            if index == last and self.cycle and not phase.ends and last:
                raise PlanError(f"{where} never ends, so cycle means nothing; give it requests or for_s")
            if _uncounted(phase.behaviour) and phase.requests is not None:
                raise PlanError(f"{where}.requests is {phase.requests}, but no request is seen in it; give it for_s")


def _accepts(behaviour: Behaviour) -> bool:
    if isinstance(behaviour, Respond):
        return behaviour.accepts and behaviour.latency_ms + behaviour.jitter_ms < SENDER_PATIENCE_MS
    return behaviour.accepts


def _uncounted(behaviour: Behaviour) -> bool:
    return isinstance(behaviour, Unreachable)


def at_connect(behaviour: Behaviour) -> bool:
    """Whether a behaviour ends a connection before any request."""
    return isinstance(behaviour, HangUp) and behaviour.moment is Moment.CONNECT


def reach_of(behaviour: Behaviour) -> Reach:
    """How far a connection gets under a behaviour."""
    return behaviour.reach if isinstance(behaviour, Unreachable) else Reach.LISTENS


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmPlan:
    """A whole farm.

    Attributes:
        hosts: its hosts, names and addresses each once.
        seed: of all chance in it.
        http_port, tls_port: the shared listeners; 0: the system chooses.
        keep_alive_s: an idle connection is closed after so long.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    hosts: Annotated[tuple[HostPlan, ...], Field(min_length=1, max_length=MAX_HOSTS)]
    seed: int = 1
    http_port: Port = 0
    tls_port: Port = 0
    keep_alive_s: Annotated[float, Field(gt=0, le=3600)] = 75

    def to_json(self) -> bytes:
        """The plan as a plan file.

        Raises:
            PlanError: a field holds what a plan file could not.
        """
        return _adapter().dump_json(check_plan(_adapter().dump_python(self)))


@cache
def _adapter() -> TypeAdapter[FarmPlan]:
    return TypeAdapter(FarmPlan)


def check_plan(value: object) -> FarmPlan:
    """A plan from plain data, checked whole; hosts without an address get the next of the farm's.

    Raises:
        PlanError: names the first field that is not usable, its value and what is allowed.
    """
    try:
        plan = _adapter().validate_python(value)
    except ValidationError as error:
        raise PlanError(_sentence(error)) from error
    names: set[str] = set()
    addresses: set[str] = set()
    hosts: list[HostPlan] = []
    for index, host in enumerate(plan.hosts):
        field = f"hosts[{index}]"
        host.check(field)
        address = host.address or host_address(index + 1)
        if host.name in names:
            raise PlanError(f"{field}.name {host.name!r} is there twice; each host needs a name of its own")
        if address in addresses or not _loopback(address):
            raise PlanError(
                f"{field}.address {address!r} is taken or none; each host needs one of its own in 127.0.0.0/8"
            )
        names.add(host.name)
        addresses.add(address)
        hosts.append(host if host.address else replace(host, address=address))
    return replace(plan, hosts=tuple(hosts))


def _loopback(text: str) -> bool:
    try:
        return IPv4Address(text) in LOOPBACK
    except AddressValueError:
        return False


def check_behaviour(value: object, field: str) -> Behaviour:
    """One behaviour from plain data.

    Raises:
        PlanError: names the field that is not usable, its value and what is allowed.
    """
    try:
        behaviour: Behaviour = _behaviours().validate_python(value)
    except ValidationError as error:
        raise PlanError(_sentence(error, field)) from error
    return behaviour


@cache
def _behaviours() -> TypeAdapter[Behaviour]:
    return TypeAdapter(Behaviour)


def _sentence(error: ValidationError, root: str = "") -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    field = root
    for part in first["loc"]:
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else str(part)
    shown = repr(first.get("input"))
    return f"{field or 'the plan'} is {shown[:80]}: {first['msg']}"
