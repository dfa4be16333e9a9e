"""The text of a function of C: the lines that its debug information names, how they call things."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rooflab.loops.lowered.pointers import Root

_COUNTED = re.compile(r"\b(?:for)\s*\(\s*(?:[A-Za-z_][\w\s*]*?[\s*])?([A-Za-z_]\w*)\s*=")


PRAGMA = re.compile(r"^\s*#\s*pragma\s+omp\b")
_FOR, _NEAR = re.compile(r"\bfor\s*\("), 4  # lines behind a pragma within which its loop begins


class CSource(NamedTuple):
    """A function of C, as `rooflab.loops.read.source.SourceLines`: its name, its file, its line, its lines."""

    name: str
    path: str
    line: int
    lines: Mapping[int, str]


def read(name: str, path: str, line: int) -> CSource:
    """The source of the function that begins in `line` of the file at `path`, as far as the file is there."""
    try:
        text = Path(path).read_text("utf-8", errors="replace").splitlines() if path else []
    except OSError:
        # IR whose source is elsewhere: its lines have numbers, and no text
        text = []
    return CSource(name, path or "<IR>", line, {n: each.rstrip() for n, each in enumerate(text, 1)})


def cut(source: CSource, used: Iterable[int]) -> CSource:
    """`source` with the lines of the functions that lines `used` are in, from heads to closing braces."""
    kept: dict[int, str] = {}
    bodies = _bodies(source.lines)
    for number in {source.line, *used} - {0}:
        first, last = next((each for each in bodies if each[0] <= number <= each[1]), (number, number))
        kept.update({n: source.lines[n] for n in range(first, last + 1) if n in source.lines})
    return source._replace(lines=dict(sorted(kept.items())))


def openmp_loops(lines: Mapping[int, str]) -> dict[int, int]:
    """The line of the loop behind each pragma of OpenMP's, by those of the pragma: clang gives the loop these."""
    found: dict[int, int] = {}
    ordered = sorted(lines)
    for number in ordered:
        if not PRAGMA.match(lines[number]):
            continue
        last = number
        while lines.get(last, "").rstrip().endswith("\\"):
            last += 1
        loop = next((each for each in ordered if last < each <= last + _NEAR and _FOR.search(lines[each])), None)
        if loop is not None and re.search(
            r"\b(?:for|simd|taskloop|loop)\b", " ".join(lines.get(n, "") for n in range(number, last + 1))
        ):
            found |= dict.fromkeys(range(number, last + 1), loop)
    return found


def _bodies(lines: Mapping[int, str]) -> list[tuple[int, int]]:
    """First and last line of what stands between braces of the outermost depth, with the line before those."""
    found, depth, start, head = [], 0, 0, 0
    for number, text in lines.items():
        plain = re.sub(r'//.*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', "", text)
        if depth == 0 and plain.strip() and not head:
            head = number
        if depth == 0 and (not plain.strip() or plain.rstrip().endswith(";") or plain.startswith("#")):
            head = 0
        for letter in plain:
            if letter == "{":
                start = start if depth else (head or number)
                depth += 1
            elif letter == "}" and depth:
                depth -= 1
                if depth == 0:
                    found.append((start, number))
                    head = 0
    return found


class CNames:
    """What the reports call arrays and loops."""

    def __init__(self, source: CSource, variables: Mapping[str, str], locals_: Mapping[str, str]) -> None:
        """`variables`: names of the module's by their IR name; `locals_`: of arrays on the stack."""
        self._source, self._variables, self._locals = source, variables, locals_

    def array(self, line: int, roots: frozenset[Root]) -> str:
        """What a pointer with those roots, used in `line`, points into."""
        names = {self.said(each) for each in roots} - {""}
        return " or ".join(sorted(names)) if names else f"memory of line {line}"

    def said(self, root: Root) -> str:
        """The name of what `root` is, "" where there is none."""
        if root.kind == "argument":
            return root.name
        if root.kind == "variable":
            return self._variables.get(root.name, root.name)
        if root.kind == "local":
            return self._locals.get(root.name, "a local array")
        if root.kind == "heap":
            return self._made_in(int(root.name))
        if root.kind == "pointed":
            kind, _, name = root.name.partition(" ")
            behind = self.said(Root(kind, name))
            return f"*{behind}" if behind else ""
        return f"memory of {root.name.lstrip('@')}" if root.kind == "foreign" else ""

    def _made_in(self, line: int) -> str:
        match = re.search(r"(?:^|[\s*;{])([A-Za-z_]\w*)\s*=[^=]", self._source.lines.get(line, ""))
        return match[1] if match else f"memory of line {line}"

    def text(self, line: int, array: str, write: bool) -> str:
        """An access where the source shows no expression for it."""
        return array

    def variable(self, line: int) -> str:
        """The variable of the loop that begins in `line`; "" where none is written there."""
        match = _COUNTED.search(self._source.lines.get(line, ""))
        return match[1] if match else ""
