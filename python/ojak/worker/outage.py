# SPDX-License-Identifier: Apache-2.0
"""Our own outage: while this machine is cut off nothing is sent, no breaker hears of it, and good hosts are tried."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ojak.breaker.outage import OutageDetector, OutageRules, OutageTallies, OwnTallies
from ojak.clock import Clock
from ojak.config import DelivererConfig
from ojak.errors import DeliveryError
from ojak.model.job import Job

_log = logging.getLogger("ojak.worker.outage")

_EVERY_S: Final = 1.0
_TRIED_AT_A_TIME: Final = 10
_SCHEME_END: Final = len("https://")

Reach = Callable[[str], Awaitable[None]]
"""Makes a connection to the host of a URL, without a request, and closes it; raises a DeliveryError if it cannot."""


class Outage:
    """What this worker and its fellows on this machine know of the network.

    Args:
        clock: tells the time.
        config: what is taken for an outage.
        reach: tries a host.
        tallies: where the workers of this machine count together, or None for one that is alone.
    """

    def __init__(
        self, *, clock: Clock, config: DelivererConfig, reach: Reach, tallies: OutageTallies | None = None
    ) -> None:
        self._clock = clock
        self._probe_s = config.outage_probe_s
        self._reach = reach
        rules = OutageRules(
            hosts=config.outage_hosts,
            within_s=config.outage_within_s,
            failed=config.outage_failed,
            good_for_s=config.outage_good_s,
            back_after=config.outage_back,
        )
        self._tallies = tallies or OwnTallies()
        self._detector = OutageDetector(clock=clock, rules=rules, tallies=self._tallies)
        self._was_frozen = False
        self._probe_at_s = 0.0

    @property
    def frozen(self) -> bool:
        """Whether this machine is cut off: nothing is sent, and what fails says nothing."""
        return self._tallies.turns % 2 == 1

    def answered(self, job: Job) -> None:
        """A host answered, whatever it said."""
        self._detector.answered(_origin(job.url))

    def unreachable(self, job: Job, *, known: bool) -> bool:
        """A host failed by network. Gives whether that is to be taken for our own fault.

        Args:
            job: what was sent.
            known: the host's record says that it answered lately.
        """
        self._detector.unreachable(_origin(job.url), known=known)
        return self._detector.frozen

    async def step(self, on_over: Callable[[], None]) -> None:
        """Wait a second; tell what changed; during an outage, try good hosts now and then."""
        await asyncio.sleep(_EVERY_S)
        self._detector.beat()
        self._tell(on_over)
        if self.frozen and self._clock.boot_s() >= self._probe_at_s:
            await asyncio.gather(*(self._try(host) for host in self._detector.good_hosts(_TRIED_AT_A_TIME)))
            self._probe_at_s = self._clock.boot_s() + self._probe_s
            self._tell(on_over)

    async def _try(self, origin: str) -> None:
        try:
            await self._reach(f"{origin}/")
        except DeliveryError as error:
            _log.info("still unreachable", extra={"origin": origin, "error": str(error)[:200]})
        else:
            self._detector.answered(origin)

    def _tell(self, on_over: Callable[[], None]) -> None:
        if self.frozen is self._was_frozen:
            return
        self._was_frozen = self.frozen
        if self.frozen:
            self._probe_at_s = self._clock.boot_s() + self._probe_s
            _log.error(
                "this machine seems cut off: hosts that answered lately do not; nothing is sent until some answer again"
            )
        else:
            _log.warning("the network is back; delivery goes on")
            on_over()


def _origin(url: str) -> str:
    """Scheme and authority of a canonical URL, which has a path."""
    return url[: url.index("/", _SCHEME_END)]
