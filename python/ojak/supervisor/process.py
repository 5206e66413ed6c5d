# SPDX-License-Identifier: Apache-2.0
"""Children of the supervisor: how they are forked, signalled through a handle that cannot mean another, and reaped."""

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from ojak.supervisor.exits import ExitCode
from ojak.supervisor.signals import HANDLED

_PR_SET_PDEATHSIG: Final = 1
_STDIO: Final = 3
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_libc: Final = ctypes.CDLL(None, use_errno=True)


class ChildProcess:
    """One child, by its pid and a pidfd that is readable once it is dead."""

    __slots__ = ("_returncode", "pid", "pidfd")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self._returncode: int | None = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; does nothing once it is dead."""
        if self._returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def reap(self) -> int | None:
        """Its exit code (negative: a signal), or None while it lives. Waits for this child alone, and not at all."""
        if self._returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # Somebody else's wait took it. Nothing is known of its end but that it came.
                self._returncode = int(ExitCode.FAILURE)
            else:
                if pid == 0:
                    return None
                self._returncode = os.waitstatus_to_exitcode(status)
            os.close(self.pidfd)
        return self._returncode


def fork_child(main: Callable[[], int], *, keep: Collection[int], death_signal: signal.Signals) -> ChildProcess:
    """Fork a child that runs `main` and exits with what it answers.

    Every descriptor but standard streams and `keep` is closed in it: one kept end of somebody else's line would hide
    that its owner died. Signals are blocked until the child has its own handlers off, so that none of the
    supervisor's runs in it.

    Args:
        main: What the child does.
        keep: The descriptors that the child goes on using.
        death_signal: What it gets when the supervisor dies.

    Raises:
        OSError: The system has no room for another process.
    """
    _require_one_thread()
    supervisor = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        # What is still buffered would be written by both.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _become_child(main, keep, death_signal, supervisor)
        return ChildProcess(pid)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def exec_child(command: list[str], environment: dict[str, str], output: Path) -> ChildProcess:
    """Fork a child that becomes another program, in a session of its own, and is killed when the supervisor dies.

    Its standard output and errors go to the file `output`, written anew.
    """

    def become() -> int:
        os.setsid()
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
        try:
            os.execve(command[0], command, environment)  # noqa: S606 - no shell is wanted
        except OSError as error:
            os.write(2, f"{command[0]!r} cannot be run here: {error.strerror}\n".encode())
            return 126

    return fork_child(become, keep=(), death_signal=signal.SIGKILL)


def reap_orphans(own: Collection[int]) -> None:
    """As process 1: reap what was left to us, and leave our own children to their handles."""
    if os.getpid() != 1:
        return
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid in own:
            return
        os.waitpid(dead.si_pid, os.WNOHANG)


def _require_one_thread() -> None:
    # A fork copies one thread and every lock that the others held.
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"the supervisor has {threads} threads and must have one to fork")


def _become_child(
    main: Callable[[], int], keep: Collection[int], death_signal: signal.Signals, supervisor: int
) -> None:
    code = int(ExitCode.FAILURE)
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != supervisor:
            return
        signal.set_wakeup_fd(-1)
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        _close_all_but(keep)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        code = main()
    except BaseException:  # noqa: BLE001 - nothing may unwind into the supervisor's frames
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _close_all_but(keep: Collection[int]) -> None:
    low = _STDIO
    for fd in sorted(keep):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, max(low, *(int(fd.name) + 1 for fd in Path("/proc/self/fd").iterdir())))
