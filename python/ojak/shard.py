# SPDX-License-Identifier: Apache-2.0
"""Which shard a host belongs to (SPEC section 5). Stored with every host record: it must never change."""

from hashlib import blake2b

SHARDS = 256
"""How many shards there are. Fixed: a host's shard is one byte of a hash of its authority."""


def shard_of(authority: str) -> int:
    """Give the shard, 0 to 255, of a canonical authority (`host` or `host:port`, lower-case A-labels).

    The hash is stable across processes, machines and versions, unlike Python's own `hash`.
    """
    return blake2b(authority.encode(), digest_size=1).digest()[0]
