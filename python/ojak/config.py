# SPDX-License-Identifier: Apache-2.0
"""`DelivererConfig`: how the delivery loop behaves, as frozen values checked at once."""

from dataclasses import dataclass, fields
from typing import Final

from ojak.errors import ConfigError, shown

DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class _Range:
    """What a number may be; `unit` is for the error's reader."""

    low: float
    high: float
    unit: str

    def check(self, name: str, value: object, kind: type[int] | type[float]) -> None:
        taken = int if kind is int else int | float
        if isinstance(value, bool) or not isinstance(value, taken) or not self.low <= value <= self.high:
            what = "a whole number from " if kind is int and not isinstance(value, int) else ""
            raise ConfigError(
                f"{name} is {shown(value)}; allowed is {what}{_plain(self.low)} to {_plain(self.high)} {self.unit}"
            )


def _plain(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() else f"{number:g}"


_RANGES: Final[dict[str, _Range]] = {
    "concurrency": _Range(1, 256, "deliveries at a time"),
    "concurrency_max": _Range(1, 256, "deliveries at a time"),
    "per_host": _Range(1, 64, "deliveries at a time to one host"),
    "slow_answer_s": _Range(0.01, 120, "seconds"),
    "quick_answers": _Range(1, 10_000, "answers in a row"),
    "small_send": _Range(0, 1000, "inboxes"),
    "small_sends_a_minute": _Range(1, 10_000, "sends"),
    "max_queued": _Range(1, 1_000_000_000, "deliveries"),
    "lease_s": _Range(1, 3600, "seconds"),
    "shard_lease_s": _Range(1, 600, "seconds"),
    "reap_every_s": _Range(0.1, 600, "seconds"),
    "poll_every_s": _Range(0.05, 60, "seconds"),
    "sweep_every_s": _Range(0.1, 3600, "seconds"),
    "lease_ahead_s": _Range(0.01, 60, "seconds of work"),
    "settle_every_s": _Range(0.001, 5, "seconds"),
    "settle_batch": _Range(1, 1000, "outcomes"),
    "max_attempts": _Range(1, 100, "attempts"),
    "max_deaths": _Range(1, 100, "deaths of a worker"),
    "max_age_s": _Range(60, 365 * DAY_S, "seconds"),
    "keep_finished_s": _Range(60, 365 * DAY_S, "seconds"),
    "key_retry_s": _Range(0.1, DAY_S, "seconds"),
    "connect_s": _Range(0.1, 60, "seconds"),
    "read_s": _Range(0.1, 120, "seconds"),
    "request_s": _Range(0.1, 300, "seconds"),
    "drain_s": _Range(0, 3600, "seconds"),
    "scheme_memory_s": _Range(60, 365 * DAY_S, "seconds"),
    "breaker_threshold": _Range(1, 1000, "consecutive failures"),
    "breaker_first_s": _Range(0.01, 365 * DAY_S, "seconds"),
    "breaker_growth": _Range(1, 10, "times"),
    "breaker_longest_s": _Range(0.01, 365 * DAY_S, "seconds"),
    "breaker_recovery": _Range(1, 1000, "consecutive successes"),
    "unavailable_after_s": _Range(1, 3650 * DAY_S, "seconds"),
    "outage_hosts": _Range(1, 1000, "hosts"),
    "outage_within_s": _Range(1, 3600, "seconds"),
    "outage_failed": _Range(0.01, 1, "of those tried"),
    "outage_good_s": _Range(1, 30 * DAY_S, "seconds"),
    "outage_probe_s": _Range(0.1, 3600, "seconds"),
    "outage_back": _Range(1, 1000, "hosts"),
    "max_body_bytes": _Range(2, 16_000_000, "bytes"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DelivererConfig:
    """How the delivery loop behaves (SPEC sections 2 to 5). Every number is that section's default.

    Raises:
        ConfigError: a value is out of its range, or two contradict each other; names the field, the value and what
            is allowed.
    """

    concurrency: int = 8
    """Deliveries at a time in one `run()`."""
    concurrency_max: int = 8
    """How far a `run()` may raise `concurrency` by itself while its loop keeps up; the supervisor's workers use 256."""
    per_host: int = 2
    """Deliveries at a time to one host: a slow or dead server holds so many slots, never the queue."""
    slow_answer_s: float = 5.0
    """A host whose answer takes longer, or is a 429, gets one delivery at a time."""
    quick_answers: int = 20
    """After so many quick answers in a row it may have twice as many again, up to what it is allowed."""
    small_send: int = 10
    """Sends to at most so many inboxes go before others."""
    small_sends_a_minute: int = 100
    """More small sends of one sender within a minute are a fan-out: what comes beyond goes with the others."""
    max_queued: int = 5_000_000
    """So many deliveries wait at most; a send beyond them is refused."""
    lease_s: float = 120.0
    """How long a leased job is its worker's, unless renewed; renewed every third of this."""
    shard_lease_s: float = 45.0
    """How long a shard is its owner's, unless renewed; renewed every third of this."""
    reap_every_s: float = 30.0
    """How often expired leases are returned."""
    poll_every_s: float = 5.0
    """How often workers look for work when nothing wakes them."""
    sweep_every_s: float = 60.0
    """How often what crashes left behind is mended: untold ends, hosts that are not due though they have work."""
    lease_ahead_s: float = 1.0
    """A worker leases no more than it will start within about this time."""
    settle_every_s: float = 0.1
    """Outcomes are stored at the latest so long after they happened."""
    settle_batch: int = 256
    """Outcomes are stored when so many wait."""
    max_attempts: int = 16
    """Attempts of one delivery before it is given up on."""
    max_deaths: int = 5
    """Deaths of workers while a job ran before the job is parked."""
    max_age_s: float = 7 * DAY_S
    """A delivery older than this is given up on, held or not."""
    keep_finished_s: float = 7 * DAY_S
    """How long a finished delivery stays queryable."""
    key_retry_s: float = 300.0
    """How long a delivery waits when its sender's key is missing or broken."""
    connect_s: float = 5.0
    """Time to connect, TLS included."""
    read_s: float = 10.0
    """Time without a byte of the answer."""
    request_s: float = 30.0
    """Time of one request in all."""
    drain_s: float = 30.0
    """How long `stop()` waits for what is on the wire."""
    first_scheme: str = "cavage"
    """The scheme that an unknown host is tried with first: `cavage` or `rfc9421`."""
    scheme_memory_s: float = 30 * DAY_S
    """How long it is remembered which scheme a host accepts."""
    breaker_threshold: int = 10
    """Consecutive failures of a host that open its breaker."""
    breaker_first_s: float = 3600.0
    """The first quarantine of a host whose breaker opened."""
    breaker_growth: float = 2.0
    """How much longer each quarantine is than the one before it."""
    breaker_longest_s: float = 7 * DAY_S
    """The longest quarantine."""
    breaker_recovery: int = 8
    """Consecutive successes, one at a time, after which a host that was quarantined is as good as any other."""
    breaker_scope: str = "host"
    """What breakers are kept for: `host` or `inbox`. With inboxes each delivery asks the store, which costs a read."""
    unavailable_after_s: float = 30 * DAY_S
    """A host in the longest quarantine without a success for so long is unavailable: what goes there ends at once."""
    outage_hosts: int = 10
    """So many hosts that answered lately, tried within `outage_within_s`, can show that it is us who are cut off."""
    outage_within_s: float = 60.0
    """Within this time they have to have been tried."""
    outage_failed: float = 0.8
    """This share of them has to have failed by network."""
    outage_good_s: float = 21_600.0
    """So long after an answer a host counts as one that answered lately."""
    outage_probe_s: float = 30.0
    """While we are cut off, hosts that answered lately are tried so often by a connection without a request."""
    outage_back: int = 3
    """When so many of them answered, delivery goes on."""
    max_body_bytes: int = 1 << 20
    """The largest activity that is taken."""
    retry_statuses: frozenset[int] = frozenset()
    """Statuses that are retried though they are final by themselves, up to 5 attempts."""
    final_statuses: frozenset[int] = frozenset({501, 505, 508, 510})
    """Statuses that are final beside every 3xx and what `permanent_status` knows."""

    def __post_init__(self) -> None:
        self._check_numbers()
        if self.concurrency_max < self.concurrency:
            raise ConfigError(
                f"concurrency_max is {self.concurrency_max!r}; allowed is concurrency ({self.concurrency}) or more"
            )
        if self.first_scheme not in ("cavage", "rfc9421"):
            raise ConfigError(f"first_scheme is {shown(self.first_scheme)}; allowed is 'cavage' or 'rfc9421'")
        if self.breaker_scope not in ("host", "inbox"):
            raise ConfigError(f"breaker_scope is {shown(self.breaker_scope)}; allowed is 'host' or 'inbox'")
        if self.breaker_longest_s < self.breaker_first_s:
            raise ConfigError(
                f"breaker_longest_s is {self.breaker_longest_s!r}; allowed is breaker_first_s"
                f" ({self.breaker_first_s:g}) or more"
            )
        if self.lease_s < self.request_s * 1.5:
            # A request begins only with more trust left in its lease than it can last, and a lease is renewed when a
            # third of it is gone: a shorter one could never begin anything.
            raise ConfigError(
                f"lease_s is {self.lease_s!r}; allowed is 1.5 times request_s ({self.request_s * 1.5:g}) or more"
            )
        self._check_statuses()

    def _check_numbers(self) -> None:
        for field in fields(self):
            if field.name in _RANGES:
                kind = int if field.type is int else float
                _RANGES[field.name].check(field.name, getattr(self, field.name), kind)

    def _check_statuses(self) -> None:
        for name in ("retry_statuses", "final_statuses"):
            statuses = getattr(self, name)
            if not isinstance(statuses, set | frozenset):
                raise ConfigError(f"{name} is {shown(statuses)}; allowed is a frozenset of HTTP statuses")
            for status in statuses:
                if not isinstance(status, int) or not 300 <= status <= 599:
                    raise ConfigError(f"{name} holds {shown(status)}; allowed are HTTP statuses from 300 to 599")

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The names of all settings, for whoever reads them from an environment or a file."""
        return tuple(field.name for field in fields(cls))
