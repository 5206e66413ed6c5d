# SPDX-License-Identifier: Apache-2.0
"""`python -m ojak.farm`."""

from ojak.farm.command import farm

farm(prog_name="ojak farm")
