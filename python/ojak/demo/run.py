# SPDX-License-Identifier: Apache-2.0
"""The run of a demo: keys, farm, supervisor, everything sent, and the account."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from threading import Event
from typing import Final

from ojak.deliverer import Deliverer
from ojak.demo.cast import FULL_CAST, dead_labels, plan_of_cast
from ojak.demo.corpus import Piece, load_corpus
from ojak.demo.fanout import fanout, pool_of
from ojak.demo.progress import Progress
from ojak.demo.result import DemoResult, count_changed, lines_of
from ojak.errors import OjakError
from ojak.farm import Delivery, FarmHandle, running_farm
from ojak.model.inbox import canonical_inbox
from ojak.model.job import UNFINISHED
from ojak.model.outcome import SentState
from ojak.rig.account import make_account
from ojak.rig.queue_view import QueueView, queue_view
from ojak.rig.supervised import Supervised, running_supervisor
from ojak.signing import FolderSenderKeys
from ojak.store.counts import DeliveryRow

WORKERS: Final = 2
_QUARANTINE_S: Final = 15
_LOOK_S: Final = 0.4
_STALLED_S: Final = 90.0


class DemoStalled(OjakError):
    """Deliveries to living hosts stopped being settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """What to show.

    Attributes:
        hosts: how many hosts.
        keep: whether everything that is made stays.
    """

    hosts: int = FULL_CAST
    keep: bool = False


def run_demo(plan: DemoPlan, progress: Progress) -> DemoResult:
    """Run the demo; when this returns, or raises, nothing that it started runs any more.

    Raises:
        OjakError: something could not be started, or stopped working; in a sentence.
    """
    pieces = load_corpus()
    senders = sorted({piece.sender for piece in pieces})
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(keep=plan.keep))
        progress.say(f"making the keys of {len(senders)} senders, and starting {plan.hosts} hosts")
        keys = FolderSenderKeys(folder / "keys")
        keys.folder.mkdir(mode=0o700)
        making = stack.enter_context(_in_thread(keys.generate, senders))
        farm = stack.enter_context(
            running_farm(plan_of_cast(plan.hosts), folder=folder / "farm", keys_folders=[keys.folder])
        )
        progress.say(f"starting a MongoDB and {WORKERS} workers")
        supervised = stack.enter_context(
            running_supervisor(folder / "data", _flags(farm, keys.folder), log=folder / "supervisor.log")
        )
        making.result()
        result = asyncio.run(_deliver(plan, pieces, farm, supervised, keys=keys, progress=progress))
        progress.say("stopping the workers, which finish what is on the wire")
    return result


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    folder = Path(mkdtemp(prefix="ojak-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _in_thread(make: Callable[[str], object], senders: Sequence[str]) -> Iterator[Future[None]]:
    """Make something for each sender while other things start; when the block ends, no more of it is begun."""
    ended = Event()

    def make_all() -> None:
        for sender in senders:
            if ended.is_set():
                return
            make(sender)

    with ThreadPoolExecutor(max_workers=1) as executor:
        try:
            yield executor.submit(make_all)
        finally:
            ended.set()


def _flags(farm: FarmHandle, keys: Path) -> list[str]:
    return [
        *("--workers", str(WORKERS)),
        *("--keys", str(keys)),
        *("--allow-networks", "127.0.0.0/8"),
        *("--resolver-map", str(farm.resolver_path)),
        *("--extra-ca", str(farm.ca_path)),
        # An hour, as it is by itself, would keep the hosts that restart from everybody who watches.
        *("--breaker-first-s", str(_QUARANTINE_S)),
        *("--log-format", "text"),
    ]


async def _deliver(
    plan: DemoPlan,
    pieces: Sequence[Piece],
    farm: FarmHandle,
    supervised: Supervised,
    *,
    keys: FolderSenderKeys,
    progress: Progress,
) -> DemoResult:
    began_s = time.monotonic()
    async with Deliverer(supervised.data_dir, keys=keys) as deliverer, queue_view(supervised.data_dir) as queue:
        expected = await _send(deliverer, pieces, farm, progress)
        rows = await _settled(expected, farm, supervised, queue, progress)
        seconds, now = time.monotonic() - began_s, datetime.now(UTC)
        held, obituaries = await queue.held(), await queue.obituaries()
    # The ledger is read after the queue, so that whatever the queue calls delivered must be in it.
    arrivals = farm.ledger().arrivals
    account = make_account(arrivals, rows, expected, obituaries=obituaries)
    return DemoResult(
        activities=len(pieces),
        hosts=plan.hosts,
        workers=WORKERS,
        deliveries=len(expected),
        seconds=seconds,
        lines=lines_of(rows, now, held=held),
        changed=count_changed(arrivals, {piece.identity: piece.body_sha256 for piece in pieces}),
        verdict=account.verdict,
        folder=supervised.data_dir.parent if plan.keep else None,
    )


async def _send(deliverer: Deliverer, pieces: Sequence[Piece], farm: FarmHandle, progress: Progress) -> list[Delivery]:
    """Hand everything over; gives what was."""
    pool = pool_of(farm.hosts)
    handed_over: list[Delivery] = []
    for number, piece in enumerate(pieces):
        progress.show(number, len(pieces), "activities handed over")
        sent = await deliverer.send(piece.body, piece.sender, fanout(pool, number))
        for given, inbox in sent.inboxes.items():
            if inbox.state is not SentState.NEW:
                raise OjakError(f"activity {piece.name} to {given} is {inbox.state}, though nothing was sent before")
            handed_over.append(Delivery(activity=piece.identity, inbox=inbox.url))
    progress.show(len(pieces), len(pieces), "activities handed over")
    return handed_over


async def _settled(
    expected: Sequence[Delivery],
    farm: FarmHandle,
    supervised: Supervised,
    queue: QueueView,
    progress: Progress,
) -> list[DeliveryRow]:
    """Wait until every delivery to a host that answers has ended; gives the queue as it is then."""
    dead = {canonical_inbox(host.inbox()).authority for host in farm.hosts if host.label in dead_labels()}
    awaited = sum(1 for delivery in expected if canonical_inbox(delivery.inbox).authority not in dead)
    last, stalled_at_s = -1, 0.0
    while True:
        supervised.check()
        rows = await queue.rows()
        done = sum(1 for row in rows if row.lane not in dead and row.state not in UNFINISHED)
        progress.show(done, awaited, "deliveries to living hosts settled")
        if done >= awaited:
            return rows
        if done > last:
            last, stalled_at_s = done, time.monotonic() + _STALLED_S
        elif time.monotonic() > stalled_at_s:
            raise DemoStalled(
                f"{awaited - done} of {awaited} deliveries to living hosts are not settled, and none was for"
                f" {_STALLED_S:g} s; run it with --keep and read supervisor.log"
            )
        await asyncio.sleep(_LOOK_S)
