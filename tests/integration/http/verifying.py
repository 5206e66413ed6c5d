# SPDX-License-Identifier: Apache-2.0
"""An inbox that verifies signatures and takes only some schemes."""

import time
from dataclasses import dataclass, field

from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, Received

from ojak.signing import PrivateKey, Scheme, SigningKey, Verified, verify

KEY_ID = "https://sender.test/users/alice#main-key"


@dataclass
class Verifying:
    """What an inbox verified, by a script for `raw_inbox`."""

    key: SigningKey
    takes: tuple[Scheme, ...] = (Scheme.CAVAGE, Scheme.RFC9421)
    refusal: bytes = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    acceptance: bytes = ACCEPTED
    now_s: int | None = None
    verified: list[Verified] = field(default_factory=list)

    def check(self, received: Received, now_s: int) -> Verified:
        host = received.field("host")
        return verify(
            "POST",
            f"http://{host}{received.target}",
            received.fields,
            received.body,
            {self.key.key_id: self.key.key.public_key()}.get,
            now_s=now_s,
        )

    async def __call__(self, peer: Peer) -> None:
        while True:
            received = await peer.request()
            verified = self.check(received, self.now_s if self.now_s is not None else int(time.time()))
            self.verified.append(verified)
            await peer.send(self.acceptance if verified.scheme in self.takes else self.refusal)


def signing_key() -> SigningKey:
    return SigningKey(key_id=KEY_ID, key=PrivateKey.generate_rsa())
