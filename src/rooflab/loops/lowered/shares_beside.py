"""How trips of loops over prange divide, counted in a copy of this process beside what counts the accesses.

Where data decide how much each trip does, the function is compiled and run once more for it (`compiled.regions`).
The copy does that on a second core meanwhile; what it does not find is found here.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable

import msgspec

from rooflab.loops import copied
from rooflab.types.loop import Region

_MOST_BYTES = 64 << 20  # of arguments, of which the copy makes further ones


def is_worth_it(nbytes: int) -> bool:
    """Whether a process over arguments of so many bytes is copied: on Linux, with a second core."""
    return sys.platform == "linux" and nbytes <= _MOST_BYTES and len(os.sched_getaffinity(0)) > 1


class Beside:
    """A copy of this process that finds regions; to be ended."""

    def __init__(self, find: Callable[[], tuple[Region, ...]]) -> None:
        """`find`: what is called there; it begins no threads."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  for as long as the copy
        self._found: tuple[Region, ...] | None = None
        self._pid = copied.start(lambda: self._find(find))

    def _find(self, find: Callable[[], tuple[Region, ...]]) -> None:
        """The copy's part."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._said.write(msgspec.msgpack.encode(find()))
        self._said.flush()

    def found(self) -> tuple[Region, ...] | None:
        """What was found there, once the copy has ended; None where it was not."""
        if self._pid:
            os.waitpid(self._pid, 0)
            self._pid = 0
            self._found = self._read()
        return self._found

    def _read(self) -> tuple[Region, ...] | None:
        self._said.seek(0)
        try:
            return msgspec.msgpack.decode(self._said.read(), type=tuple[Region, ...])
        except msgspec.DecodeError:
            # it ended with an error, which is found here again and said
            return None

    def end(self) -> None:
        """End the copy, if it still runs."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        self._said.close()
