# SPDX-License-Identifier: Apache-2.0
"""`ojak.sync.Deliverer`: queues activities from applications that are not async (SPEC section 1)."""

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pymongo import MongoClient
from pymongo.client_session import ClientSession

from ojak.config import DelivererConfig
from ojak.deliverer import Deliverer as AsyncDeliverer
from ojak.enqueuer import check_key
from ojak.errors import ConfigError, InputError
from ojak.http.outbound import Outbound
from ojak.model.activity import check_text
from ojak.model.batch import Batch
from ojak.model.inbox import Inbox
from ojak.model.job import Priority
from ojak.model.outcome import Sent
from ojak.model.portable import PortableInbox
from ojak.signing import Scheme, SenderKeys
from ojak.store.database import async_twin
from ojak.store.outbox import write_blocking
from ojak.store.recipients import list_portable
from ojak.sync.background import Background

T = TypeVar("T")

_LEFT_BEHIND: Final[list[Background]] = []
"""What a fork left in a child without its thread. Kept, since its parts would complain when they are collected."""


class Deliverer:
    """Queues activities, from any number of threads. What is queued is sent by workers (`ojak supervisor`).

    Made before a fork it can be used after it, in parent and child alike: each process has a thread and connections of
    its own, from its first call on.

    Args:
        queue: where the queue is: the URL of a MongoDB, a `MongoClient`, whose settings are taken and which is left
            alone otherwise, or the data folder of a running supervisor.
        keys: the senders' keys, asked before anything is queued. Without them `send` queues for any sender.
        database: the name of the queue's database.
        config: limits, and how long deliveries are kept.
        outbound: of it only which domains nothing is sent to: `send` refuses those.

    Raises:
        ConfigError: the URL, the database's name or the folder cannot be used.
    """

    def __init__(
        self,
        queue: str | PathLike[str] | MongoClient[Any],
        *,
        keys: SenderKeys | None = None,
        database: str = "ojak",
        config: DelivererConfig | None = None,
        outbound: Outbound | None = None,
    ) -> None:
        self._outbound = outbound
        self._queue = queue
        self._keys = keys
        self._database = database
        self._config = config
        self._lock = threading.Lock()
        self._closed = False
        # Made now, so that what cannot be used shows here. It connects with the first call.
        self._background, self._end = self._make()
        _living.add(self)

    def __enter__(self) -> Self:
        try:
            self._ask(lambda deliverer: deliverer.set_up())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what other threads have under way, and let go of the thread and the connections."""
        with self._lock:
            self._closed = True
            self._end()

    def send(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox],
        *,
        priority: Priority | None = None,
        order_key: str | None = None,
        session: ClientSession | None = None,
    ) -> Sent:
        """Queue one activity for a set of inboxes, and return: as `ojak.Deliverer.send`, and raising what that does.

        Args:
            activity: a JSON object: bytes or text go out byte for byte, a mapping is serialised once.
            sender: the id of the actor whose key signs.
            inboxes: inbox URLs, or `Inbox`es.
            priority: which line to stand in; by default by the number of inboxes.
            order_key: what deliveries are ordered by; by default what the activity is about.
            session: of a `MongoClient` of yours on the same MongoDB, with a transaction: then this only writes a row
                in it, and a worker queues it after the commit.
        """
        if order_key is not None:
            check_text("order_key", order_key)
        if session is None:
            return self._ask(
                lambda deliverer: deliverer.send(activity, sender, inboxes, priority=priority, order_key=order_key)
            )
        return self._send(
            activity, sender, inboxes, priority=priority, order_key=order_key, batch=None, session=session
        )

    def send_batch(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox],
        batch: Batch,
        *,
        priority: Priority | None = None,
        session: ClientSession | None = None,
    ) -> Sent:
        """Queue one activity as part of a batch: as `ojak.Deliverer.send_batch`, and raising what that does."""
        if not isinstance(batch, Batch):
            raise InputError(f"batch is a {type(batch).__name__}; allowed is a Batch")
        if session is None:
            return self._ask(
                lambda deliverer: deliverer.send_batch(activity, sender, inboxes, batch, priority=priority)
            )
        return self._send(
            activity, sender, inboxes, priority=priority, order_key=batch.order_key, batch=batch, session=session
        )

    def send_portable(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[PortableInbox],
        *,
        priority: Priority | None = None,
        order_key: str | None = None,
        batch: Batch | None = None,
        session: ClientSession | None = None,
    ) -> Sent:
        """Queue one activity for inboxes of portable actors: as `ojak.Deliverer.send_portable`."""
        given = list_portable(inboxes)
        key = check_key(order_key, batch)
        if session is None:
            return self._ask(
                lambda deliverer: deliverer.send_portable(
                    activity, sender, given, priority=priority, order_key=order_key, batch=batch
                )
            )
        return self._send(activity, sender, given, priority=priority, order_key=key, batch=batch, session=session)

    def heard_from(self, authority: str, scheme: Scheme | str | None = None) -> bool:
        """Tell that a verified request came from a host: as `ojak.Deliverer.heard_from`."""
        return self._ask(lambda deliverer: deliverer.heard_from(authority, scheme))

    def _send(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox | PortableInbox],
        *,
        priority: Priority | None,
        order_key: str | None,
        batch: Batch | None,
        session: ClientSession,
    ) -> Sent:
        if not isinstance(session, ClientSession):
            raise InputError(f"session is a {type(session).__name__}; allowed is one of a MongoClient")
        prepared = self._ask(
            lambda deliverer: deliverer.prepare(
                activity, sender, inboxes, priority=priority, order_key=order_key, batch=batch, client=session.client
            )
        )
        if prepared.pending is not None:
            # Here, and not in the loop: a session belongs to the thread that has it.
            write_blocking(session, self._database, prepared.pending)
            self._ask(lambda deliverer: deliverer.announce())
        return prepared.sent

    def _ask(self, what: Callable[[AsyncDeliverer], Coroutine[Any, Any, T]]) -> T:
        with self._lock:
            if self._closed:
                raise ConfigError("a sync.Deliverer that was closed is used; allowed is a new one")
            if self._background.pid != os.getpid():
                _LEFT_BEHIND.append(self._background)
                self._background, self._end = self._make()
            background = self._background
        return background.ask(what)

    def _make(self) -> tuple[Background, Callable[[], object]]:
        options: dict[str, Any] = {
            "keys": self._keys,
            "database": self._database,
            "config": self._config,
            "outbound": self._outbound,
            "breakers": "shared",
        }
        if isinstance(self._queue, MongoClient):
            client = async_twin(self._queue)
            background = Background(AsyncDeliverer(client, **options), close_client=client.close)
        else:
            background = Background(AsyncDeliverer(self._queue, **options))
        # Also when it is forgotten, and at the end of the program.
        return background, weakref.finalize(self, background.close)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()


_living: Final[weakref.WeakSet[Deliverer]] = weakref.WeakSet()


def _after_fork() -> None:
    """Another thread may have held a lock at the moment of the fork, and will never let go of it here."""
    for deliverer in list(_living):
        deliverer._renew_lock()  # noqa: SLF001


os.register_at_fork(after_in_child=_after_fork)
