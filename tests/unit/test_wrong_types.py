# SPDX-License-Identifier: Apache-2.0
"""Whatever is handed to a public name and cannot be used is refused by the name of its field, never from inside."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import ojak
from ojak import (
    Batch,
    BlockedDomains,
    CachingSenderKeys,
    CollectionSenderKeys,
    ConfigError,
    Deliverer,
    DelivererConfig,
    FolderSenderKeys,
    InputError,
    KeyRefused,
    Outbound,
    PrivateKey,
    SenderKeyring,
    SigningKey,
    UnknownSender,
    deliver,
    deliver_with_headers,
)
from ojak.errors import shown

NOWHERE = "mongodb://nowhere.invalid/?serverSelectionTimeoutMS=100"
A = "https://a.test/u"
KEY = SigningKey(key_id=f"{A}#main-key", key=PrivateKey.generate_rsa(2048))
Ask = Callable[[Any, Any], Awaitable[object]]


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda d, bad: d.follow(bad), "tag is"),
        (lambda d, bad: d.follow("t", failures=bad), "failures is"),
        (lambda d, bad: d.explain(bad), "activity is"),
        (lambda d, bad: d.explain("x", limit=bad), "limit is"),
        (lambda d, bad: d.deliveries(bad), "selection is"),
        (lambda d, bad: d.deliveries(limit=bad), "limit is"),
        (lambda d, bad: d.deliveries(states=bad), "states? is"),
        (lambda d, bad: d.replay(activity="x", outcomes=bad), "outcomes? is"),
        (lambda d, bad: d.jobs(limit=bad), "limit is"),
        (lambda d, bad: d.jobs(states=bad), "states? is"),
        (lambda d, bad: d.replay_jobs(kind="k", outcomes=bad), "outcomes? is"),
        (lambda d, bad: d.hosts(limit=bad), "limit is"),
        (lambda d, bad: d.host(bad), "host is"),
        (lambda d, bad: d.limit_host("a.test", bad), "per_host is"),
        (lambda d, bad: d.heard_from(bad), "host is"),
        (lambda d, bad: d.pause_host("a.test", by="me", duration=bad), "duration is"),
        (lambda d, bad: d.pause_everything(by="me", duration=bad), "duration is"),
        (lambda d, bad: d.pause_sender(A, by="me", duration=bad), "duration is"),
        (lambda d, bad: d.sender_pauses(limit=bad), "limit is"),
        (lambda d, bad: d.enqueue("k", {}, priority=bad), "priority is"),
    ],
)
@pytest.mark.parametrize(
    "bad", [-1, 1.5, 10**5000, "a\0b", "\ud800", b"x", [[]], object(), timedelta.max, Unshowable()], ids=shown
)
async def test_a_wrong_argument_is_refused_by_its_name(ask: Ask, words: str, bad: object) -> None:
    deliverer = Deliverer(NOWHERE)
    with pytest.raises(InputError, match=f"^{words} .*allowed (is|are) ") as refused:
        await ask(deliverer, bad)
    assert len(str(refused.value)) < 400
    await deliverer.close()


async def test_words_that_are_one_text_are_no_list_of_them() -> None:
    deliverer = Deliverer(NOWHERE)
    with pytest.raises(InputError, match="outcomes is 'out-of-retries'; allowed is a list"):
        await deliverer.replay(activity="x", outcomes="out-of-retries")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="blocked_domains is 'localhost'; allowed is a list"):
        BlockedDomains("localhost")
    await deliverer.close()


@pytest.mark.parametrize("bad", [7, 1.5, b"x", [[]], object(), Unshowable()], ids=shown)
def test_what_something_cannot_be_made_of_is_refused_by_its_name(bad: Any) -> None:
    for name, make in {
        "deadline": lambda: Batch(tag="t", deadline=bad),
        "blocked_domains": lambda: BlockedDomains(bad),
        "retry_statuses": lambda: DelivererConfig(retry_statuses=bad),
        "concurrency": lambda: DelivererConfig(concurrency=bad if bad != 7 else 10**5000),
        "first_scheme": lambda: DelivererConfig(first_scheme=bad),
        "resolver_map": lambda: Outbound(resolver_map=bad),
        "extra_ca": lambda: Outbound(extra_ca=bad),
        "user_agent": lambda: Outbound(user_agent=bad),
        "allow": lambda: Outbound(allow_networks=bad),
        "queue": lambda: Deliverer(bad),
        "database": lambda: Deliverer(NOWHERE, database=bad),
        "config": lambda: Deliverer(NOWHERE, config=bad),
        "outbound": lambda: Deliverer(NOWHERE, outbound=bad),
        "on_settled": lambda: Deliverer(NOWHERE, on_settled=bad),
        "headers": lambda: Deliverer(NOWHERE, headers=bad),
        "mongo": lambda: CollectionSenderKeys(bad),
        "ttl_s": lambda: CachingSenderKeys(FolderSenderKeys("keys"), ttl_s=bad if bad not in (7, 1.5) else -1),
        "folder": lambda: FolderSenderKeys(bad),
        "keys": lambda: Deliverer(NOWHERE, keys=bad),
    }.items():
        with pytest.raises((ConfigError, InputError), match=f"^{name} "):
            make()
    with pytest.raises(KeyRefused, match=r"^rsa is a "):
        SenderKeyring(rsa=bad)


@pytest.mark.parametrize("sender", [None, 7, b"x", "\ud800"])
async def test_a_sender_that_is_no_text_is_unknown_to_every_source_of_keys(sender: Any, tmp_path: Any) -> None:
    collection = CollectionSenderKeys(NOWHERE)
    for source in (FolderSenderKeys(tmp_path), collection):
        with pytest.raises(UnknownSender):
            await source.keys_of(sender)
    await collection.close()


@pytest.mark.parametrize("bad", [7, "{}", None, object()])
async def test_what_deliver_cannot_use_is_refused_by_its_name(bad: Any) -> None:
    inbox = "https://b.test/inbox"
    with pytest.raises(InputError, match=r"^body is a"):
        await deliver(bad, inbox, KEY)
    with pytest.raises(InputError, match=r"^key is a"):
        await deliver(b"{}", inbox, bad)
    with pytest.raises(InputError, match=r"^first is a"):
        await deliver(b"{}", inbox, KEY, first=bad)
    with pytest.raises(InputError, match=r"^headers is a"):
        await deliver_with_headers(b"{}", inbox, KEY, bad)
    with pytest.raises(InputError, match=r"^headers holds a"):
        await deliver_with_headers(b"{}", inbox, KEY, [bad])
    with pytest.raises(InputError, match=r"^url|^inbox"):
        await deliver(b"{}", bad or "", KEY, blocked=None)
    assert ojak.deliver is deliver
