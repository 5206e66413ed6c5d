# SPDX-License-Identifier: Apache-2.0
"""How held senders look in a terminal."""

import click

from ojak.cli.show import counted, printable, time_in_words
from ojak.model.hold import SenderPause


def print_sender_pause(pause: SenderPause) -> None:
    """Print what holds a sender: since when, by whom or why, until when, and how much was set aside."""
    since, aside = time_in_words(pause.since), counted(pause.waiting, "delivery")
    sender = printable(pause.sender)
    if pause.by is not None:
        until = f"until {time_in_words(pause.until)}" if pause.until is not None else "until it is resumed"
        click.echo(f"paused: sender {sender} since {since} by {printable(pause.by)}, {until}; {aside} set aside so far")
    else:
        until = f"asked for again at {time_in_words(pause.until)}"
        click.echo(f"held: sender {sender} since {since}, {pause.reason}, {until}; {aside} set aside so far")
