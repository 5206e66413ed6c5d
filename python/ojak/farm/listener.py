# SPDX-License-Identifier: Apache-2.0
"""The sockets that many hosts share."""

import errno
import resource
import socket
from contextlib import suppress

from ojak.farm.errors import FarmError, PortTaken

_DESCRIPTORS_KEPT = 256


def shared_listener(port: int, purpose: str) -> socket.socket:
    """A socket for all of 127.0.0.0/8 at `port`; 0: the system chooses.

    Every address is bound, since a thousand listeners for a thousand hosts would cost more than one; the kernel is
    asked to let in only what comes over the loopback device, and each connection's own address is looked at besides.

    Raises:
        PortTaken: another program has the port.
        FarmError: it may not be bound.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # a kernel before 5.7 wants privileges for this
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
        sock.bind(("0.0.0.0", port))  # noqa: S104  # see above
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(purpose=purpose, port=port) from error
        raise FarmError(f"{purpose} port {port} cannot be bound: {error.strerror}") from error
    return sock


def raise_descriptor_limit() -> int:
    """Allow as many descriptors as the system lets us; how many connections fit into them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    return max(64, soft - _DESCRIPTORS_KEPT)
