"""What the compiler left of a loop, matched to its source; and why it is not vectorised, where it is not."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numba

from rooflab.loops import dependence, machine_code, original
from rooflab.loops.arguments import Arguments
from rooflab.loops.counting import Counted
from rooflab.loops.kinds import FLOATS, Kinds, indices, root
from rooflab.loops.patterns import moves_by_one
from rooflab.loops.source import Source
from rooflab.loops.twin_text import Text
from rooflab.types.loop import Code


class _Found(msgspec.Struct, frozen=True):
    """What the IR said, kept beside the compiled code: from disk, code comes without its IR."""

    loops: list[machine_code.InnerLoop]
    fast: list[machine_code.InnerLoop] | None


def examine(
    source: Source, kinds: Kinds, arguments: Arguments, compiled: original.Compiled, counted: Counted
) -> Code | None:
    """The compiled innermost loop; None where the IR shows none."""
    found = _found(source, arguments, compiled)
    main = machine_code.main_loop(tuple(found.loops))
    if main is None:
        return None
    passes = _passes(counted, main)
    read, write = _l1_bytes(counted, main, passes)
    trips, entries = _trips(counted)
    fast = machine_code.main_loop(tuple(found.fast or ()))
    return Code(
        lanes=main.lanes,
        loads=main.loads,
        stores=main.stores,
        flop=main.flop,
        read_bytes=read,
        write_bytes=write,
        gathers=main.gathers,
        chain=_chain(source, kinds, counted) if main.lanes == 1 else 0,
        calls=main.calls,
        instructions=main.instructions,
        passes=passes,
        trips=trips,
        entries=entries,
        why_not=None if main.lanes > 1 else _why_not(source, kinds, counted.twin.text, main, fast),
    )


def _found(source: Source, arguments: Arguments, compiled: original.Compiled) -> _Found:
    path = _path(arguments, compiled)
    if path.exists():
        try:
            return msgspec.json.decode(path.read_bytes(), type=_Found)
        except msgspec.DecodeError:
            # cut off, or of another version: found anew
            path.unlink(missing_ok=True)
    loops = _loops(compiled, arguments, fastmath=False)
    main = machine_code.main_loop(loops)
    fast = None if main is None or main.lanes > 1 else list(_loops(compiled, arguments, fastmath=True))
    made = _Found(list(loops), fast)
    path.write_bytes(msgspec.json.encode(made))
    return made


def _loops(
    compiled: original.Compiled, arguments: Arguments, *, fastmath: bool
) -> tuple[machine_code.InnerLoop, ...]:
    serial: Any = compiled.serial
    if not fastmath and not serial.stats.cache_hits and len(serial.overloads) == 1:
        # Compiled just now: its IR is at hand.
        return machine_code.inner_loops(machine_code.ir_of(serial), "serial")
    function: Any = machine_code.recompiled(serial, fastmath)
    function.compile(tuple(numba.typeof(value) for value in arguments.values))
    return machine_code.inner_loops(machine_code.ir_of(function), "serial")


def _path(arguments: Arguments, compiled: original.Compiled) -> Path:
    types = [str(numba.typeof(value)) for value in arguments.values]
    where = Path(compiled.module.__file__)
    key = "|".join([*types, numba.__version__, sys.version, Path(machine_code.__file__).read_text("utf-8")])
    return where.with_name(f"{where.stem}_{hashlib.sha256(key.encode()).hexdigest()[:12]}.json")


def _trips(counted: Counted) -> tuple[int, int]:
    """Trips of the only innermost loop, and how often it was entered; zeros where there are several."""
    text, passes = counted.twin.text, counted.passes
    if len(text.innermost) != 1:
        return 0, 0
    inner = text.innermost[0]
    around = 0 if inner.parent is None else text.loops[inner.parent].block
    return int(passes[inner.block]), int(passes[around])


def _passes(counted: Counted, main: machine_code.InnerLoop) -> float | None:
    """Passes of the compiled loop that do what the source's innermost loop does; None where it has several."""
    text, passes = counted.twin.text, counted.passes
    if len(text.innermost) != 1:
        return None
    number = text.innermost[0].number
    flop = sum(
        each.times * int(passes[block])
        for (block, _), held in text.flop.items()
        for each in held
        if text.owners[block] == number
    )
    read, write = (_accessed(counted, number, write=each, inside=True) for each in (False, True))
    if flop and main.flop:
        return flop / main.flop
    if write and main.store_bytes:
        return write / main.store_bytes
    return read / main.load_bytes if read and main.load_bytes else None


def _accessed(counted: Counted, loop: int, *, write: bool, inside: bool) -> int:
    """Bytes of the source's loads or stores inside, or outside, of a loop."""
    text, passes = counted.twin.text, counted.passes
    return sum(
        int(passes[ref.block]) * ref.itemsize
        for ref in text.refs
        if ref.write == write and (text.owners[ref.block] == loop) == inside
    )


