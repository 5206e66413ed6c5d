# SPDX-License-Identifier: Apache-2.0
"""Who gives a command, where a command is remembered by whom it was given."""

import getpass
import os


def operator_name() -> str:
    """The user of this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # In a container a user may have no name.
        return f"uid {os.getuid()}"
