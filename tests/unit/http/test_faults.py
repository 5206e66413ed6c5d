# SPDX-License-Identifier: Apache-2.0
import errno
import os
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from ojak.http.faults import explain
from ojak.http.flight import Flight
from ojak.http.transport import ConnectError, FaultReason, LocalError, TlsError

KEY = ConnectionKey("h.test", 443, True, True, None, None, None)


def dialling(*, ipv6: bool = False) -> Flight:
    flight = Flight("h.test", 0.0, 30.0, 5.0)
    flight.dialling(1.0)
    flight.dialled, flight.ipv6 = True, ipv6
    return flight


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ECONNREFUSED, FaultReason.CONNECT_REFUSED),
        (errno.ETIMEDOUT, FaultReason.CONNECT_TIMEOUT),
        (errno.EHOSTUNREACH, FaultReason.UNREACHABLE),
        (errno.ENETUNREACH, FaultReason.UNREACHABLE),
        (errno.ECONNRESET, FaultReason.UNREACHABLE),
        (errno.EAFNOSUPPORT, FaultReason.UNREACHABLE),
        (errno.EMFILE, FaultReason.LOCAL),
        (errno.ENFILE, FaultReason.LOCAL),
        (errno.ENOBUFS, FaultReason.LOCAL),
        (errno.EADDRNOTAVAIL, FaultReason.LOCAL),
        (errno.EPERM, FaultReason.LOCAL),
    ],
)
def test_what_the_socket_says(number: int, reason: FaultReason) -> None:
    error = explain(aiohttp.ClientConnectorError(KEY, OSError(number, os.strerror(number))), dialling(), 2.0)
    assert isinstance(error, LocalError if reason is FaultReason.LOCAL else ConnectError)
    assert (error.reason, error.maybe_delivered) == (reason, False)
    assert str(error).startswith("h.test: ")
    assert error.phases.dns_ms == 1000
    assert error.phases.connect_ms == 1000


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EPERM])
def test_a_machine_without_ipv6_does_not_wait_for_ever(number: int) -> None:
    cause = aiohttp.ClientConnectorError(KEY, OSError(number, os.strerror(number)))
    assert explain(cause, dialling(ipv6=True), 2.0).reason is FaultReason.UNREACHABLE


def test_what_a_certificate_says_can_be_shown() -> None:
    cause = ssl.SSLCertVerificationError(1, "Hostname mismatch, not valid for 'evil\r\n\x1b[31m" + "x" * 500)
    error = explain(aiohttp.ClientConnectorCertificateError(KEY, cause), dialling(), 2.0)
    assert isinstance(error, TlsError)
    assert error.reason is FaultReason.TLS
    assert str(error).isprintable()
    assert str(error).isascii()
    assert len(str(error)) < 300
