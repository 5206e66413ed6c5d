# SPDX-License-Identifier: Apache-2.0
"""`python -m ojak.farm`."""

import sys

from ojak.farm.command import farm
from ojak.streams import occupy_closed_streams

if occupy_closed_streams():
    print("ojak farm: standard output is closed; give it a file or /dev/null", file=sys.stderr)  # noqa: T201
    sys.exit(1)
farm(prog_name="ojak farm")
