# SPDX-License-Identifier: Apache-2.0
"""The enqueuing half of Ojak for applications that are not async, such as those of Django and Flask."""

from ojak.sync.deliverer import Deliverer

__all__ = ["Deliverer"]
