# SPDX-License-Identifier: Apache-2.0
"""A host while the farm runs: where it is in its script, and what it has seen."""

from random import Random
from time import monotonic

from ojak.farm.behaviour import Player, Reach, Respond
from ojak.farm.plan import HostPlan, Phase, at_connect, reach_of


class Host:
    """The mutable half of a `HostPlan`.

    Attributes:
        plan: what it is to do.
        origin: scheme and authority of its inboxes, as `http://h00001.farm.test:8080`.
        requests, accepted, unverified: how many it has seen.
        connections: how many were made to it.
        open: how many requests are open now.
        peak: the most that were open at once.
    """

    __slots__ = (
        "_accepts",
        "_index",
        "_left",
        "_random",
        "_script",
        "_seed",
        "_since_s",
        "_steady",
        "accepted",
        "connections",
        "cycle",
        "open",
        "origin",
        "peak",
        "plan",
        "player",
        "refusal",
        "requests",
        "schemes",
        "signed",
        "unverified",
    )

    def __init__(self, plan: HostPlan, *, seed: int) -> None:
        self.plan = plan
        self.origin = ""
        self.requests = self.accepted = self.unverified = 0
        self.connections = self.open = self.peak = 0
        self._seed = seed
        self._random: Random | None = None
        self.schemes = frozenset(plan.schemes)
        self.signed = plan.signed
        self.refusal = plan.refusal.player()
        self.behave(plan.script, cycle=plan.cycle)

    def behave(self, script: tuple[Phase, ...], *, cycle: bool = False) -> None:
        """Begin a script."""
        self._script = script
        self.cycle = cycle
        self._enter(0)

    def start(self) -> None:
        """The farm is ready: the first phase begins now."""
        self._since_s = monotonic()

    @property
    def random(self) -> Random:
        """Its own source of chance; few hosts need one, and each takes 2.5 kB."""
        if self._random is None:
            self._random = Random(f"{self._seed} {self.plan.name}")  # noqa: S311  # repeatable chance is the point
        return self._random

    @property
    def behaviour_now(self) -> str:
        """The kind of what it does now, for people."""
        behaviour = self._current().behaviour
        return f"respond {behaviour.status}" if isinstance(behaviour, Respond) else behaviour.kind

    @property
    def reach(self) -> Reach:
        """How far a connection gets now."""
        return reach_of(self._current().behaviour)

    @property
    def hangs_up_at_connect(self) -> bool:
        """Whether it ends connections before any request."""
        return at_connect(self._current().behaviour)

    @property
    def phase_ends_in_s(self) -> float | None:
        """When the present phase ends by time, from now; None: not by time."""
        for_s = self._script[self._index].for_s
        return None if for_s is None else max(0.0, self._since_s + for_s - monotonic())

    def accepts_now(self) -> bool:
        """Whether the next request is taken, if its signature is good."""
        return self._accepts if self._steady else self._current().behaviour.accepts

    def next_player(self) -> Player:
        """How the next request is treated; it counts as one of its phase."""
        if self._steady:
            return self.player
        phase = self._current()
        player = self.player
        if phase.requests is not None:
            self._left -= 1
            if not self._left:
                self._advance()
        return player

    def _current(self) -> Phase:
        phase = self._script[self._index]
        # a phase that ended by time while nobody asked is left when somebody does
        while phase.for_s is not None and monotonic() >= self._since_s + phase.for_s:
            ended_s = self._since_s + phase.for_s
            if not self._advance():
                break
            self._since_s = ended_s
            phase = self._script[self._index]
        return phase

    def _advance(self) -> bool:
        following = self._index + 1
        if following == len(self._script):
            if not self.cycle:
                return False
            following = 0
        self._enter(following)
        return True

    def _enter(self, index: int) -> None:
        phase = self._script[index]
        self._index = index
        self._since_s = monotonic()
        self._left = phase.requests or 0
        self.player = phase.behaviour.player()
        self._steady = not phase.ends
        self._accepts = phase.behaviour.accepts
