"""What compiles a loop, for one core and for several, in a process beside this one, with the vectoriser's remarks.

That takes as long as counting the loop does, which goes on meanwhile: numba's own cache on disk hands the code
over, and its IR with it. Where it finds none, as the other process failed or was not begun, the loop is compiled
here.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numba

_CHILD = """
import pickle, sys, importlib.util
from pathlib import Path
asked = pickle.load(sys.stdin.buffer)
sys.path[:] = asked["path"]
import llvmlite.binding
for kind in ("analysis", "missed"):
    llvmlite.binding.set_option("", f"-pass-remarks-{kind}=loop-vectorize")
import numba
from rooflab.loops.compiled.with_lines import code_only_of, with_lines
code_only_of("serial", "parallel")
types = asked["types"]
def function(path, name):
    spec = importlib.util.spec_from_file_location("rooflab_" + Path(path).stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return with_lines(getattr(module, name))
serial = function(asked["serial"], "serial")
serial.compile(types)
print("serial", flush=True)
if asked["parallel"]:
    try:
        function(asked["parallel"], "parallel").compile(types)
    except Exception:
        pass  # what numba refuses it refuses in the other process too, which says so
print("parallel", flush=True)
if serial.stats.cache_hits:
    # found, so that nothing was said
    with_lines(numba.njit(nogil=True, error_model="numpy")(serial.py_func)).compile(types)
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
        self._said_lines = 0
        types = tuple(numba.typeof(value) for value in values)
        asked = pickle.dumps({"serial": serial, "parallel": parallel, "types": types, "path": sys.path})
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD], stdin=pipe, stdout=pipe, stderr=self._said
            )
            assert self._process.stdin is not None
            self._process.stdin.write(asked)
            self._process.stdin.close()
        except OSError:
            # no Python to start (an embedded one), or it ended at once
            self.end()

    def compiled(self, spread: bool = True) -> None:
        """Return once the loop for one core, and `spread` over prange, is in numba's cache, or will not be."""
        wanted = 2 if spread else 1
        while self._said_lines < wanted and self._process is not None and self._process.stdout is not None:
            self._said_lines = self._said_lines + 1 if self._process.stdout.readline() else wanted

    def remarks(self) -> str | None:
        """What the vectoriser said of the loop for one core; None where it could not be asked."""
        if self._process is None:
            return None
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.end()
            return None
        self._said.seek(0)
        return self._said.read().decode("utf-8", "replace")

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
