# SPDX-License-Identifier: Apache-2.0
"""Whatever is a canonical inbox can be signed, posted to, and is the same to all who read it."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ojak.http.door import Door
from ojak.http.request_head import request_head
from ojak.model.inbox import InvalidInbox, canonical_inbox
from ojak.signing import BodyDigest, PrivateKey, Scheme, sign, verify

LOOP = asyncio.new_event_loop()
LOOP.close()
KEY = PrivateKey.generate_ed25519()
PUBLIC = KEY.public_key()
BODY = b"{}"
DIGEST = BodyDigest(BODY)

HOSTS = st.sampled_from(
    [
        "h.test",
        "H.test.",
        "under_score.test",
        "-x-.test",
        "xn--0.test",
        "münchen.test",
        "localhost",
        "3com.3com",
        "a--b.c",
    ]
) | st.sampled_from(["127.0.0.1", "[::1]", "[2001:DB8::1]", "[::ffff:1.2.3.4]"])
PORTS = st.sampled_from(["", ":", ":80", ":443", ":8443", ":1", ":65535"])
TARGETS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"), max_size=30)


@given(st.sampled_from(["http", "https", "HTTPS"]), HOSTS, PORTS, st.sampled_from(["/", "?", "//", ""]), TARGETS)
def test_signed_sent_and_verified_alike(scheme: str, host: str, port: str, start: str, rest: str) -> None:
    try:
        inbox = canonical_inbox(f"{scheme}://{host}{port}{start}{rest if start else ''}")
    except InvalidInbox:
        assert start.startswith("\\")
        return
    assert inbox.url == f"{inbox.scheme}://{inbox.authority}{inbox.target}"
    door = Door(f"{inbox.scheme}://{inbox.authority}", proxy=None, loop=LOOP)
    key = door.connection_key
    assert (door.authority, key.port, key.is_ssl) == (inbox.authority, inbox.port, inbox.scheme == "https")
    head = request_head(inbox.target, door.authority, [], len(BODY))
    assert head.startswith(f"POST {inbox.target} HTTP/1.1\r\nHost: {inbox.authority}\r\n".encode())
    for each in Scheme:
        headers = sign(KEY, "https://a.test/#k", each, "POST", inbox.url, DIGEST, 1_750_000_000)
        assert dict(headers)["Host"] == inbox.authority
        verified = verify("POST", inbox.url, headers, BODY, lambda _: PUBLIC, now_s=1_750_000_000)
        assert verified.scheme == each
