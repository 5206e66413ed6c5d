# SPDX-License-Identifier: Apache-2.0
from io import StringIO

from ojak.demo.progress import Progress


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_is_one_line_that_is_left_before_anything_else_is_said():
    stream = Terminal()
    progress = Progress(stream)
    progress.show(1, 2, "sent")
    progress.show(2, 2, "sent")
    progress.say("stopping")
    shown = stream.getvalue()
    assert shown.count("\n") == 2
    assert shown.endswith("2 of 2 sent\x1b[K\nstopping\n")
    assert "[####################....................] 1 of 2 sent" in shown


def test_elsewhere_it_is_a_plain_line_now_and_then_and_one_at_the_end():
    stream = StringIO()
    progress = Progress(stream)
    for done in range(1001):
        progress.show(done, 1000, "sent")
    progress.show(1000, 1000, "sent")
    assert stream.getvalue().splitlines() == ["0 of 1,000 sent", "1,000 of 1,000 sent"]


def test_of_nothing_everything_is_done():
    stream = Terminal()
    Progress(stream).show(0, 0, "sent")
    assert "0 of 0 sent" in stream.getvalue()
