# SPDX-License-Identifier: Apache-2.0
"""`Outgoing`: what is about to be sent, as an application is asked for further headers of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One attempt that is about to be made.

    Attributes:
        host: the host's authority: its name, with its port if that is not its scheme's own.
        inbox: the canonical inbox URL, or of a portable inbox its id.
        url: where it is POSTed: the inbox, or a portable inbox at the gateway `host`.
        shared: whether it is a shared inbox.
        ref: the application's reference for the inbox.
        sender: whose key signs.
        activity_id: the activity's id, or its hash if it has none.
        number: the number of the attempt, from 1.
    """

    host: str
    inbox: str
    url: str
    shared: bool
    ref: str | None
    sender: str
    activity_id: str
    number: int
