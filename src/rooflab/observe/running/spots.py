"""Samples of stacks as functions, loops and lines of the source, and what takes each of them apart."""

from __future__ import annotations

import ast
import os
import shlex
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rooflab.observe.running.sampler import Frame, Stack
from rooflab.types.hotspots import Spot

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tinygrad")
_MAIN_PART = 0.3  # of a function's samples within a framework: then it is a program of it
_PRODUCTS = ("matmul", "dot", "einsum", "tensordot")
_MOST = 200  # rows of each kind that are kept


class Found(NamedTuple):
    """Functions, loops and lines of Python, and libraries of native code; most samples first."""

    functions: tuple[Spot, ...]
    loops: tuple[Spot, ...]
    lines: tuple[Spot, ...]
    libraries: tuple[Spot, ...]


class _Place(NamedTuple):
    """A function or loop in a source: its qualified name, its lines, its syntax (None without source)."""

    kind: str
    name: str
    file: str
    first: int | None
    last: int | None
    node: ast.AST | None = None


class _Tally:
    """Samples by place: all, own, native, and those within a framework."""

    def __init__(self) -> None:
        self.all: Counter[_Place] = Counter()
        self.own: Counter[_Place] = Counter()
        self.native: Counter[_Place] = Counter()
        self.framework: Counter[_Place] = Counter()


def find(stacks: Sequence[Stack], command: Sequence[str], *, native: bool) -> Found:
    """What `stacks` say; `native` where they have frames of native code."""
    tally, libraries = _Tally(), Counter[str]()
    for stack in stacks:
        _count(stack, tally, libraries)
    kinds = {kind: _spots(tally, kind, command, native) for kind in ("function", "loop", "line")}
    return Found(
        kinds["function"],
        kinds["loop"],
        kinds["line"],
        tuple(
            Spot(kind="function", name=name, file=name, samples=count, own=count, native=count)
            for name, count in libraries.most_common(_MOST)
        ),
    )


def _count(stack: Stack, tally: _Tally, libraries: Counter[str]) -> None:
    """Add one stack: a place counts once, however often it recurs."""
    python = [frame for frame in stack.frames if frame.line is not None and not _is_native(frame)]
    last = stack.frames[-1]
    in_native = _is_native(last)
    if in_native:
        libraries[os.path.basename(last.file) or last.name] += stack.seen
    seen: set[_Place] = set()
    inner: set[_Place] = set()
    framework_at = next((n for n, frame in enumerate(stack.frames) if _framework(frame.file)), len(stack.frames))
    for number, frame in enumerate(python):
        places = set(_places(frame))
        seen |= places
        if number == len(python) - 1:
            inner = places
    for place in seen:
        tally.all[place] += stack.seen
        if framework_at < len(stack.frames):
            tally.framework[place] += stack.seen
    for place in inner:
        tally.own[place] += stack.seen
        if in_native:
            tally.native[place] += stack.seen


def _is_native(frame: Frame) -> bool:
    return frame.line is None or not (frame.file.endswith((".py", ".pyw")) or frame.file.startswith("<"))


def _framework(file: str) -> str | None:
    """The framework whose file or library that is."""
    parts = file.replace("\\", "/").split("/")
    found = next((name for name in _FRAMEWORKS if name in parts), None)
    return found or ("torch" if parts[-1].startswith("libtorch") else None)


def _places(frame: Frame) -> Iterator[_Place]:
    """The function that `frame` is in, the loops of it around its line, and the line."""
    assert frame.line is not None
    source = _source(frame.file)
    if source is None:
        yield _Place("function", frame.name, frame.file, None, None)
        yield _Place("line", frame.name, frame.file, frame.line, frame.line)
        return
    function, loops = source.around(frame.line)
    yield function
    yield from loops
    yield _Place("line", function.name, frame.file, frame.line, frame.line)


