# SPDX-License-Identifier: Apache-2.0
"""Measures what a delivery costs, by process, against floors of the same run (SPEC section 9)."""
