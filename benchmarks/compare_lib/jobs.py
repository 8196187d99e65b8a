# SPDX-License-Identifier: BSD-3-Clause
"""Runs commands that end: within a time limit, and with all their descendants."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

GRACE_SECONDS = 5.0
# Which end a whole benchmark.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LINES_SHOWN = 15
POLL_SECONDS = 0.05


class JobFailed(Exception):
    """A command that failed: which, why, and the end of what it said. `which`: its number, of
    programs that ran together."""

    def __init__(self, command: list[str], reason: str, output: str, which: int | None = None):
        super().__init__(reason)
        self.command = command
        self.reason = reason
        self.output = output
        self.which = which

    def report(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()][-LINES_SHOWN:]
        shown = "\n".join("  | " + line for line in lines) or "  | (no output)"
        return f"  {self.reason}: {shlex.join(self.command)}\n{shown}"


def session_members(session: int) -> list[int]:
    """The processes of a session. mpirun gives each rank a process group of its own, but they stay
    in the session."""
    members = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == session:
            members.append(int(name))
    return members


def kill_session(session: int, number: int) -> None:
    for pid in session_members(session):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end_session(leader: subprocess.Popen) -> None:
    """Asks a command to end, so that mpirun can tidy up, then ends what is left of its session."""
    if leader.poll() is None:
        leader.terminate()
        try:
            leader.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
    kill_session(leader.pid, signal.SIGKILL)
    leader.wait()


def take_stop_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextlib.contextmanager
def stop_signals_later():
    """What was started and is not yet known to be ended would be left behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Running:
    """A command started in a session of its own. Use as a context manager: it ends with it."""

    def __init__(self, command: list[str], cwd: str | None):
        self.command = command
        # Files, not pipes: a descendant that lives on must not keep us waiting.
        with contextlib.ExitStack() as stack:
            self.out = stack.enter_context(tempfile.TemporaryFile())
            self.err = stack.enter_context(tempfile.TemporaryFile())
            with stop_signals_later():
                self.process = self._start(cwd)
                stack.callback(end_session, self.process)
            self._stack = stack.pop_all()

    def _start(self, cwd: str | None) -> subprocess.Popen:
        try:
            return subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.out,
                                    stderr=self.err, cwd=cwd, start_new_session=True,
                                    preexec_fn=take_stop_signals)
        except OSError as error:
            raise JobFailed(self.command, f"could not be started ({error.strerror})", "") from None

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_) -> None:
        self._stack.close()

    def wait(self, deadline: float, seconds: float) -> None:
        """Until it ends. `seconds` is how long it was given until `deadline`."""
        try:
            status = self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise self._failed(f"no end after {seconds:g} s") from None
        if status:
            how = f"status {status}" if status > 0 else f"signal {-status}"
            raise self._failed(f"failed with {how}")

    def _failed(self, reason: str) -> JobFailed:
        return JobFailed(self.command, reason, self.output() + text_of(self.err))

    def output(self) -> str:
        return text_of(self.out)


def text_of(file) -> str:
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")


def run(command: list[str], seconds: float, beside: list[str] | None = None,
        cwd: str | None = None, errors: bool = False) -> str:
    """What `command` printed; with `errors`, and then what it said to stderr. `beside` is started
    first and must end well, too; its output comes first. Raises JobFailed."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(Running(words, cwd))
                   for words in ([beside] if beside else []) + [command]]
        for one in reversed(running):
            one.wait(deadline, seconds)
        return "".join(one.output() + (text_of(one.err) if errors else "") for one in running)


def run_together(commands: list[list[list[str]]], seconds: float,
                 keeps_waiting: Callable[[], int] | None = None, waits: str = "") -> list[str]:
    """What programs printed that need each other; each is one command, or one and another beside
    it. When one of them fails all end, and JobFailed says which it was: the one that keeps others
    waiting, when one of these says `waits`, or time is up."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        running: list[tuple[int, Running]] = []
        for i, program in enumerate(commands):
            with numbered(i):
                running += [(i, stack.enter_context(Running(words, None))) for words in program]
        left = running
        while left:
            time.sleep(POLL_SECONDS)
            late = time.monotonic() >= deadline
            ended = [pair for pair in left if late or pair[1].process.poll() is not None]
            for i, one in ended:
                try:
                    with numbered(i):
                        one.wait(deadline, seconds)
                except JobFailed as failure:
                    if not keeps_waiting or not (late or waits in failure.output):
                        raise
                    raise of_program(running, keeps_waiting()) from None
            left = [pair for pair in left if pair not in ended]
        return ["".join(one.output() for i, one in running if i == number)
                for number in range(len(commands))]


def of_program(running: list[tuple[int, Running]], number: int) -> JobFailed:
    """It keeps the others waiting."""
    ones = [one for i, one in running if i == number]
    said = "".join(one.output() + text_of(one.err) for one in ones)
    return JobFailed(ones[-1].command, "keeps the others waiting", said, number)


@contextlib.contextmanager
def numbered(number: int):
    """Failures within are of the program of that number."""
    try:
        yield
    except JobFailed as failure:
        failure.which = number
        raise


def run_quietly(command: list[str], seconds: float = 20) -> str | None:
    """What a command printed, or None when it failed."""
    try:
        return run(command, seconds)
    except JobFailed:
        return None
