# SPDX-License-Identifier: Apache-2.0
"""What sends: claim, lanes, attempt, settle, and the loops around them, one a module."""
