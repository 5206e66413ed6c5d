# SPDX-License-Identifier: Apache-2.0
"""`python -m ojak.supervisor`: forks workers, keeps them running, and the embedded MongoDB with them (SPEC section 5).

The supervisor's own process holds no event loop, threads, database client or native pool, and stays under 25 MB; so
each module says at its top what it may import: `master` and what it imports, the standard library alone.
"""
