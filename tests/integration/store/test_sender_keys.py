# SPDX-License-Identifier: Apache-2.0
"""Sender keys in a collection; report R19: what our own generator wrote loads from wherever and in whatever form."""

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from ojak import (
    CachingSenderKeys,
    CollectionSenderKeys,
    ConfigError,
    Deliverer,
    FolderSenderKeys,
    KeyFields,
    KeyRefused,
    PrivateKey,
    QueueUnavailable,
    SenderKeys,
    UnknownSender,
)
from ojak.signing import BodyDigest, KeyExists, sign
from ojak.signing.folder_store import FolderKeyStore
from ojak.signing.key_store import KeyStore, KnownSender
from ojak.store import database
from ojak.store.database import QueueDatabase

SENDER = "https://a.test/u"
NESTED = KeyFields(sender="actor.id", rsa="actor.keys.rsa", ed25519="actor.keys.ed", rsa_id="actor.keys.rsaId")


@pytest.fixture
async def rows(db: QueueDatabase):
    collection = db._database.get_collection("sender_keys")
    await collection.delete_many({})
    return collection


@pytest.fixture
def keys(db: QueueDatabase, rows) -> CollectionSenderKeys:
    return CollectionSenderKeys(db.client, database=db.name)


def test_it_is_a_source_of_keys_like_the_others(db, tmp_path):
    collection: KeyStore = CollectionSenderKeys(db.client, database="app", collection="actors")
    folder: KeyStore = FolderKeyStore(FolderSenderKeys(tmp_path))
    assert isinstance(collection, SenderKeys)
    assert (collection.where, folder.where) == ("app.actors", str(tmp_path))


@pytest.mark.parametrize("kind", ["collection", "fields", "folder"])
async def test_keys_that_were_made_are_found_listed_retired_and_removed(db, rows, tmp_path, kind):
    store: KeyStore = FolderKeyStore(FolderSenderKeys(tmp_path))
    if kind == "collection":
        store = CollectionSenderKeys(db.client, database=db.name)
    elif kind == "fields":
        store = CollectionSenderKeys(db.client, database=db.name, fields=NESTED)
    odd = "https://a.test/$where?q=a.b"
    made = await store.make(SENDER, rsa_bits=2048, replace=False)
    await store.make(odd, rsa_bits=2048, replace=False)
    found = await store.keys_of(SENDER)
    assert found.ed25519 is not None
    assert (found.rsa.key_id, found.ed25519.key_id) == (f"{SENDER}#main-key", f"{SENDER}#ed25519-key")
    assert found.rsa.key.public_pem() == made.rsa.key.public_pem()
    with pytest.raises(KeyExists, match="has a key already"):
        await store.make(SENDER, rsa_bits=2048, replace=False)
    assert (await store.make(SENDER, rsa_bits=2048, replace=True)).rsa.key.public_pem() != made.rsa.key.public_pem()
    await store.retire(SENDER)
    assert sorted(await store.senders(), key=lambda known: known.retired) == [
        KnownSender(sender=odd, retired=False),
        KnownSender(sender=SENDER, retired=True),
    ]
    await store.keys_of(SENDER)
    await store.make(SENDER, rsa_bits=2048, replace=True)
    assert not any(known.retired for known in await store.senders()), "made anew, they are in use again"
    await store.remove(SENDER)
    for call in (store.keys_of(SENDER), store.retire(SENDER), store.keys_of("https://a.test/nobody")):
        with pytest.raises(UnknownSender):
            await call
    assert [known.sender for known in await store.senders()] == [odd]


async def test_an_applications_own_rows_keep_what_else_they_hold(db, rows):
    store = CollectionSenderKeys(db.client, database=db.name, fields=NESTED)
    await rows.insert_one({"_id": 7, "actor": {"id": SENDER, "name": "Alice", "keys": {"rsaId": f"{SENDER}#k"}}})
    await store.make(SENDER)
    row = await rows.find_one({})
    assert (row["_id"], row["actor"]["name"], await rows.count_documents({})) == (7, "Alice", 1)
    assert (await store.keys_of(SENDER)).rsa.key_id == f"{SENDER}#k"
    await store.remove(SENDER)
    assert (await rows.find_one({}))["actor"] == {"id": SENDER, "name": "Alice", "keys": {}}


async def test_an_own_row_is_gone_with_its_keys(keys, rows):
    await keys.make(SENDER)
    await keys.remove(SENDER)
    assert await rows.count_documents({}) == 0


async def test_made_by_two_at_once_one_has_made_them(keys):
    made = await asyncio.gather(keys.make(SENDER), keys.make(SENDER), return_exceptions=True)
    assert sorted(type(one).__name__ for one in made) == ["KeyExists", "SenderKeyring"]


async def test_an_ed25519_key_may_be_a_multikey(keys, rows):
    await keys.make(SENDER)
    await rows.update_one({}, {"$set": {"ed25519": "z3u2Yprgz7XvSMTNvTjQPFWsVtBWbRqzSjFkLpGyFBQ6wzsi"}})
    found = (await keys.keys_of(SENDER)).ed25519
    assert found is not None
    assert found.key.kind == "ed25519"
    await rows.update_one({}, {"$set": {"ed25519": "z0"}})
    with pytest.raises(KeyRefused, match="field ed25519"):
        await keys.keys_of(SENDER)


