# SPDX-License-Identifier: Apache-2.0
"""Circuit breakers: when a host that fails is left alone, and how it is tried again (SPEC section 4). No I/O here."""
