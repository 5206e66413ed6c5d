# SPDX-License-Identifier: Apache-2.0
"""Numbered changes of the schema, run at every start before the indexes, under a lock.

A migration is a module `mNNN_what.py` with an `async def up(db)` that can be repeated after a crash at any point.
"""