@pytest.mark.parametrize("value", [7, "x" * 40_000, "not a key", b"\xff", ["x"], {"a": 1}])
async def test_what_is_no_key_is_refused_and_named_and_never_shown(keys, rows, value):
    await rows.insert_one({"_id": SENDER, "rsa": value})
    with pytest.raises(KeyRefused, match=r"the key of 'https://a\.test/u' in .*sender_keys, field rsa,") as refused:
        await keys.keys_of(SENDER)
    assert "xxxx" not in str(refused.value)
    assert "not a key" not in str(refused.value)


async def test_a_sender_is_a_value_and_no_query(keys, rows):
    await keys.make(SENDER)
    bad: Any = {"$ne": None}
    with pytest.raises(UnknownSender):
        await keys.keys_of(bad)


async def test_a_database_that_is_away_is_said_to_be(monkeypatch):
    monkeypatch.setitem(database._CLIENT_OPTIONS, "serverSelectionTimeoutMS", 50)
    away = CollectionSenderKeys("mongodb://nowhere.invalid/")
    for call in (away.keys_of(SENDER), away.make(SENDER), away.senders(), away.retire(SENDER), away.remove(SENDER)):
        with pytest.raises(QueueUnavailable):
            await call
    await away.close()
    with pytest.raises(ConfigError, match="keys_collection is "):
        CollectionSenderKeys("mongodb://nowhere.invalid/", collection="")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rsa"], "keys_fields has 'rsa'; allowed are name=field"),
        (["key=x"], "keys_fields has 'key=x'; allowed are name=field"),
        (["rsa=a", "rsa=b"], "keys_fields has 'rsa=b'"),
        (["rsa=$where"], "keys_fields has '\\$where' for rsa"),
        (["rsa=a..b"], "keys_fields has 'a..b' for rsa"),
        (["rsa="], "keys_fields has '' for rsa"),
    ],
)
def test_a_field_that_is_none_is_named(words, message):
    with pytest.raises(ConfigError, match=message):
        KeyFields.of_words(words)
    assert KeyFields.of_words(["sender=id", " rsa = keys.rsa "]) == KeyFields(sender="id", rsa="keys.rsa")


# R19


def _pem(key: Any, form: PrivateFormat = PrivateFormat.PKCS8, secret: bytes | None = None) -> str:
    lock = BestAvailableEncryption(secret) if secret else NoEncryption()
    text: str = key.private_bytes(Encoding.PEM, form, lock).decode()
    return text


def _one_line(pem: str) -> str:
    begin, *lines, end = pem.strip().splitlines()
    return "\n".join([begin, "".join(lines), end])


async def test_r19_what_our_generator_wrote_loads_from_everywhere_and_in_every_form(keys, rows, tmp_path, db):
    folder = FolderSenderKeys(tmp_path)
    written = folder.generate(SENDER).rsa.key
    pem = folder.paths_of(SENDER)[0].read_text("ascii")
    other = load_pem_private_key(pem.encode(), None)
    public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    assert public == written.public_pem(), "another library reads it too"

    def signed(key: PrivateKey) -> list[tuple[str, str]]:
        return sign(key, "k", "cavage", "POST", "https://b.test/i", BodyDigest(b"text"), 1_700_000_000, None)

    forms = {
        "as written": pem,
        "PKCS#1": _pem(other, PrivateFormat.TraditionalOpenSSL),
        "PKCS#8": _pem(other),
        "CRLF": pem.replace("\n", "\r\n"),
        "no final newline": pem.rstrip("\n"),
        "one line of base64": _one_line(pem),
        "backslash and n": pem.replace("\n", "\\n"),
        "leading blank line": f"\n{pem}",
    }
    for name, form in forms.items():
        await rows.replace_one({"_id": SENDER}, {"_id": SENDER, "rsa": form}, upsert=True)
        folder.paths_of(SENDER)[0].write_text(form, "ascii", newline="")
        folder.paths_of(SENDER)[0].chmod(0o600)
        for source in (keys, folder, CachingSenderKeys(keys), CachingSenderKeys(folder)):
            loaded = (await source.keys_of(SENDER)).rsa.key
            assert loaded.public_pem() == public, name
            assert signed(loaded) == signed(written), name


async def test_r19_what_cannot_be_used_fails_at_load_in_one_sentence_and_queues_nothing(keys, rows, db, mongod_url):
    small = rsa.generate_private_key(65537, 1024)
    good = rsa.generate_private_key(65537, 2048)
    public = good.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for rsa_key, words in (
        (_pem(good, secret=b"secret"), "encrypted"),
        (public, "public"),
        (_pem(small), "1024 bits; at least 2048"),
        (_pem(ec.generate_private_key(ec.SECP256R1())), "of kind p256; one of kind rsa is wanted"),
        (_pem(ec.generate_private_key(ec.SECP384R1())), "field rsa"),
        (PrivateKey.generate_ed25519().private_pem(), "of kind ed25519; one of kind rsa is wanted"),
    ):
        await rows.replace_one({"_id": SENDER}, {"_id": SENDER, "rsa": rsa_key}, upsert=True)
        async with Deliverer(mongod_url, database=db.name, keys=keys) as deliverer:
            with pytest.raises(KeyRefused, match=words) as refused:
                await deliverer.send({"id": "https://a.test/1", "type": "Like"}, SENDER, ["https://b.test/i"])
        assert "\n" not in str(refused.value)
    assert await db.jobs.count_documents({}) == 0