def _l1_bytes(
    counted: Counted, main: machine_code.InnerLoop, passes: float | None
) -> tuple[float | None, float | None]:
    """Bytes read and written by all passes of the compiled loop and by the accesses around it."""
    if passes is None:
        return None, None
    number = counted.twin.text.innermost[0].number
    around = [_accessed(counted, number, write=each, inside=False) for each in (False, True)]
    return main.load_bytes * passes + around[0], main.store_bytes * passes + around[1]


def _chain(source: Source, kinds: Kinds, counted: Counted) -> int:
    """Operations of the innermost loop that wait for one another: one addition a trip for a sum."""
    text, node = counted.twin.text, _innermost(source, counted.twin.text)
    if node is None:
        return 0
    trips = int(counted.passes[text.innermost[0].block])
    if list(_sums(node, kinds)):
        return trips
    if not isinstance(node, ast.For) or dependence.carried(node, kinds) is None:
        return 0
    number = text.innermost[0].number
    return sum(
        each.times * int(counted.passes[block])
        for (block, _), held in text.flop.items()
        for each in held
        if text.owners[block] == number
    )


def _why_not(
    source: Source,
    kinds: Kinds,
    text: Text,
    main: machine_code.InnerLoop,
    fast: machine_code.InnerLoop | None,
) -> str:
    """The likeliest reason, by trial (fastmath) and by rule."""
    node = _innermost(source, text)
    if main.calls:
        names = ", ".join(main.calls)
        return f"it calls {names}, of which the compiler has no vector version (Intel's SVML, icc_rt, brings some)"
    if node is None:
        return "it has several innermost loops; time each in a function of its own to see why"
    sums = list(_sums(node, kinds))
    if sums and fast is not None and fast.lanes > 1:
        return (
            f"the sum in {sums[0]} keeps its order, as rounding depends on it; njit(fastmath=True) gives that up"
            f" and vectorises it ({fast.lanes} lanes)"
        )
    variable = node.target.id if isinstance(node, ast.For) and isinstance(node.target, ast.Name) else ""
    if isinstance(node, ast.While) or any(isinstance(n, (ast.Break, ast.Return)) for n in ast.walk(node)):
        return "how often it runs is decided while it runs (while, break or return)"
    branch = next((n for n in ast.walk(node) if isinstance(n, (ast.If, ast.IfExp))), None)
    scattered = [n for n in _elements(node, kinds) if any(_indirect(each, kinds) for each in indices(n))]
    if scattered:
        return f"line {scattered[0].lineno}: {ast.unparse(scattered[0])} is a gather"
    carried = dependence.carried(node, kinds) if isinstance(node, ast.For) else None
    if carried:
        return f"an iteration needs the one before: {carried}"
    if branch is not None:
        return f"line {branch.lineno}: a branch on data"
    strided = [n for n in _elements(node, kinds) if not moves_by_one(n, variable)]
    if strided:
        return (
            f"line {strided[0].lineno}: {ast.unparse(strided[0])} moves by more than one element with {variable};"
            " swap the loops, or the array's axes"
        )
    if sums:
        return f"the sum in {sums[0]} keeps its order, as rounding depends on it"
    if main.selects:
        return (
            "numba must test whether an index is negative (it would count from the end), as it cannot see that"
            " the loop starts at 0 or above: let it run from 0 and add its start to the indices of no array, or"
            " give bounds as np.uint64"
        )
    return "the compiler gives no reason"


def _innermost(source: Source, text: Text) -> ast.For | ast.While | None:
    if len(text.innermost) != 1:
        return None
    line = text.innermost[0].line
    found = [n for n in ast.walk(source.tree) if isinstance(n, (ast.For, ast.While)) and n.lineno == line]
    return found[-1] if found else None


def _sums(node: ast.AST, kinds: Kinds) -> Iterator[str]:
    """What the loop adds up in: targets of += on floating-point numbers that stay in place while it runs."""
    variable = node.target.id if isinstance(node, ast.For) and isinstance(node.target, ast.Name) else ""
    for each in ast.walk(node):
        if isinstance(each, ast.AugAssign) and isinstance(each.op, (ast.Add, ast.Sub, ast.Mult)):
            stays = not any(isinstance(n, ast.Name) and n.id == variable for n in ast.walk(each.target))
            if stays and kinds.of(each.target) in FLOATS:
                yield ast.unparse(each.target)


def _elements(node: ast.AST, kinds: Kinds) -> list[ast.Subscript]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Subscript) and kinds.array(root(n)) is not None]


def _indirect(index: ast.expr, kinds: Kinds) -> bool:
    return bool(_elements(index, kinds))