class _Source:
    """A file of Python: its lines, functions and loops."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.lines = file, text.splitlines()
        self.tree = ast.parse(text)
        self.functions: list[_Place] = []
        self.loops: list[_Place] = []
        self.names = {node.name for node in self.tree.body if isinstance(node, _FUNCTIONS)}
        self._walk(self.tree, "")
        self.around = cache(self._around)

    def _walk(self, node: ast.AST, within: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = within
            if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                name = f"{within}.{child.name}" if within else child.name
            if isinstance(child, _FUNCTIONS):
                self.functions.append(self._place("function", name, child))
            elif isinstance(child, _LOOPS):
                self.loops.append(self._place("loop", within or "<module>", child))
            self._walk(child, name)

    def _place(self, kind: str, name: str, node: ast.AST) -> _Place:
        return _Place(kind, name, self.file, node.lineno, node.end_lineno, node)  # type: ignore[attr-defined]

    def _around(self, line: int) -> tuple[_Place, tuple[_Place, ...]]:
        """The innermost function around `line`, and the loops of that function around it."""

        def holds(place: _Place) -> bool:
            return place.first is not None and place.last is not None and place.first <= line <= place.last

        whole = _Place("function", "<module>", self.file, 1, len(self.lines), self.tree)
        function = max(
            (one for one in self.functions if holds(one)), key=lambda one: one.first or 0, default=whole
        )
        loops = (one for one in self.loops if holds(one) and one.name == function.name)
        # The head of a loop over a sequence belongs to it: its line is where the next element is taken.
        return function, tuple(loops)


@cache
def _source(file: str) -> _Source | None:
    """The source at `file`; None where it cannot be read or parsed."""
    if file.startswith("<"):
        return None
    try:
        return _Source(file, Path(file).read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


def _spots(tally: _Tally, kind: str, command: Sequence[str], native: bool) -> tuple[Spot, ...]:
    places = ((place, count) for place, count in tally.all.most_common() if place.kind == kind)
    # A line is worth a row for what it does itself; a function and a loop for what they call too.
    chosen = [one for one in places if kind != "line" or tally.own[one[0]]]
    if kind == "line":
        chosen.sort(key=lambda one: -tally.own[one[0]])
    return tuple(_spot(place, tally, command, native) for place, _ in chosen[:_MOST])


def _spot(place: _Place, tally: _Tally, command: Sequence[str], native: bool) -> Spot:
    source = _source(place.file)
    text = source.lines[place.first - 1].strip() if source and place.first and place.name else ""
    if place.kind == "function" and place.name == "<module>":
        text = ""
    within = tally.framework[place] / tally.all[place]
    takes_apart, why = _taken_apart(place, source, command, within)
    return Spot(
        kind=place.kind,  # type: ignore[arg-type]
        name=place.name,
        file=place.file,
        first_line=place.first,
        last_line=place.last,
        samples=tally.all[place],
        own=tally.own[place],
        native=tally.native[place] if native else None,
        text=text,
        takes_apart=takes_apart,
        why=why,
    )


def _taken_apart(
    place: _Place, source: _Source | None, command: Sequence[str], within: float
) -> tuple[str | None, str]:
    """The command that takes `place` apart, and what it needs; None for code that is not the program's own."""
    if source is None or not _is_own(place.file):
        return None, ""
    if place.kind == "line":
        return _product(source, place.first or 0)
    if within >= _MAIN_PART:
        return f"rooflab run --profile -- {shlex.join(command)}", "its time is within a framework"
    node = place.node
    if node is None or not any(_is_over_elements(one) for one in ast.walk(node) if isinstance(one, _LOOPS[:3])):
        return None, ""
    if place.name == "<module>":
        return None, "rooflab loop takes a function: put the loop into one"
    if place.name not in source.names:
        return None, "rooflab loop takes a function outside of classes and functions: move the loop to one"
    file = os.path.relpath(place.file)
    has = {"args", f"{place.name}_args"} & source.names
    needs = "" if has else f"with a function {place.name}_args(n) in that file, which makes its arguments"
    return f"rooflab loop {shlex.quote(file)}:{place.name}", needs


def _is_over_elements(loop: ast.AST) -> bool:
    """Whether a loop reads or writes elements or slices: what `rooflab loop` counts."""
    return any(isinstance(node, ast.Subscript) for node in ast.walk(loop))


def _is_own(file: str) -> bool:
    """Whether `file` is the program's, not the standard library's or an installed package's."""
    path = os.path.realpath(file)
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return "site-packages" not in path and not any(path.startswith(f"{one}{os.sep}") for one in installed if one)


def _product(source: _Source, line: int) -> tuple[str | None, str]:
    """`rooflab op matmul` for a line that multiplies matrices."""
    for node in ast.walk(source.tree):
        if getattr(node, "lineno", None) != line:
            continue
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if called in _PRODUCTS or (
            isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult)
        ):
            return "rooflab op matmul MxK KxN", "with the shapes of this line, --dtype and --time"
    return None, ""


def total(stacks: Iterable[Stack]) -> int:
    """All samples."""
    return sum(stack.seen for stack in stacks)
