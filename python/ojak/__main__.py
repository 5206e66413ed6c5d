# SPDX-License-Identifier: Apache-2.0
"""`python -m ojak`: the command line."""

import sys

from ojak.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
