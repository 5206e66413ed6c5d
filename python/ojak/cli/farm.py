# SPDX-License-Identifier: Apache-2.0
"""`ojak farm`."""

from ojak.farm.command import farm

__all__ = ["farm"]
