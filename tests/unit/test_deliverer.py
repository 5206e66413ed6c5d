# SPDX-License-Identifier: Apache-2.0
"""What a `Deliverer` is handed and cannot use is said at once, before it asks the database for anything."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ojak import ConfigError, Deliverer, DelivererConfig, FolderSenderKeys, InputError, InvalidInbox, SentState
from ojak.model.inbox import Inbox

BODY = b'{"id":"https://a.test/1","type":"Like"}'
SENDER = "https://a.test/u"
# No server: whatever goes as far as the database waits for it, and the test ends.
NOWHERE = "mongodb://nowhere.invalid/?serverSelectionTimeoutMS=100"


async def later() -> AsyncIterator[str]:
    yield "https://b.test/inbox"


@pytest.mark.parametrize(
    ("inboxes", "words"),
    [
        ("https://b.test/inbox", "inboxes is a str; allowed is a list of inboxes, also for one"),
        (b"https://b.test/inbox", "inboxes is a bytes; allowed is a list"),
        (Inbox("https://b.test/inbox"), "inboxes is a Inbox; allowed is a list"),
        (later(), "inboxes is an async iterable; allowed is a list of inboxes: collect it first"),
        (None, "inboxes is a NoneType; allowed is a list"),
        (7, "inboxes is a int; allowed is a list"),
    ],
)
async def test_what_is_no_list_of_inboxes_is_refused_whole(inboxes: Any, words: str) -> None:
    deliverer = Deliverer(NOWHERE)
    with pytest.raises(InputError, match=words):
        await deliverer.send(BODY, SENDER, inboxes)
    await deliverer.close()


@pytest.mark.parametrize("sender", ["", "https://a.test/\ud800", "x" * 2049, None, 7, b"https://a.test/u"])
async def test_a_sender_that_is_no_id_is_refused(sender: Any) -> None:
    deliverer = Deliverer(NOWHERE)
    with pytest.raises(InputError, match=r"^sender is .*; allowed is an actor's id of 1 to 2048 bytes"):
        await deliverer.send(BODY, sender, ["https://b.test/inbox"])
    await deliverer.close()


async def test_an_inbox_that_is_no_url_is_told_beside_the_others() -> None:
    deliverer = Deliverer(NOWHERE)
    bad: list[Any] = [None, 7, Inbox(None), b"https://b.test/i", "https://b.test/\ud800", "https://\udfff.test/i"]  # type: ignore[arg-type]
    sent = await deliverer.send(BODY, SENDER, bad)
    assert set(sent.inboxes) == {"None", "7", "b'https://b.test/i'", "https://b.test/\ud800", "https://\udfff.test/i"}
    assert {told.state for told in sent.inboxes.values()} == {SentState.REFUSED}
    assert sent.inboxes["None"].reason == (
        "inbox url is a NoneType; allowed: a string, such as https://example.org/inbox"
    )
    assert all(told.reason and told.reason.isascii() for told in sent.inboxes.values())
    await deliverer.close()


def test_an_empty_url_of_the_queue_is_no_data_folder() -> None:
    with pytest.raises(ConfigError, match="queue is empty; allowed is a MongoDB URL"):
        Deliverer(" ")


@pytest.mark.parametrize("priority", [5, 0, True, "small"])
async def test_a_priority_that_is_none_is_refused(priority: Any) -> None:
    deliverer = Deliverer(NOWHERE)
    with pytest.raises(InputError, match=r"^priority is .*; allowed is Priority.SMALL or Priority.FANOUT, or None"):
        await deliverer.send(BODY, SENDER, ["https://b.test/inbox"], priority=priority)
    await deliverer.close()


async def test_a_batch_that_is_none_is_refused() -> None:
    deliverer = Deliverer(NOWHERE)
    tag: Any = "a tag"
    with pytest.raises(InputError, match="batch is a str; allowed is a Batch"):
        await deliverer.send_batch(BODY, SENDER, ["https://b.test/inbox"], tag)
    await deliverer.close()


@pytest.mark.parametrize("shared", ["yes", 1, None])
def test_an_inbox_is_shared_or_not(shared: Any) -> None:
    with pytest.raises(InvalidInbox, match=r"inbox shared is a .*; allowed: True or False"):
        Inbox("https://b.test/inbox", shared=shared)


@pytest.mark.parametrize("value", [1.5, 2.0, "8", float("nan"), True, 0, 257])
def test_a_number_of_things_is_whole(value: Any) -> None:
    whole = "" if isinstance(value, int) else "a whole number from "
    with pytest.raises(ConfigError, match=rf"^concurrency is .*; allowed is {whole}1 to 256 deliveries at a time$"):
        DelivererConfig(concurrency=value)


async def test_a_run_that_was_stopped_before_its_first_step_ends_in_it(tmp_path: Path) -> None:
    deliverer = Deliverer(NOWHERE, keys=FolderSenderKeys(tmp_path))
    run = asyncio.create_task(deliverer.run())
    await deliverer.close()
    await asyncio.wait_for(run, 1)
