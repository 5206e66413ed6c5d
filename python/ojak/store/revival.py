# SPDX-License-Identifier: Apache-2.0
"""Revival: what makes a row that has ended wait again, as a new send or a replay says (rule E)."""

from typing import Final

from ojak.store.database import Document, QueueDatabase

_OF_ITS_END: Final = (
    *("told", "told_at", "finished_at", "expire_at", "lease", "last", "cancel", "tried"),
    *("behind", "scout"),
)
"""What a row that waits again does not have."""

_SAID_ANEW: Final = (
    *("priority", "body", "sender", "ref", "shared", "since", "order", "batch", "give_up_at"),
    *("lane", "gateways", "at", "portable", "outbox_row"),
)
"""What a row takes over from the send that revives it, or loses."""


def revival(db: QueueDatabase, row: Document) -> list[Document]:
    """The update that makes an ended row wait again, with what a new send of it says."""
    taken_over = {name: {"$literal": row[name]} for name in _SAID_ANEW if name in row}
    left = [name for name in _SAID_ANEW if name not in row]
    return [
        {
            "$set": {
                "owed": {
                    "$cond": [
                        {"$eq": ["$told", False]},
                        {
                            "$concatArrays": [
                                {"$ifNull": ["$owed", []]},
                                [
                                    {
                                        "end": "$end",
                                        "state": "$state",
                                        "finished_at": "$finished_at",
                                        "tries": "$tries",
                                        "last": "$last",
                                    }
                                ],
                            ]
                        },
                        {"$ifNull": ["$owed", "$$REMOVE"]},
                    ]
                },
                **taken_over,
                "state": "blocked" if "order" in row else "queued",
                "seq": "$$CLUSTER_TIME",
                "run_at": db.now.expr,
                "queued_at": db.now.expr,
                "tries": 0,
                "deaths": 0,
                "leases": 0,
            }
        },
        {"$unset": [*_OF_ITS_END, *left]},
    ]
