# SPDX-License-Identifier: Apache-2.0
"""What the driver raises, as one sentence of the kind that tells a caller whether to repeat the call."""

import re
from typing import Final

from bson.errors import BSONError
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    DocumentTooLarge,
    InvalidURI,
    OperationFailure,
    PyMongoError,
)

from ojak.errors import InputError, OjakError, QueueUnavailable, StoreError

UNAUTHORIZED: Final = 13
NO_REPLICA_SET: Final = (
    "MongoDB is a standalone server, and Ojak needs a replica set (also of a single node): start mongod with"
    " --replSet NAME and run rs.initiate() once"
)

DRIVER_ERRORS: Final = (PyMongoError, BSONError)
"""What a call of the driver can raise; what cannot be encoded is not in the tree of the rest."""

_SHOWN_MAX: Final = 200
_NOT_ACCEPTED: Final = frozenset({11, 18})  # UserNotFound, AuthenticationFailed
_TOO_LARGE: Final = frozenset({10334, 17420})  # BSONObjectTooLarge
_TOO_LARGE_TEXT: Final = re.compile(r"BSONObj size|too large")
_STANDALONE: Final = 76  # NoReplicationEnabled
_STANDALONE_TEXT: Final = re.compile(r"[Ss]tandalone|only allowed on a replica set|not running with --replSet")
_PASSING: Final = frozenset(
    {
        # HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress, and their elder forms
        *(6, 7, 89, 91, 9001, 10058),
        # NotYetInitialized, ReadConcernMajorityNotAvailableYet, PrimarySteppedDown, NotWritablePrimary and kin
        *(94, 134, 189, 10107, 13435, 13436),
        # MaxTimeMSExpired, ExceededTimeLimit, WriteConcernFailed and UnsatisfiableWriteConcern, LockTimeout
        *(50, 262, 64, 100, 24),
        # Interrupted, InterruptedAtShutdown, InterruptedDueToReplStateChange
        *(11601, 11600, 11602),
        # WriteConflict, SnapshotUnavailable
        *(112, 246),
    }
)
_PASSING_LABELS: Final = ("RetryableWriteError", "TransientTransactionError")


def explained(error: PyMongoError | BSONError) -> OjakError:
    """Turn the driver's error into one sentence for an operator. The driver's text names the address it tried.

    Returns:
        `QueueUnavailable` for what may pass, so that the call is to be repeated; `InputError` for a document that
        MongoDB cannot hold; `StoreError` for everything else that it refused. None quotes a document.
    """
    if isinstance(error, BSONError):
        # The driver's text may hold the document.
        too_large = isinstance(error, DocumentTooLarge)
        return InputError(f"MongoDB cannot hold what was handed over: it is {'too large' if too_large else 'no BSON'}")
    if isinstance(error, InvalidURI | ConfigurationError):
        return StoreError(f"MongoDB cannot be used as configured: {_short(str(error))}")
    if isinstance(error, OperationFailure):
        return _refusal(error)
    text = str(error).split(", Timeout:")[0].split(", Topology Description:")[0]
    return _away(text or type(error).__name__)


def _refusal(error: OperationFailure) -> OjakError:
    code, text, passing = error.code, _text_of(error), _passes(error)
    if isinstance(error, BulkWriteError):
        details = error.details or {}
        failures = [*details.get("writeErrors", []), *details.get("writeConcernErrors", [])]
        # Not the driver's text, which holds the documents.
        code, text = (failures[0].get("code"), str(failures[0].get("errmsg"))) if failures else (code, "a bulk write")
        passing = passing or any(failure.get("code") in _PASSING for failure in failures)
    if passing:
        return _away(text)
    if code in _NOT_ACCEPTED:
        return StoreError(f"MongoDB did not accept the user name and password of mongo_url ({_short(text)})")
    if code == UNAUTHORIZED:
        return StoreError(
            f"the user of mongo_url lacks a right ({_short(text)});"
            " give the user of mongo_url the role readWrite on the queue's database"
        )
    if code == _STANDALONE or _STANDALONE_TEXT.search(text):
        return StoreError(NO_REPLICA_SET)
    if code in _TOO_LARGE or _TOO_LARGE_TEXT.search(text):
        return InputError(f"MongoDB cannot hold what was handed over: it is too large ({_short(text)})")
    return StoreError(f"MongoDB refused: {_short(text)} (code {code})")


def _passes(error: OperationFailure) -> bool:
    # `timeout` is the driver's own word for a limit of time that ran out, of whatever kind.
    return error.timeout or error.code in _PASSING or any(map(error.has_error_label, _PASSING_LABELS))


def _text_of(error: OperationFailure) -> str:
    message = error.details.get("errmsg") if error.details else None
    return str(message or str(error).split(", full error:")[0])


def _away(text: str) -> QueueUnavailable:
    return QueueUnavailable(f"MongoDB did not answer ({_short(text)}); check that it runs and that mongo_url is right")


def _short(text: str) -> str:
    """One line, without the values of a key or of a command."""
    line = " ".join(text.split()).split(" dup key:")[0]
    line = re.sub(r" to execute command \{.*", "", line)
    return line if len(line) <= _SHOWN_MAX else line[:_SHOWN_MAX] + "…"
