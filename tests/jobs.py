# SPDX-License-Identifier: Apache-2.0
"""A job as a claim gives it, for tests that need one and do not care which."""

from ojak.model.job import Job, Priority

TEMPLATE = Job(
    id=b"",
    lane="",
    inbox="",
    shared=False,
    ref=None,
    sender="https://a.test/u",
    activity_id="https://a.test/1",
    body=b"",
    priority=Priority.FANOUT,
    tries=0,
    deaths=0,
    ends=0,
    too_old=False,
    stamp=b"s",
)
