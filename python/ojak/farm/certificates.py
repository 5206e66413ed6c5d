# SPDX-License-Identifier: Apache-2.0
"""The farm's own certificate authority, and what its TLS hosts show."""

import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ojak.farm.errors import FarmError, PlanError
from ojak.farm.plan import Certificate, HostPlan

_MAX_NAMES = 200


class Certificates:
    """Made anew at each start: one certificate with a wildcard for all good hosts, since names share a parent.

    Raises:
        FarmError: the library that makes certificates is not installed.
        PlanError: the hosts' names have too many parents for one certificate.
    """

    def __init__(self, hosts: Iterable[HostPlan]) -> None:
        try:
            from trustme import CA  # noqa: PLC0415  # an extra: only who runs a farm has it
        except ImportError as error:
            raise FarmError("the farm needs the package trustme; install it with: pip install 'ojak[farm]'") from error
        self._authority = CA()
        kept = tuple(hosts)
        names = sorted({_covering(host.name) for host in kept})
        if len(names) > _MAX_NAMES:
            raise PlanError(f"hosts have {len(names)} different parent domains, but {_MAX_NAMES} are allowed")
        good = self._authority.issue_cert(*names)
        self.context = _context()
        good.configure_cert(self.context)
        self._by_name: dict[str, ssl.SSLContext] = {}
        past = datetime.now(UTC) - timedelta(days=2)
        for sort in {host.certificate for host in kept if host.tls} - {Certificate.GOOD}:
            context = _context()
            if sort is Certificate.EXPIRED:
                self._authority.issue_cert(*names, not_before=past - timedelta(days=1), not_after=past).configure_cert(
                    context
                )
            elif sort is Certificate.WRONG_NAME:
                self._authority.issue_cert("somebody.else.test").configure_cert(context)
            else:
                CA().issue_cert(*names).configure_cert(context)
            for host in kept:
                if host.certificate is sort:
                    self._by_name[host.name] = context
        if self._by_name:
            self.context.sni_callback = self._choose

    def write(self, path: Path) -> None:
        """Write the authority's certificate, for senders to trust."""
        self._authority.cert_pem.write_to_path(str(path))

    def _choose(self, conn: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        context = self._by_name.get(name or "")
        if context is not None:
            conn.context = context


def _covering(name: str) -> str:
    label, dot, parent = name.partition(".")
    return f"*.{parent}" if dot and label and "." in parent else name


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    return context
