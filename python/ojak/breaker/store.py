# SPDX-License-Identifier: Apache-2.0
"""Where breakers are kept: a protocol that an application can implement, and a store in memory."""

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ojak.breaker.admission import CLEAN, Admission, BreakerScope, Probe, Verdict
from ojak.breaker.circuit import Circuit, Signal
from ojak.breaker.rules import CircuitBreaker
from ojak.clock import Clock, SystemClock
from ojak.errors import ConfigError

KEPT: Final = 65_536
"""So many breakers are kept in memory unless told; one that is clean is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerResult:
    """What an attempt said.

    Attributes:
        key: an authority or an inbox, as the store's scope has it.
        signal: what it said.
        probe: the probe that the attempt was, or None. It decides, or with a signal of NOTHING gives the probe back.
    """

    key: str
    signal: Signal
    probe: Probe | None = None


class BreakerStore(Protocol):
    """Keeps breakers (SPEC section 1). Implement it to keep them elsewhere, in Redis for example.

    `Circuit` is the state machine that the stores here use. A store with a policy of its own may answer by that.

    Every method may raise, and one that takes longer than 5 s counts as one that did: `run()` logs that, treats a key
    as clean that it could not ask about, and records again what it could not record.
    """

    @property
    def scope(self) -> BreakerScope:
        """What the keys are."""
        ...

    async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
        """Say for each key what may be done now.

        Of a key whose quarantine is over, exactly one asker is given the probe. It is its for `hold_s` seconds, unless
        renewed; then the next asker may have it.
        """
        ...

    async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
        """Take in what attempts said, in this order; answers for each result what its key's breaker says then.

        Takes no probe: a key whose quarantine is over is held for 0 seconds. A result whose probe was taken over counts
        for nothing.
        """
        ...

    async def renew(self, probes: Sequence[Probe], *, hold_s: float) -> None:
        """Hold probes for `hold_s` seconds from now. Those that were taken over are left alone."""
        ...

    async def give_back(self, probes: Sequence[Probe], *, after_s: float) -> None:
        """Take probes back that decided nothing; the next may be had in `after_s` seconds."""
        ...

    async def heard_from(self, key: str) -> bool:
        """Bring the probe of a key forward, once in each quarantine; answers whether it was. Never closes a breaker."""
        ...


class MemoryBreakers:
    """Breakers in memory, those of one process: a restart forgets them.

    Args:
        rules: when breakers open, and for how long.
        clock: tells the time.
        most: how many are kept. Beyond that the one that was not asked about for longest is forgotten.

    Raises:
        ConfigError: `most` is less than 1.
    """

    def __init__(self, rules: CircuitBreaker | None = None, *, clock: Clock | None = None, most: int = KEPT) -> None:
        if most < 1:
            raise ConfigError(f"most is {most!r}; allowed is 1 or more")
        self._rules = rules or CircuitBreaker()
        self._clock = clock or SystemClock()
        self._most = most
        self._circuits: OrderedDict[str, Circuit] = OrderedDict()

    @property
    def scope(self) -> BreakerScope:
        """What the keys are."""
        return self._rules.scope

    async def admit(self, keys: Sequence[str], *, hold_s: float) -> Sequence[Admission]:
        """Say for each key what may be done now."""
        return [self._admit(key, hold_s) for key in keys]

    async def record(self, results: Sequence[BreakerResult]) -> Sequence[Admission]:
        """Take in what attempts said."""
        now_s = self._clock.boot_s()
        for result in results:
            circuit = self._circuits.get(result.key, Circuit())
            stamp = _stamp(result.probe) if result.probe is not None else None
            self._keep(result.key, circuit.after(result.signal, rules=self._rules, now_s=now_s, probe=stamp))
        return [self._circuits.get(result.key, Circuit()).admission(self._rules, now_s=now_s) for result in results]

    async def renew(self, probes: Sequence[Probe], *, hold_s: float) -> None:
        """Hold probes for longer."""
        now_s = self._clock.boot_s()
        for probe in probes:
            if (circuit := self._circuits.get(probe.key)) is not None:
                self._keep(probe.key, circuit.renewed(_stamp(probe), now_s=now_s, hold_s=hold_s))

    async def give_back(self, probes: Sequence[Probe], *, after_s: float) -> None:
        """Take probes back that decided nothing."""
        now_s = self._clock.boot_s()
        for probe in probes:
            if (circuit := self._circuits.get(probe.key)) is not None:
                self._keep(probe.key, circuit.given_back(_stamp(probe), now_s=now_s, after_s=after_s))

    async def heard_from(self, key: str) -> bool:
        """Bring the probe of a key forward, once in each quarantine."""
        before = self._circuits.get(key)
        if before is None:
            return False
        circuit = before.heard_from(now_s=self._clock.boot_s())
        self._keep(key, circuit)
        return circuit is not before

    def _admit(self, key: str, hold_s: float) -> Admission:
        circuit = self._circuits.get(key)
        if circuit is None:
            return CLEAN
        now_s = self._clock.boot_s()
        answer = circuit.admission(self._rules, now_s=now_s)
        stamp = secrets.token_bytes(16)
        taken = circuit.taken(stamp, now_s=now_s, hold_s=hold_s)
        if taken is None:
            self._circuits.move_to_end(key)
            return answer
        self._keep(key, taken)
        return replace(answer, verdict=Verdict.PROBE, hold_s=0.0, probe=Probe(key=key, token=stamp))

    def _keep(self, key: str, circuit: Circuit) -> None:
        if circuit.clean:
            self._circuits.pop(key, None)
            return
        self._circuits[key] = circuit
        self._circuits.move_to_end(key)
        if len(self._circuits) > self._most:
            self._circuits.popitem(last=False)


def _stamp(probe: Probe) -> bytes:
    # A probe of another store is nobody's here.
    return probe.token if isinstance(probe.token, bytes) else b""
