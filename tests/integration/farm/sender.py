# SPDX-License-Identifier: Apache-2.0
"""A sender made of a plain socket, so that the farm is seen as it is and not through a client library."""

import http.client
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

from ojak.farm import FarmHost
from ojak.signing import BodyDigest, Scheme, sign
from ojak.signing.folder import FolderSenderKeys

NOTE = b'{"id":"https://sender.example/notes/1","type":"Create"}'
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Sender:
    """Signs and sends, one connection a request."""

    def __init__(self, folder: Path, name: str = "https://sender.example/users/a") -> None:
        self.keys = FolderSenderKeys(folder)
        self.name = name
        self.ring = self.keys.generate(name)

    def request(
        self,
        host: FarmHost,
        *,
        path: str = "/inbox",
        body: bytes = NOTE,
        scheme: Scheme | None = Scheme.CAVAGE,
        content_type: str = "application/activity+json",
        ed25519: bool = False,
    ) -> bytes:
        """The bytes of a signed POST; without a scheme, of an unsigned one."""
        key = self.ring.ed25519 if ed25519 else self.ring.rsa
        assert key is not None
        authority = host.origin.partition("://")[2]
        fields = [("Host", authority)]
        if scheme is not None:
            fields = sign(key.key, key.key_id, scheme, "POST", host.inbox(path), BodyDigest(body), int(time.time()))
        fields += [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body

    def post(self, host: FarmHost, *, ca: Path | None = None, **how: object) -> Answer:
        """Send one request and read its answer. Raises what the socket raises."""
        with connection(host, ca=ca) as sock:
            sock.sendall(self.request(host, **how))  # type: ignore[arg-type]
            return answer(sock)


def port_of(host: FarmHost) -> int:
    return int(host.origin.rpartition(":")[2])


def connection(host: FarmHost, *, ca: Path | None = None, patience_s: float = PATIENCE_S) -> socket.socket:
    """A connection to a host's own address."""
    sock = socket.create_connection((host.address, port_of(host)), timeout=patience_s)
    if host.origin.startswith("https:"):
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        try:
            return context.wrap_socket(sock, server_hostname=host.name)
        except BaseException:
            sock.close()
            raise
    return sock


def answer(sock: socket.socket) -> Answer:
    """Read one answer."""
    response = http.client.HTTPResponse(sock, method="POST")
    try:
        response.begin()
        body = response.read()
        return Answer(status=response.status, headers={k.lower(): v for k, v in response.getheaders()}, body=body)
    finally:
        response.close()
