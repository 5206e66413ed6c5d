# SPDX-License-Identifier: Apache-2.0
"""Ojak: the delivery engine of ActivityPub servers."""
