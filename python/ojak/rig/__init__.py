# SPDX-License-Identifier: Apache-2.0
"""A supervisor and a farm side by side, and the account of both: what the demo and the bench stand on."""
