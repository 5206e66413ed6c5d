# SPDX-License-Identifier: Apache-2.0
"""Answers at random: each is an answer or an error that says why, and nothing else."""

import random

from tests.conformance.transport.conftest import MakeTransport
from tests.conformance.transport.raw_inbox import Peer, raw_inbox

from ojak.http.transport import PostAnswer, PostError, PostRequest

SEEDS = [
    b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow\r\nRetry-After: 120\r\nConnection: close\r\n\r\n",
    b"HTTP/1.0 301 Moved\r\nLocation: https://elsewhere.test/\r\nAccept-Signature: sig1=()\r\n\r\nbody",
]
PIECES = [
    b"\r",
    b"\n",
    b"\r\n\r\n",
    b"\0",
    b":",
    b" ",
    b"\xff",
    b"HTTP/1.1 200 OK\r\n",
    b"Content-Length: -1\r\n",
    b"9",
]


def mutated(source: random.Random) -> bytes:
    answer = bytearray(source.choice(SEEDS))
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(answer) + 1)
        kind = source.randrange(4)
        if kind == 0:
            answer[at:at] = source.choice(PIECES)
        elif kind == 1:
            del answer[at : at + source.randint(1, 9)]
        elif kind == 2 and at < len(answer):
            answer[at] = source.randrange(256)
        else:
            del answer[at:]
    return bytes(answer)


async def test_mutated_answers(make_transport: MakeTransport) -> None:
    source = random.Random(20261130)
    sent: list[bytes] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        sent.append(mutated(source))
        await peer.send(sent[-1])
        await peer.end(reset=source.random() < 0.2)

    outcomes = set()
    transport = make_transport()
    async with raw_inbox(script) as inbox:
        for _ in range(400):
            try:
                answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
            except PostError as error:
                outcomes.add(f"{error.reason} {error.maybe_delivered}")
            else:
                assert isinstance(answer, PostAnswer)
                assert 200 <= answer.status <= 999, sent[-1]
                outcomes.add("answered")
        assert len(inbox.received) == len(sent) == 400
    assert outcomes == {"answered", "bad-answer True", "closed-before-answer True", "reset True"}
