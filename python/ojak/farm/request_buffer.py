# SPDX-License-Identifier: Apache-2.0
"""Puts a connection's bytes together into requests."""

from ojak.farm.request import MAX_BODY_BYTES, MAX_HEAD_BYTES, Head, Malformed, read_head

MAX_WAITING_BYTES = MAX_HEAD_BYTES + MAX_BODY_BYTES
"""More than this may not wait behind a request that is open."""


class RequestBuffer:
    """Holds what has arrived and is not yet a whole request.

    Chunks are joined only once a head or a body may be complete, so that a body in many pieces costs one copy.

    Attributes:
        waiting_bytes: how much it holds.
    """

    __slots__ = ("_chunks", "_head", "_wanted_bytes", "waiting_bytes")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._head: Head | None = None
        self._wanted_bytes = 1
        self.waiting_bytes = 0

    def add(self, data: bytes) -> None:
        """Take what arrived."""
        self._chunks.append(data)
        self.waiting_bytes += len(data)

    def next_request(self) -> tuple[Head, bytes] | None:
        """The next whole request, or None until more arrives.

        Raises:
            Malformed: what arrived is no request that an inbox takes.
        """
        if self.waiting_bytes < self._wanted_bytes:
            return None
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        head, start = self._head, 0
        if head is None:
            end = data.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES)
            if end < 0:
                if len(data) >= MAX_HEAD_BYTES:
                    raise Malformed(431, "head-too-large")
                self._keep(data)
                return None
            head = read_head(data[:end])
            start = end + 4
        end = start + head.content_length
        if len(data) < end:
            self._head = head
            self._wanted_bytes = head.content_length
            self._keep(data[start:])
            return None
        self._head = None
        self._wanted_bytes = 1
        self._keep(data[end:])
        return head, data[start:end]

    def _keep(self, rest: bytes) -> None:
        self._chunks = [rest] if rest else []
        self.waiting_bytes = len(rest)
