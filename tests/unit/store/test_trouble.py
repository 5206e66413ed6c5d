# SPDX-License-Identifier: Apache-2.0
"""The driver's errors become sentences of the right kind: only what may pass is called unavailable."""

import pytest
from bson.errors import BSONError, InvalidDocument
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConfigurationError,
    DocumentTooLarge,
    ExecutionTimeout,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
    WTimeoutError,
)

from ojak.errors import InputError, OjakError, QueueUnavailable, StoreError
from ojak.store.trouble import explained


@pytest.mark.parametrize(
    "error",
    [
        AutoReconnect("host:27017: closed"),
        NetworkTimeout("host:27017: timed out"),
        NotPrimaryError("not primary", {"code": 10107, "errmsg": "not primary"}),
        ServerSelectionTimeoutError("host:27017: refused, Timeout: 5s, Topology Description: <TopologyDescription …>"),
        WaitQueueTimeoutError("no connection"),
        ExecutionTimeout("too long", 50),
        WTimeoutError("waiting for replication timed out", 64),
        WriteConcernError("waiting for replication failed", 91),
        OperationFailure("interrupted at shutdown", 11600),
        OperationFailure("not primary", 10107),
        OperationFailure("write conflict", 112, {"errmsg": "conflict", "errorLabels": ["TransientTransactionError"]}),
        BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64, "errmsg": "timed out"}]}),
    ],
)
def test_what_may_pass_is_unavailable(error: PyMongoError | BSONError) -> None:
    told = explained(error)
    assert type(told) is QueueUnavailable
    assert "Topology" not in str(told)
    assert str(told).startswith("MongoDB did not answer (")
    assert str(told).endswith("check that it runs and that mongo_url is right")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConfigurationError("bad option"), "MongoDB cannot be used as configured: bad option"),
        (OperationFailure("Authentication failed.", 18), "did not accept the user name and password"),
        (OperationFailure("command find requires authentication", 13), "give the user of mongo_url the role readWrite"),
        (OperationFailure("not authorized on ojak to execute command { find: 1 }", 13), "lacks a right"),
        (OperationFailure("Standalones can't specify commitQuorum", 2), "a replica set (also of a single node)"),
        (OperationFailure("Transaction numbers are only allowed on a replica set member or mongos", 20), "--replSet"),
        (OperationFailure("not running with --replSet", 76), "rs.initiate()"),
        (OperationFailure("Unrecognized expression '$x'", 168), "MongoDB refused: Unrecognized expression '$x' (code"),
    ],
)
def test_what_stays_as_it_is_is_refused(error: PyMongoError | BSONError, words: str) -> None:
    told = explained(error)
    assert type(told) is StoreError
    assert words in str(told)
    assert len(str(told).splitlines()) == 1


@pytest.mark.parametrize(
    "error",
    [
        DocumentTooLarge("BSON document too large (17000000 bytes)"),
        InvalidDocument("Invalid document {'bytes': b'secret'} | cannot encode object"),
        OperationFailure("BSONObj size: 17000000 (0x1) is invalid. Size must be between 0 and 16793600(16MB)", 10334),
        OperationFailure("object to insert too large. size in bytes: 17000000, max size: 16777216", 2),
    ],
)
def test_what_is_too_large_is_the_callers_input(error: PyMongoError | BSONError) -> None:
    told = explained(error)
    assert type(told) is InputError
    assert "secret" not in str(told)


def test_no_document_gets_into_the_sentence() -> None:
    failure = {
        "index": 0,
        "code": 11000,
        "errmsg": 'E11000 duplicate key error collection: ojak.jobs index: x dup key: { x: "secret" }',
        "op": {"_id": b"secret", "sender": "secret"},
    }
    told: OjakError = explained(BulkWriteError({"writeErrors": [failure], "writeConcernErrors": []}))
    assert type(told) is StoreError
    assert "secret" not in str(told)
    assert "E11000 duplicate key error collection: ojak.jobs index: x" in str(told)
    told = explained(OperationFailure("bad\nvalue " + "x" * 5000, 2))
    assert len(str(told)) < 400
    assert "\n" not in str(told)
