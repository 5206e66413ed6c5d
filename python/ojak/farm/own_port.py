# SPDX-License-Identifier: Apache-2.0
"""A listener for one host only, that can refuse connections or swallow them.

A port that is bound but does not listen refuses. One that listens with a full queue swallows: the kernel drops the SYN,
and the sender's connect never ends. Both on the host's own address, so that its port can be the same for all of them.
"""

import asyncio
import errno
import socket
from collections.abc import Coroutine
from contextlib import suppress
from ssl import SSLContext
from typing import Any

from ojak.farm.behaviour import Reach
from ojak.farm.connection import Connection
from ojak.farm.floor import Floor
from ojak.farm.host import Host

_BACKLOG = 1024
_ACCEPTS_A_STEP = 64
_HANDSHAKE_S = 30.0


class OwnPort:
    """Listens, refuses or swallows, as the host's script says now."""

    def __init__(self, *, host: Host, sock: socket.socket, floor: Floor, tls: SSLContext | None) -> None:
        self.host = host
        self._sock = sock
        self._floor = floor
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._reach: Reach = Reach.REFUSES
        self._fillers: list[socket.socket] = []
        self._timer: asyncio.TimerHandle | None = None
        self._made: set[Connection] = set()
        self._handshakes: set[asyncio.Task[None]] = set()

    def script_moved(self) -> None:
        """Do what the script says now, and look again when its phase ends by time."""
        wanted = self.host.reach
        if wanted is not self._reach:
            self._leave()
            self._reach = wanted
            if wanted is Reach.LISTENS:
                self._sock.listen(_BACKLOG)
                self._loop.add_reader(self._sock.fileno(), self._accept)
            elif wanted is Reach.SWALLOWS:
                self._swallow()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ends_in_s = self.host.phase_ends_in_s
        if ends_in_s is not None:
            self._timer = self._loop.call_later(ends_in_s + 0.001, self.script_moved)

    def close(self) -> None:
        """Let go of the port."""
        if self._timer is not None:
            self._timer.cancel()
        self._leave()
        self._sock.close()

    def _leave(self) -> None:
        if self._reach is Reach.REFUSES:
            return
        if self._reach is Reach.LISTENS:
            self._loop.remove_reader(self._sock.fileno())
        self._reach = Reach.REFUSES
        # on Linux this ends listening and keeps the port, since it was bound by number
        self._sock.shutdown(socket.SHUT_RDWR)
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()
        for handshake in self._handshakes:
            handshake.cancel()
        for connection in self._made & self._floor.connections:
            connection.reset()
        self._made.clear()

    def _swallow(self) -> None:
        self._sock.listen(0)
        # a queue for none holds one; a second connect must already hang
        for _ in range(2):
            filler = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            filler.setblocking(False)
            self._fillers.append(filler)
            outcome = filler.connect_ex(self._sock.getsockname())
            if outcome not in (0, errno.EINPROGRESS):
                raise OSError(outcome, "the accept queue could not be filled")

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_STEP):
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            sock.setblocking(False)
            task = self._loop.create_task(self._serve(sock))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _serve(self, sock: socket.socket) -> None:
        connection = Connection(self._floor, self._loop, tls=self._tls is not None, owner=self)
        serving: Coroutine[Any, Any, Any] = self._loop.connect_accepted_socket(
            lambda: connection,
            sock,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_S,
        )
        self._made &= self._floor.connections
        self._made.add(connection)
        with suppress(OSError):  # a handshake that the sender broke off
            await serving


def bind_own_ports(addresses: list[str], tries: int = 20) -> tuple[int, list[socket.socket]]:
    """Bind one port number at each address.

    Returns:
        The port, and a socket an address, none of them listening.

    Raises:
        OSError: no number was free at all of them.
    """
    for attempt in range(tries):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        socks: list[socket.socket] = []
        try:
            for address in addresses:
                sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                socks.append(sock)
                sock.setblocking(False)
                sock.bind((address, port))
        except OSError as error:
            for sock in socks:
                sock.close()
            if error.errno != errno.EADDRINUSE or attempt == tries - 1:
                raise
        else:
            return port, socks
    raise AssertionError
