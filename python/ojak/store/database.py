# SPDX-License-Identifier: Apache-2.0
"""`QueueDatabase`: a connection to the queue's collections, with the concerns that its promises rest on."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import AsyncMongoClient, MongoClient, ReadPreference
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import ConfigurationError, InvalidName, InvalidURI, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from ojak.clock import SystemClock
from ojak.errors import ConfigError, StoreError, shown
from ojak.store.now import EPOCH, Now
from ojak.store.trouble import NO_REPLICA_SET, explained

Document = dict[str, Any]
"""A row as the driver gives it. No document leaves this package."""

DatabaseTrouble = PyMongoError
"""What any call of this package raises when the database is away or refuses. Most of it is weather: try again."""

_CLIENT_OPTIONS: Final[dict[str, Any]] = {
    # The driver's own defaults keep a caller waiting 29 s on a primary that vanished; these halve it. No socket
    # timeout: a slow answer to a write says nothing about the write (docs/architecture.md, "Concerns").
    "heartbeatFrequencyMS": 5000,
    "connectTimeoutMS": 5000,
    "serverSelectionTimeoutMS": 15_000,
    "waitQueueTimeoutMS": 5000,
    "maxPoolSize": 16,
    "retryWrites": True,
    "retryReads": True,
    "appname": "ojak",
}

CODEC: Final[CodecOptions[Document]] = CodecOptions(
    tz_aware=True,
    # A row with a date beyond Python's years, or with text that is no UTF-8, must not end the cursor of a whole claim.
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="replace",
    uuid_representation=UuidRepresentation.STANDARD,
)

OUTBOX: Final = "outbox"
MAJORITY: Final = WriteConcern(w="majority")
_CLOCK: Final = SystemClock()
_OFFSET_KEPT_S: Final = 60.0


def connect(url: str, **overrides: Any) -> AsyncMongoClient[Document]:
    """Make a client with the options that the queue wants. Connects at its first use.

    Raises:
        ConfigError: the URL is not one that MongoDB drivers understand.
    """
    try:
        return AsyncMongoClient(url, **{**_CLIENT_OPTIONS, **overrides})
    except (InvalidURI, ConfigurationError, InvalidName, ValueError, TypeError) as error:
        raise ConfigError(
            f"mongo_url is {_redacted(url)!r}; allowed is a MongoDB URL such as mongodb://host:27017 ({error})"
        ) from None


def twin(client: AsyncMongoClient[Document]) -> MongoClient[Document]:
    """Make a blocking client with the settings of an asynchronous one, for a thread with its own connection.

    A thread that renews leases must not share the event loop that a busy handler may block.
    """
    # The driver keeps what a client was made with to duplicate it for encryption; there is no public way to ask.
    settings = dict(client._init_kwargs)  # noqa: SLF001
    settings.update(_CLIENT_OPTIONS, maxPoolSize=2)
    return MongoClient(**settings)


def async_twin(client: MongoClient[Any]) -> AsyncMongoClient[Document]:
    """Make an asynchronous client with the settings of a blocking one of the application's."""
    settings = dict(client._init_kwargs)  # noqa: SLF001 - as above
    settings.update(_CLIENT_OPTIONS, connect=None)
    return AsyncMongoClient(**settings)


class QueueDatabase:
    """The queue's collections.

    Every write waits for the majority (a primary that dies otherwise takes acknowledged jobs with it), every read is
    from the primary.
    """

    def __init__(self, client: AsyncMongoClient[Document], name: str = "ojak", *, now: Now | None = None) -> None:
        """Bind to the database `name` of `client`.

        Raises:
            ConfigError: the database's name is not usable.
        """
        if not isinstance(name, str):
            raise ConfigError(f"database is {shown(name)}; allowed is a MongoDB database name")
        try:
            self._database = client.get_database(
                name,
                codec_options=CODEC,
                write_concern=MAJORITY,
                read_concern=ReadConcern("local"),
                read_preference=ReadPreference.PRIMARY,
            )
        except (InvalidName, TypeError) as error:
            raise ConfigError(f"database is {name!r}; allowed is a MongoDB database name ({error})") from None
        self.client = client
        self.name = name
        self.now = now or Now()
        self._at_boot = EPOCH
        self._offset_until_s = 0.0
        self.jobs = self._collection("jobs")
        self.bodies = self._collection("bodies")
        self.hosts = self._collection("hosts")
        self.lanes = self._collection("lanes")
        self.host_settings = self._collection("host_settings")
        self.breakers = self._collection("breakers")
        self.shards = self._collection("shards")
        self.workers = self._collection("workers")
        self.batches = self._collection("batches")
        self.outbox = self._collection(OUTBOX)
        self.holds = self._collection("holds")
        self.settings = self._collection("settings")
        self.migrations = self._collection("migrations")
        # A wake-up that is lost costs one poll; waiting for a majority to hold it would cost every send.
        self.wakeups = self._collection("wakeups").with_options(write_concern=WriteConcern(w=1))

    def _collection(self, name: str) -> AsyncCollection[Document]:
        return self._database.get_collection(name)

    async def create_capped(self, name: str, size_bytes: int) -> None:
        """Create a capped collection; raises the driver's CollectionInvalid if it is there."""
        await self._database.create_collection(name, capped=True, size=size_bytes)

    async def options_of(self, name: str) -> Document | None:
        """The options that a collection was made with, None if it is not there."""
        async for info in await self._database.list_collections(filter={"name": name}):
            return dict(info.get("options", {}))
        return None

    async def drop(self, name: str) -> None:
        """Drop a collection of hints. Never called on what holds jobs."""
        await self._database.drop_collection(name)

    async def server_time(self) -> datetime:
        """The database's present time as a value, for inserts, which cannot hold an expression.

        The server is asked once a minute; in between the time that has passed here is added.
        """
        if self.now.literal is not None:
            return self.now.literal
        boot_s = _CLOCK.boot_s()
        if boot_s >= self._offset_until_s:
            clock = await self.server_clock()
            # Counted from when the answer was here, so that it is behind the server's by as long as that took. Ahead of
            # it, what is queued now would not be due to a claim that comes at once.
            self._at_boot = clock - timedelta(seconds=_CLOCK.boot_s())
            self._offset_until_s = boot_s + _OFFSET_KEPT_S
        # Counted on a clock that nobody sets: a step of the machine's own would hold or age what is queued next.
        return self._at_boot + timedelta(seconds=_CLOCK.boot_s())

    async def server_clock(self) -> datetime:
        """What the primary's clock shows, asked anew."""
        return (await self.primary())[0]

    async def primary(self) -> tuple[datetime, str]:
        """What the primary's clock shows, and which election made it the primary."""
        hello = await self._database.command("hello")
        return hello["localTime"].replace(tzinfo=UTC), str(hello.get("electionId"))

    async def ping(self) -> None:
        """Ask whether the primary of a replica set answers, itself or through a router.

        Raises:
            QueueUnavailable: none did in time; names the address and what to do.
            StoreError: a standalone server did, or one that refuses the user.
        """
        try:
            hello = await self._database.command("hello")
        except PyMongoError as error:
            raise explained(error) from error
        if "setName" not in hello and hello.get("msg") != "isdbgrid":
            raise StoreError(NO_REPLICA_SET)


def _redacted(url: str) -> str:
    """A URL without its password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}…@{rest.rpartition('@')[2]}" if "@" in rest else url
