# SPDX-License-Identifier: Apache-2.0
"""A supervisor whose workers deliver nothing but say all: what its tests watch and break.

Run as a program with one argument, a JSON object: `data` (the folder), `workers`, and `behaviour`:
`work`, `fail` (raises at boot), `one-fails` (worker 1 does), `exit` (ends at boot), `hang` (never drains),
`orphan` (leaves a process behind).
With `mongod` true it runs the embedded server by the real preflight. Events go to `<data>/events`, a JSON line each.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ojak.config import DelivererConfig
from ojak.errors import ConfigError, OjakError
from ojak.supervisor import master
from ojak.supervisor.frames import FrameKind, Link
from ojak.supervisor.plan import SupervisorPlan, WorkerPlan
from ojak.worker.board import FlightBoard


class StandIn:
    """An engine that begins three deliveries and never ends them."""

    def __init__(self, events: Path, board: FlightBoard, behaviour: str) -> None:
        self.events = events
        self.board = board
        self.behaviour = behaviour
        self.stopped = asyncio.Event()

    def tell(self, event: str, **fields: object) -> None:
        line = json.dumps({"event": event, "pid": os.getpid(), **fields}) + "\n"
        fd = os.open(self.events, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, line.encode())
        os.close(fd)

    async def run(self) -> None:
        stamp = os.getpid().to_bytes(16, "big")
        self.board.set_stamp(stamp)
        for number in range(3):
            self.board.begin(bytes([number]) * 16)
        self.board.clear(self.board.begin(b"stored-already!!"))
        self.board.mark_ready()
        self.tell("run", stamp=stamp.hex())
        await self.stopped.wait()

    async def stop(self) -> None:
        self.tell("stop")
        if self.behaviour == "hang":
            await asyncio.Event().wait()
        self.stopped.set()

    async def close(self) -> None:
        self.tell("close")

    async def bury(self, stamp: bytes, begun: list[bytes]) -> None:
        self.tell("bury", stamp=stamp.hex(), begun=sorted(job.hex() for job in begun))


def leave_an_orphan() -> None:
    """A grandchild whose parent dies first, and that then dies itself."""
    pid = os.fork()
    if pid == 0:
        read, write = os.pipe()
        if os.fork() == 0:
            # Until the parent is dead, and its end of the pipe with it.
            os.close(write)
            os.read(read, 1)
        os._exit(0)
    os.waitpid(pid, 0)


def plan_of(options: Mapping[str, Any]) -> SupervisorPlan:
    return SupervisorPlan(
        data_dir=options["data"],
        workers=options.get("workers", 2),
        worker=WorkerPlan(
            mongo_url="mongodb://nowhere.invalid",
            database="ojak",
            embedded=bool(options.get("mongod")),
            app=None,
            keys=None,
            allow_networks=(),
            resolver_map=None,
            extra_ca=None,
            proxy=None,
            user_agent=None,
            instance_url=None,
            siblings=options.get("workers", 2),
            log_level="info",
            log_format="json",
            config=DelivererConfig(drain_s=options.get("drain_s", 30.0)),
        ),
    )


def main(options: Mapping[str, Any]) -> int:
    behaviour = options.get("behaviour", "work")

    def preflight(argv: list[str], link: Link) -> int:
        if options.get("mongod"):
            from ojak.supervisor.preflight import run_preflight

            return run_preflight(argv, link)
        link.send(FrameKind.PLAN, plan_of(options).to_bytes())
        link.set_timeout(None)
        if link.receive() is None:
            return 1
        link.send(FrameKind.SET_UP, b"mongodb://nowhere.invalid")
        return 0

    def worker(index: int, plan: WorkerPlan, board: FlightBoard, link: Link) -> int:
        from ojak.supervisor.child import run_worker

        async def build(_plan: WorkerPlan, board: FlightBoard) -> StandIn:
            if behaviour == "fail" or (behaviour == "one-fails" and index == 1):
                raise OjakError("the stand-in was told to fail")
            if behaviour == "refuse":
                raise ConfigError("concurrency is 0; allowed is 1")
            if behaviour == "orphan":
                leave_an_orphan()
            if behaviour == "exit":
                sys.exit(0)
            return StandIn(Path(options["data"]) / "events", board, behaviour)

        return run_worker(index, plan, board, link, build=build)

    master.DRAIN_GRACE_S = options.get("grace_s", master.DRAIN_GRACE_S)  # type: ignore[misc]
    argv = ["--data", options["data"], "--workers", str(options.get("workers", 2))]
    return master.Master(argv=argv, preflight=preflight, worker=worker).run()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
