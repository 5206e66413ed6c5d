# SPDX-License-Identifier: Apache-2.0
"""The bench of deliveries: fifty hosts on kept connections, and what each process spends on a delivery."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson

from ojak.bench.floors import post_us, signature_us
from ojak.deliverer import Deliverer
from ojak.farm import FarmHandle, plan_of_words, running_farm
from ojak.farm.audit import Delivery
from ojak.http.resolver_map import load_resolver_map
from ojak.rig.account import Account, make_account
from ojak.rig.queue_view import queue_view
from ojak.rig.supervised import FleetCpu, Supervised, running_supervisor
from ojak.signing import FolderSenderKeys, PrivateKey

SENDER: Final = "https://bench.test/users/sender"
_STALLED_S: Final = 60.0
_LOOK_S: Final = 0.1
_WARM_ROUNDS: Final = 4
_SENDS_AT_A_TIME: Final = 8


class BenchStalled(OSError):
    """Nothing arrived for a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """What to measure.

    Attributes:
        deliveries: how many, rounded up to whole fan-outs.
        hosts: to how many hosts.
        workers: with how many workers.
        body_bytes: how long each activity is.
        keep: a folder for everything that is made, which stays; None: a temporary one.
    """

    deliveries: int = 5000
    hosts: int = 50
    workers: int = 2
    body_bytes: int = 2048
    keep: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """What was measured.

    Attributes:
        deliveries: how many were counted.
        seconds: from the first `send` until the last was accepted.
        cpu: CPU time of the supervisor's processes for them.
        farm_s, sender_s: CPU time of the farm and of the process that queued.
        signature_us, post_us: the floors.
        account: the ledger against the queue, the warm-up included.
    """

    deliveries: int
    seconds: float
    cpu: FleetCpu
    farm_s: float
    sender_s: float
    signature_us: float
    post_us: float
    account: Account

    @property
    def overhead(self) -> float:
        """The workers' CPU beyond the bare signature, in units of a bare POST."""
        return (self._each_us(self.cpu.workers) - self.signature_us) / self.post_us

    def _each_us(self, seconds: float) -> float:
        return seconds / self.deliveries * 1e6

    def as_json(self) -> dict[str, Any]:
        """The result as `ojak bench --json` prints it."""
        verdict = self.account.verdict
        return {
            "deliveries": self.deliveries,
            "seconds": round(self.seconds, 3),
            "rate_per_s": round(self.deliveries / self.seconds, 1),
            "cpu_us_per_delivery": {
                "workers": round(self._each_us(self.cpu.workers), 1),
                "mongod": round(self._each_us(self.cpu.mongod), 1),
                "farm": round(self._each_us(self.farm_s), 1),
                "supervisor": round(self._each_us(self.cpu.supervisor), 1),
                "sender": round(self._each_us(self.sender_s), 1),
            },
            "floor_us": {"rsa2048_sign": round(self.signature_us, 1), "aiohttp_post": round(self.post_us, 1)},
            "overhead": round(self.overhead, 2),
            "ledger": {
                "lost": verdict.lost,
                "double": verdict.double,
                "allowed": self.account.allowed,
                "unverified": verdict.unverified,
                "over_limit": verdict.over_limit,
            },
        }


