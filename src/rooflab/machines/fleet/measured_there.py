"""What runs on a worker of a fleet: `rooflab measure` in a clean process, one at a time on a host."""

from __future__ import annotations

import fcntl
import os
import platform
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from rooflab.errors import MeasureError
from rooflab.executors.work import host
from rooflab.types.machine import Machine

LIMIT_S = 600.0


class Ticket(NamedTuple):
    """What a worker is asked.

    Attributes:
        run: tells this measurement of a fleet from others.
        once: whether a host that was measured in this run already is left alone.
        arguments: of `rooflab measure`.
        without: variables of the environment that are not handed on.
        measure: what to run instead, in this process; it gives a `Machine`.
    """

    run: str
    once: bool
    arguments: tuple[str, ...]
    without: tuple[str, ...] = ()
    measure: Callable[[], Machine] | None = None


class Found(NamedTuple):
    """What a worker answers: its host, the machine as JSON; None of a host that another worker has measured."""

    host: str
    hostname: str
    machine: bytes | None


def measured_there(ticket: Ticket) -> Found:
    """The machine that this process runs on, measured while no other worker of this host measures.

    Raises:
        MeasureError: the measurement failed, was interrupted, or takes longer than ten minutes.
    """
    with _alone() as file:
        done = os.pread(file, 200, 0).decode(errors="replace").strip()
        if ticket.once and done == ticket.run:
            return Found(host(), platform.node(), None)
        machine = _run(ticket, file) if ticket.measure is None else msgspec.json.encode(ticket.measure().to_dict())
        os.ftruncate(file, 0)
        os.pwrite(file, ticket.run.encode(), 0)
    return Found(host(), platform.node(), machine)


def _run(ticket: Ticket, lock: int) -> bytes:
    """The JSON that `rooflab measure` prints; it keeps the lock too, should this process be lost."""
    environment: Mapping[str, str] = {key: os.environ[key] for key in os.environ if key not in ticket.without}
    command = [sys.executable, "-m", "rooflab", "measure", "--json", *ticket.arguments]
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            env=environment,
            pass_fds=(lock,),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MeasureError(f"rooflab measure on {platform.node()} took more than {LIMIT_S:.0f} s") from None
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {ended.returncode}"]
        raise MeasureError(f"rooflab measure on {platform.node()}: {said[-1].removeprefix('rooflab: ')}")
    return ended.stdout


@contextmanager
def _alone() -> Iterator[int]:
    """This user's lock on this host, as an open file."""
    path = Path(tempfile.gettempdir()) / f"rooflab-fleet-{os.geteuid()}.lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(file)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            raise MeasureError(f"{path}: not a file of this user's, expected one to take turns by: remove it")
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)
