"""What LLVM's loop vectoriser says of a compiled loop: its own remarks, by line of the source.

The library that numba brings prints them where `-pass-remarks-analysis` is set. That option holds for a whole
process and goes to its stderr, so a process of its own compiles the loop once more; what it says is kept.
"""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numba

from rooflab.loops.read.source import Source

PATIENCE_S = 60.0
# debug=True gives the lines; numba then marks functions "optnone", unless told not to.
_CHILD = """
import pickle, sys, importlib.util
import llvmlite.binding
for kind in ("analysis", "missed"):
    llvmlite.binding.set_option("", f"-pass-remarks-{kind}=loop-vectorize")
import numba
path, name, types = pickle.load(sys.stdin.buffer)
spec = importlib.util.spec_from_file_location("said", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
function = getattr(module, name).py_func
numba.njit(nogil=True, error_model="numpy", debug=True, _dbg_optnone=False)(function).compile(types)
"""
_REMARK = re.compile(
    r"^remark: (?P<file>.*):(?P<line>\d+):\d+: (?:loop not vectorized: )?(?P<text>.+)$", re.MULTILINE
)
_SILENT = ("loop not vectorized", "the cost-model indicates that interleaving is not beneficial")


class Remark(NamedTuple):
    """What the vectoriser says, and of which line of the source."""

    line: int
    text: str


def of(source: Source, path: str, name: str, values: Sequence[Any]) -> list[Remark]:
    """The remarks on function `name` of the generated file `path`, made of `source`, called with `values`.

    Empty where the compiler cannot be asked in a process of its own; rules then say what is likely.
    """
    asked = pickle.dumps((path, name, tuple(numba.typeof(value) for value in values)))
    try:
        done = subprocess.run([sys.executable, "-c", _CHILD], input=asked, capture_output=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        # no Python to start (an embedded one), or a machine that is too busy
        return []
    return parse(
        done.stderr.decode("utf-8", "replace"),
        path,
        source_lines(source.tree, Path(path).read_text("utf-8"), name),
    )


def parse(text: str, path: str, lines: dict[int, int]) -> list[Remark]:
    """The remarks in what LLVM printed on the file `path`, each once; `lines`: the source's by its own."""
    remarks = []
    for match in _REMARK.finditer(text):
        reason = match["text"].partition(". Use #pragma")[0]
        if Path(match["file"]).name == Path(path).name and reason not in _SILENT:
            remarks.append(Remark(lines.get(int(match["line"]), 0), reason))
    return list(dict.fromkeys(remarks))


def source_lines(tree: ast.FunctionDef, text: str, name: str) -> dict[int, int]:
    """Lines of the source by lines of the generated file: both have the same statements in the same order."""
    function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == name)
    ours, theirs = ([n for n in ast.walk(tree) if isinstance(n, ast.stmt)] for tree in (function, tree))
    return {a.lineno: b.lineno for a, b in zip(ours, theirs, strict=True)}
