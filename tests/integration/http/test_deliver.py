# SPDX-License-Identifier: Apache-2.0
"""`deliver` without a queue."""

from ipaddress import ip_network

import pytest
from tests.conformance.transport.raw_inbox import ACCEPTED, always, raw_inbox
from tests.integration.http.verifying import Verifying

from ojak.errors import DeliveryError, InputError
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.deliver import InboxRefused, deliver, deliver_with_headers
from ojak.http.transport import AddressError
from ojak.model.inbox import Inbox, InvalidInbox
from ojak.signing import Scheme, SigningKey

BODY = b'{"type":"Create"}'
LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.mark.parametrize("accepted", list(Scheme))
@pytest.mark.parametrize("first", list(Scheme))
async def test_the_accepted_scheme_is_returned(key: SigningKey, first: Scheme, accepted: Scheme) -> None:
    async with raw_inbox(Verifying(key, (accepted,))) as inbox:
        assert await deliver(BODY, inbox.url(), key, first=first, allow=LOOPBACK) is accepted
        assert len(inbox.received) == 1 + (first is not accepted)
        assert inbox.received[-1].body == BODY


async def test_a_transport_can_be_shared(transport: AiohttpTransport, key: SigningKey) -> None:
    async with raw_inbox(Verifying(key)) as inbox:
        for _ in range(3):
            await deliver(BODY, Inbox(inbox.url(), shared=True), key, transport=transport)
        assert inbox.connections == 1


async def test_a_refusal(transport: AiohttpTransport, key: SigningKey) -> None:
    answer = b"HTTP/1.1 302 Moved\r\nLocation: /x\r\nRetry-After: 5\r\nContent-Length: 500\r\n\r\n" + b"y" * 500
    async with raw_inbox(always(answer)) as inbox:
        with pytest.raises(InboxRefused, match="answered 302 to a request signed by cavage") as caught:
            await deliver(BODY, inbox.url(), key, transport=transport)
    refused = caught.value
    assert isinstance(refused, DeliveryError)
    assert (refused.status, refused.location, refused.retry_after, refused.permanent) == (302, "/x", "5", False)
    assert refused.body_head == b"y" * 200


async def test_both_schemes_refused(transport: AiohttpTransport, key: SigningKey) -> None:
    async with raw_inbox(Verifying(key, ())) as inbox:
        with pytest.raises(InboxRefused) as caught:
            await deliver(BODY, inbox.url(), key, transport=transport)
        assert (caught.value.status, caught.value.scheme, caught.value.permanent) == (401, Scheme.RFC9421, True)


@pytest.mark.parametrize("signed", [True, False])
async def test_further_fields_are_signed_only_when_asked(
    transport: AiohttpTransport, key: SigningKey, *, signed: bool
) -> None:
    verifying = Verifying(key)
    async with raw_inbox(verifying) as inbox:
        further = [("Collection-Synchronization", "x=1")]
        await deliver_with_headers(BODY, inbox.url(), key, further, signed=signed, transport=transport)
        assert inbox.received[0].field("collection-synchronization") == "x=1"
    assert ("collection-synchronization" in verifying.verified[0].covered) is signed


async def test_the_guard_is_there_by_default(key: SigningKey) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        with pytest.raises(AddressError):
            await deliver(BODY, inbox.url(), key)
        assert inbox.connections == 0


async def test_bad_input_sends_nothing(key: SigningKey) -> None:
    with pytest.raises(InvalidInbox):
        await deliver(BODY, "ap://did:key:z6Mk/inbox", key)
    with pytest.raises(InputError):
        await deliver_with_headers(BODY, "https://h.test/inbox", key, [("Host", "evil.test")])
