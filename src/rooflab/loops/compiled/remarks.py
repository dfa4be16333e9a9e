"""What LLVM's loop vectoriser says of a compiled loop: its own remarks, by line of the source.

The library that numba brings prints them where `-pass-remarks-analysis` is set. That option holds for a whole
process and goes to its stderr, so a process of its own compiles the loop once more; what it says is kept.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rooflab.loops.compiled.ahead import Ahead, Meanwhile
from rooflab.loops.read.source import Source

_REMARK = re.compile(
    r"^remark: (?P<file>.*):(?P<line>\d+):\d+: (?:loop not vectorized: )?(?P<text>.+)$", re.MULTILINE
)
_SILENT = ("loop not vectorized", "the cost-model indicates that interleaving is not beneficial")


class Remark(NamedTuple):
    """What the vectoriser says, and of which line of the source."""

    line: int
    text: str


def of(
    source: Source, path: str, name: str, values: Sequence[Any], begun: Meanwhile | None = None
) -> list[Remark]:
    """The remarks on function `name` of the generated file `path`, made of `source`, called with `values`.

    Empty where the compiler cannot be asked in a process of its own; rules then say what is likely.

    Args:
        source, path, name, values: see above.
        begun: a process that asks for them already.
    """
    asked = begun or Ahead(path, None, values)
    try:
        said = asked.remarks()
    finally:
        if begun is None:
            asked.end()
    if said is None:
        return []
    return parse(said, path, source_lines(source.tree, Path(path).read_text("utf-8"), name))


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
