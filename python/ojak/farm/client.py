# SPDX-License-Identifier: Apache-2.0
"""Speaks to a running farm: `FarmClient` from ordinary code, `AsyncFarmClient` from an event loop."""

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ojak.farm import order
from ojak.farm.behaviour import Behaviour, Respond
from ojak.farm.errors import FarmGone
from ojak.farm.order import EVERY, Order
from ojak.farm.plan import Phase
from ojak.farm.report import Counted, FarmReport, HostReport

T = TypeVar("T")

MAX_ANSWER_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20


class FarmClient:
    """Speaks to the farm behind a control socket; a connection an order.

    Every method raises `FarmGone` when the farm does not answer, and `FarmError` with the farm's own words when it
    cannot do what it was asked. `which` is a host's name, a label, or `EVERY`.
    """

    def __init__(self, control: Path) -> None:
        self.control = control

    def report(self) -> FarmReport:
        """All counters, and the farm's CPU time."""
        return self._carry_out(order.report())

    def hosts(self, which: str = EVERY) -> tuple[HostReport, ...]:
        """Counters by host."""
        return self._carry_out(order.hosts(which))

    def flush(self) -> int:
        """Have everything up to now in the ledger's file; answers the number of the last arrival."""
        return self._carry_out(order.flush())

    def behave(self, which: str, *script: Phase | Behaviour, cycle: bool = False) -> int:
        """Give hosts another script, beginning now; answers how many."""
        return self._carry_out(order.behave(which, script, cycle=cycle))

    def heal(self, which: str = EVERY) -> int:
        """Let hosts accept everything from now on."""
        return self.behave(which, Respond())

    def wait(
        self,
        counted: Counted,
        which: str = EVERY,
        *,
        at_least: int | None = None,
        at_most: int | None = None,
        timeout_s: float = 10.0,
    ) -> bool:
        """Wait until a counter, over those hosts, is within bounds; False when it is not in time."""
        return self._carry_out(order.wait(counted, which, at_least=at_least, at_most=at_most, timeout_s=timeout_s))

    def add_keys(self, keys: Mapping[str, str]) -> None:
        """Make senders known: public keys (PEM, SPKI) by key id."""
        self._carry_out(order.add_keys(keys))

    def forget_keys(self) -> None:
        """Have keys read anew from their folders, after they changed there."""
        self._carry_out(order.forget_keys())

    def stop(self) -> None:
        """Have the farm stop; it may be gone already."""
        with suppress(FarmGone):
            self._carry_out(order.stop())

    def _carry_out(self, given: Order[T]) -> T:
        answer = b""
        try:
            with _reachable(self.control) as name, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(given.patience_s)
                sock.connect(name)
                sock.sendall(given.line)
                answer = _read_line(sock)
        except OSError as error:
            raise FarmGone(f"the farm at {self.control} does not answer: {error.strerror or error}") from error
        return given.answer(answer)


class AsyncFarmClient:
    """The same, in an event loop."""

    def __init__(self, control: Path) -> None:
        self.control = control

    async def report(self) -> FarmReport:
        """All counters, and the farm's CPU time."""
        return await self._carry_out(order.report())

    async def hosts(self, which: str = EVERY) -> tuple[HostReport, ...]:
        """Counters by host."""
        return await self._carry_out(order.hosts(which))

    async def flush(self) -> int:
        """Have everything up to now in the ledger's file; answers the number of the last arrival."""
        return await self._carry_out(order.flush())

    async def behave(self, which: str, *script: Phase | Behaviour, cycle: bool = False) -> int:
        """Give hosts another script, beginning now; answers how many."""
        return await self._carry_out(order.behave(which, script, cycle=cycle))

    async def heal(self, which: str = EVERY) -> int:
        """Let hosts accept everything from now on."""
        return await self.behave(which, Respond())

    async def wait(
        self,
        counted: Counted,
        which: str = EVERY,
        *,
        at_least: int | None = None,
        at_most: int | None = None,
        timeout_s: float = 10.0,
    ) -> bool:
        """Wait until a counter, over those hosts, is within bounds; False when it is not in time."""
        return await self._carry_out(
            order.wait(counted, which, at_least=at_least, at_most=at_most, timeout_s=timeout_s)
        )

    async def add_keys(self, keys: Mapping[str, str]) -> None:
        """Make senders known: public keys (PEM, SPKI) by key id."""
        await self._carry_out(order.add_keys(keys))

    async def forget_keys(self) -> None:
        """Have keys read anew from their folders, after they changed there."""
        await self._carry_out(order.forget_keys())

    async def stop(self) -> None:
        """Have the farm stop; it may be gone already."""
        with suppress(FarmGone):
            await self._carry_out(order.stop())

    async def _carry_out(self, given: Order[T]) -> T:
        try:
            with _reachable(self.control) as name:
                reader, writer = await asyncio.open_unix_connection(name, limit=MAX_ANSWER_BYTES)
        except OSError as error:
            raise FarmGone(f"the farm at {self.control} does not answer: {error.strerror or error}") from error
        try:
            async with asyncio.timeout(given.patience_s):
                writer.write(given.line)
                await writer.drain()
                answer = await reader.readline()
        except (OSError, ValueError) as error:  # a TimeoutError is an OSError
            raise FarmGone(f"the farm at {self.control} does not answer: {error}") from error
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        return given.answer(answer)


@contextmanager
def _reachable(control: Path) -> Iterator[str]:
    # a socket's name holds 107 bytes and a test's folder may be longer, so it is named by its folder's descriptor
    folder = os.open(control.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{control.name}"
    finally:
        os.close(folder)


def _read_line(sock: socket.socket) -> bytes:
    chunks: list[bytes] = []
    size_bytes = 0
    while size_bytes < MAX_ANSWER_BYTES:
        chunk = sock.recv(_CHUNK_BYTES)
        chunks.append(chunk)
        size_bytes += len(chunk)
        if not chunk or chunk.endswith(b"\n"):
            break
    return b"".join(chunks)
