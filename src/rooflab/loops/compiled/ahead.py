"""What compiles a loop, for one core and for several, in a process beside this one, with the vectoriser's remarks.

That takes as long as counting the loop does, which goes on meanwhile: numba's own cache on disk hands the code
over, and its IR with it. Where it finds none, as the other process failed or was not begun, the loop is compiled
here.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numba

_CHILD = """
import gc, os, pickle, sys, importlib.util
gc.disable()  # it ends before that matters
from pathlib import Path
asked = pickle.load(sys.stdin.buffer)
sys.path[:] = asked["path"]
import llvmlite.binding
for kind in ("analysis", "missed"):
    llvmlite.binding.set_option("", f"-pass-remarks-{kind}=loop-vectorize")
import numba
from rooflab.loops.compiled import any_order
from rooflab.loops.compiled.with_lines import code_only_of, with_lines
from rooflab.loops.twin.generated_files import write
code_only_of("serial", "parallel")
types = asked["types"]
def function(path, name):
    spec = importlib.util.spec_from_file_location("rooflab_" + Path(path).stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return with_lines(getattr(module, name))
with any_order.Noted("serial") as noted:
    serial = function(asked["serial"], "serial")
    serial.compile(types)
    print("serial", flush=True)
    if serial.stats.cache_hits:
        # found, so that nothing was said
        with_lines(numba.njit(nogil=True, error_model="numpy")(serial.py_func)).compile(types)
# what LLVM says from here on is of other functions
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
write(any_order.place(asked["serial"], types), noted.optimised().encode())
print("said", flush=True)
if asked["parallel"]:
    try:
        function(asked["parallel"], "parallel").compile(types)
    except Exception:
        pass  # what numba refuses it refuses in the other process too, which says so
print("parallel", flush=True)
"""
PATIENCE_S = 60.0


class Ahead:
    """A process that compiles; to be ended.

    Args:
        serial: the file of the generated module for one core.
        parallel: that of the one over prange; None where there is none.
        values: the arguments.
    """

    def __init__(self, serial: str, parallel: str | None, values: Sequence[Any]) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  for as long as the process
        self._process: subprocess.Popen[bytes] | None = None
        self._lines, self._ended = 0, False
        types = tuple(numba.typeof(value) for value in values)
        asked = pickle.dumps({"serial": serial, "parallel": parallel, "types": types, "path": sys.path})
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD], stdin=pipe, stdout=pipe, stderr=self._said, bufsize=0
            )
            assert self._process.stdin is not None
            self._process.stdin.write(asked)
            self._process.stdin.close()
        except OSError:
            # no Python to start (an embedded one), or it ended at once
            self.end()

    def compiled(self, spread: bool = True) -> None:
        """Return once the loop for one core, and `spread` over prange, is in numba's cache, or will not be."""
        self._wait(3 if spread else 1)

    def remarks(self) -> str | None:
        """What the vectoriser said of the loop for one core; None where it could not be asked."""
        if not self._wait(2, PATIENCE_S):
            return None
        self._said.seek(0)
        return self._said.read().decode("utf-8", "replace")

    def _wait(self, lines: int, patience_s: float | None = None) -> bool:
        """Wait until the process has come so far, or is at its end; whether it has said so in time."""
        if self._process is None or self._process.stdout is None:
            return False
        pipe = self._process.stdout
        while self._lines < lines and not self._ended:
            if not select.select([pipe], [], [], patience_s)[0]:
                self.end()
                return False
            if pipe.readline():
                self._lines += 1
            else:
                self._ended = True
        return self._lines >= lines

    def end(self) -> None:
        """End the process, if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        self._said.close()


def is_worth_it() -> bool:
    """Whether this process may use a second core."""
    try:
        return len(os.sched_getaffinity(0)) > 1
    except AttributeError:
        # not on Linux
        return (os.cpu_count() or 1) > 1