def run_bench(plan: BenchPlan, *, say: Callable[[str], None], progress: Callable[[int, int], None]) -> BenchResult:
    """Run the bench.

    Args:
        plan: what to measure.
        say: told what is being done.
        progress: told how many of how many deliveries have arrived.

    Raises:
        OjakError: something could not be started; in one sentence.
        BenchStalled: deliveries stopped arriving.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(plan.keep))
        keys = folder / "keys"
        signing = FolderSenderKeys(keys).generate(SENDER)
        say(f"starting a farm of {plan.hosts} hosts")
        farm = stack.enter_context(
            running_farm(
                plan_of_words(2 * plan.hosts, {"accept": plan.hosts, "unsigned": plan.hosts}.items()),
                folder=folder / "farm",
                keys_folders=[keys],
            )
        )
        say("measuring the floors")
        floors = [_floors(plan, farm, signing.rsa.key)]
        say(f"starting a supervisor with {plan.workers} workers")
        supervised = stack.enter_context(
            running_supervisor(folder / "data", _flags(plan, farm, keys), log=folder / "supervisor.log")
        )
        say("workers: " + " ".join(str(pid) for pid in supervised.worker_pids()))
        measured = asyncio.run(_measure(plan, farm, supervised, progress))
        say("measuring the floors again")
        floors.append(_floors(plan, farm, signing.rsa.key))
        return BenchResult(
            **measured,
            # What these machines do in between is seen by neither alone.
            signature_us=sum(signature for signature, _ in floors) / len(floors),
            post_us=sum(post for _, post in floors) / len(floors),
        )


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
    else:
        with TemporaryDirectory(prefix="ojak-bench-") as name:
            yield Path(name)


def _flags(plan: BenchPlan, farm: FarmHandle, keys: Path) -> list[str]:
    return [
        *("--workers", str(plan.workers)),
        *("--keys", str(keys)),
        *("--allow-networks", "127.0.0.0/8"),
        *("--resolver-map", str(farm.resolver_path)),
        *("--extra-ca", str(farm.ca_path)),
        *("--log-level", "warning"),
        *("--log-format", "text"),
    ]


def _floors(plan: BenchPlan, farm: FarmHandle, key: PrivateKey) -> tuple[float, float]:
    body = _activity(0, plan.body_bytes)
    known = load_resolver_map(farm.resolver_path)
    post = asyncio.run(post_us(farm.inboxes("unsigned"), known, body))
    return signature_us(key), post


def _activity(number: int, length: int) -> bytes:
    activity = {
        "@context": "https://www.w3.org/ns/activitystreams",
        "id": f"https://bench.test/activities/{number}",
        "type": "Create",
        "actor": SENDER,
        "object": {"type": "Note", "id": f"https://bench.test/notes/{number}", "content": ""},
    }
    missing = length - len(orjson.dumps(activity))
    activity["object"]["content"] = "o" * max(0, missing)  # type: ignore[index]
    return orjson.dumps(activity)


async def _measure(
    plan: BenchPlan, farm: FarmHandle, supervised: Supervised, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    inboxes = farm.inboxes("accept")
    rounds = -(-plan.deliveries // plan.hosts)
    async with Deliverer(supervised.data_dir) as deliverer, queue_view(supervised.data_dir) as queue:

        async def send(numbers: range) -> None:
            # Several at a time, as an application has several requests: the queue is to be full, not to be waited for.
            turn = iter(numbers)

            async def send_some() -> None:
                for number in turn:
                    await deliverer.send(_activity(number, plan.body_bytes), SENDER, inboxes)

            await asyncio.gather(*(send_some() for _ in range(_SENDS_AT_A_TIME)))

        # Connections, hosts and keys are known before anything counts.
        await send(range(_WARM_ROUNDS))
        warm = _WARM_ROUNDS * plan.hosts
        await _arrived(farm, supervised, warm, lambda _: None)
        await _settled(queue, warm)
        cpu, farm_s = supervised.cpu(), farm.report().cpu_s
        sender_s, began_s = time.process_time(), time.perf_counter()
        counted = rounds * plan.hosts
        await send(range(_WARM_ROUNDS, _WARM_ROUNDS + rounds))
        sender_s = time.process_time() - sender_s
        await _arrived(farm, supervised, warm + counted, lambda arrived: progress(arrived - warm, counted))
        seconds = time.perf_counter() - began_s
        # The last outcomes belong to the cost, and so does what a worker does while it waits for them.
        await _settled(queue, warm + counted)
        spent, farm_spent_s = supervised.cpu().since(cpu), farm.report().cpu_s - farm_s
        rows, obituaries = await queue.rows(), await queue.obituaries()
    expected = [
        Delivery(activity=f"https://bench.test/activities/{number}", inbox=inbox)
        for number in range(_WARM_ROUNDS + rounds)
        for inbox in inboxes
    ]
    arrivals = [arrival for arrival in farm.ledger().arrivals if arrival.activity.startswith("https://bench.test/")]
    return {
        "deliveries": counted,
        "seconds": seconds,
        "cpu": spent,
        "farm_s": farm_spent_s,
        "sender_s": sender_s,
        "account": make_account(
            [arrival for arrival in arrivals if arrival.inbox in set(inboxes)], rows, expected, obituaries=obituaries
        ),
    }


async def _arrived(farm: FarmHandle, supervised: Supervised, count: int, progress: Callable[[int], None]) -> None:
    """Wait until the farm has accepted so many more than the floors sent, and tell how far it is."""
    stalled_at_s, last = time.monotonic() + _STALLED_S, -1
    while (arrived := await _accepted(farm)) < count:
        supervised.check()
        if arrived != last:
            stalled_at_s, last = time.monotonic() + _STALLED_S, arrived
            progress(arrived)
        elif time.monotonic() > stalled_at_s:
            raise BenchStalled(f"only {arrived} of {count} deliveries arrived, and none for {_STALLED_S:g} s")
        await asyncio.sleep(_LOOK_S)
    progress(arrived)


async def _accepted(farm: FarmHandle) -> int:
    hosts = await farm.async_client.hosts("accept")
    return sum(host.accepted for host in hosts)


async def _settled(queue: Any, count: int) -> None:
    deadline_s = time.monotonic() + _STALLED_S
    while (await queue.counts()).get("delivered", 0) < count:
        if time.monotonic() > deadline_s:
            raise BenchStalled(f"only {await queue.counts()} of {count} deliveries were settled")
        await asyncio.sleep(_LOOK_S)
