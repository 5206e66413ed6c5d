# SPDX-License-Identifier: Apache-2.0
from ojak.http.closers import Closers


def test_an_hour_of_memory() -> None:
    closers = Closers()
    assert not closers.knows("a.test", 0)
    closers.learn("a.test", 0)
    assert closers.knows("a.test", 3599)
    assert not closers.knows("b.test", 0)
    assert not closers.knows("a.test", 3600)
    closers.learn("a.test", 4000)
    closers.learn("a.test", 5000)
    assert closers.knows("a.test", 8599)


def test_a_flood_of_them_takes_bounded_memory() -> None:
    closers = Closers()
    for number in range(10_000):
        closers.learn(f"h{number}.test", 0)
    assert closers.knows("h9999.test", 1)
    assert not closers.knows("h0.test", 1)
    assert len(closers._until_s) == 4096
