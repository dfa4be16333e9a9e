"""What compiles a loop, for one core and for several, in a process beside this one, with the vectoriser's remarks.

That takes as long as counting the loop does, which goes on meanwhile: numba's own cache on disk hands the code
over, and its IR with it. Where it finds none, as the other process failed or was not begun, the loop is compiled
here. The other process is a copy of this one where one may be made: that has imported all already, and has the
arguments, so that it profiles the loop too. Elsewhere it is a new one.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numba
from llvmlite import binding
from numba.core.registry import cpu_target

from rooflab.loops.beside import Beside
from rooflab.loops.compiled import any_order
from rooflab.loops.compiled.with_lines import code_only_of, with_lines
from rooflab.loops.twin.generated_files import write

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
from rooflab.loops.compiled.ahead import Steps
from rooflab.loops.compiled.with_lines import with_lines
def function(path, name):
    spec = importlib.util.spec_from_file_location("rooflab_" + Path(path).stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return with_lines(getattr(module, name))
steps = Steps(asked["types"], asked["serial"], function(asked["serial"], "serial"))
steps.serial()
print("serial", flush=True)
steps.said()
print("said", flush=True)
if asked["parallel"]:
    try:
        steps.parallel(function(asked["parallel"], "parallel"))
    except Exception:
        pass  # what numba refuses it refuses in the other process too, which says so
print("parallel", flush=True)
"""
PATIENCE_S = 60.0
_REMARKS = tuple(f"-pass-remarks-{kind}=loop-vectorize" for kind in ("analysis", "missed"))
_SERIAL, _SAID, _PARALLEL = ("serial",), ("said",), ("parallel",)


class Meanwhile(Protocol):
    """What compiles a loop meanwhile; to be ended."""

    def compiled(self, spread: bool = True) -> None:
        """Return once the loop for one core, and `spread` over prange, is in numba's cache, or will not be."""
        ...

    def remarks(self) -> str | None:
        """What the vectoriser said of the loop for one core; None where it could not be asked."""
        ...

    def result(self, what: str) -> Any:
        """What one of the tasks that it was given besides returned; None where it is ours to do."""
        ...

    def still(self) -> Any:
        """While that lasts, which is entered, nothing is compiled."""
        ...

    def end(self) -> None:
        """End it, if it still runs."""
        ...


class Steps:
    """What the other process does, one step after the other, with a function that `njit` made for one core."""

    def __init__(self, types: tuple[Any, ...], path: str, function: Any) -> None:
        """`path`: the file of the function's generated module; `types`: of its arguments."""
        self._types, self._path, self._function = types, path, function
        self._noted = any_order.Noted("serial")

    def serial(self) -> None:
        """Compile it, with what the vectoriser says written to standard error."""
        with self._noted, code_only_of("serial"):
            self._function.compile(self._types)

    def said(self) -> None:
        """Have said what was not, as its code was found; leave its IR with sums in any order where it belongs."""
        if not self._noted.ir:
            once_more = with_lines(numba.njit(nogil=True, error_model="numpy")(self._function.py_func))
            with self._noted, code_only_of("serial"):
                once_more.compile(self._types)
        # what LLVM says from here on is of other functions
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        write(any_order.place(self._path, self._types), self._noted.optimised().encode())

    def parallel(self, function: Any) -> None:
        """Compile `function`, which is that over prange."""
        with code_only_of("parallel"):
            function.compile(self._types)


class Copied:
    """A copy of this process that compiles, and then does what else it is given.

    Args:
        serial, parallel: what `njit` made for one core and over prange; `parallel` None where there is none.
        path: the file of the generated module of `serial`.
        values: the arguments.
        more: by name, what is done once all is compiled.
    """

    def __init__(
        self,
        serial: Any,
        parallel: Any,
        path: str,
        values: Sequence[Any],
        more: Mapping[str, Callable[[], object]],
    ) -> None:
        types = tuple(numba.typeof(value) for value in values)
        # numba loads what it knows of functions once: here for both
        contexts: tuple[Any, ...] = (cpu_target.typing_context, cpu_target.target_context)
        for each in contexts:
            each.refresh()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  for as long as the copy
        steps = Steps(types, path, serial)

        def first() -> None:
            for each in _REMARKS:
                binding.set_option("", each)
            steps.serial()

        tasks: dict[tuple[Any, ...], Callable[[], object]] = {_SERIAL: first, _SAID: steps.said}
        if parallel is not None:
            tasks[_PARALLEL] = lambda: steps.parallel(parallel)
        self._copy = Beside({**tasks, **{(name,): task for name, task in more.items()}}, stderr=self._said)

    def compiled(self, spread: bool = True) -> None:
        """As `Meanwhile` says."""
        self._copy.done(_SERIAL, *((_PARALLEL,) if spread else ()))

    def remarks(self) -> str | None:
        """As `Meanwhile` says."""
        if not self._copy.done(_SAID):
            return None
        self._said.seek(0)
        return self._said.read().decode("utf-8", "replace")

    def result(self, what: str) -> Any:
        """As `Meanwhile` says."""
        return self._copy.result((what,))

    def still(self) -> Any:
        """As `Meanwhile` says."""
        return self._copy.still()

    def end(self) -> None:
        """As `Meanwhile` says."""
        self._copy.end()
        self._said.close()


class Ahead:
    """A new process that compiles; to be ended.

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
        """As `Meanwhile` says."""
        self._wait(3 if spread else 1)

    def result(self, what: str) -> Any:
        """None: it has no arguments to do anything with."""
        return None

    @contextmanager
    def still(self) -> Iterator[None]:
        """As `Meanwhile` says: it has come to its end then."""
        self.compiled()
        yield

    def remarks(self) -> str | None:
        """As `Meanwhile` says."""
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
        """As `Meanwhile` says."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        self._said.close()
