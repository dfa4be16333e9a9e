"""What the compiler left of a loop, matched to its source; and why it is not vectorised, where it is not."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numba

from rooflab.loops.compiled import ahead, any_order, llvm_ir, remarks, time, vectorisation, with_lines
from rooflab.loops.compiled.ahead import Meanwhile
from rooflab.loops.lowered import lower
from rooflab.loops.read.access_patterns import Patterns
from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.decorated import python_function
from rooflab.loops.read.source import Source
from rooflab.loops.read.twin_text import Text
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes, root
from rooflab.loops.static import dependence
from rooflab.loops.twin.count import Counted
from rooflab.types.loop import Code

_IN_FULL = True, True  # of what `_found` is asked


class _Found(msgspec.Struct, frozen=True):
    """What the IR said, kept beside the compiled code: from disk, code comes without its IR."""

    loops: list[llvm_ir.InnerLoop]
    fast: list[llvm_ir.InnerLoop] | None
    remarks: list[remarks.Remark]


def examine(
    loop: Understood,
    compiled: time.Compiled,
    counted: Counted,
    *,
    fastmath: bool = False,
    why: bool = True,
    begun: Meanwhile | None = None,
) -> Code | None:
    """The compiled innermost loop; None where the IR shows none.

    Args:
        loop, compiled, counted: the same loop.
        fastmath: as it is where sums may be added up in another order; None where that changes nothing.
        why: also ask the compiler why it is not vectorised, which takes as long as all else; `why_not` is None
            without.
        begun: what asks it already.
    """
    source, types, arguments = loop
    rows = _over_rows(loop, counted.twin.text)
    compiler = _found(source, arguments, compiled, rows, (fastmath or why, why), begun)
    main = llvm_ir.main_loop(_that_run(compiler.loops, rows))
    if fastmath:
        before, main = main, llvm_ir.main_loop(_that_run(compiler.fast or (), rows))
        if main is None or before is None or main.lanes <= before.lanes:
            return None
    if main is None:
        return None
    passes = _passes(counted, main)
    read, write = _l1_bytes(counted, main, passes)
    trips, entries = _trips(counted)
    fast = llvm_ir.main_loop(tuple(compiler.fast or ()))
    return Code(
        lanes=main.lanes,
        loads=main.loads,
        stores=main.stores,
        flop=main.flop,
        read_bytes=read,
        write_bytes=write,
        gathers=main.gathers,
        # Sums in several lanes, and in several vectors: each pass adds once to each of them.
        chain=_chain(source, types, counted) if main.lanes == 1 else round(passes or 0) if fastmath else 0,
        calls=main.calls,
        instructions=main.instructions,
        passes=passes,
        trips=trips,
        entries=entries,
        why_not=None
        if main.lanes > 1 or not why
        else vectorisation.why_not(
            source,
            types,
            counted.twin.text,
            compiler.loops,
            main,
            1 if fast is None else fast.lanes,
            compiler.remarks,
        ),
    )


def is_found(loop: Understood, compiled: time.Compiled) -> bool:
    """Whether what the compiler left was looked at before, in full."""
    return _path(loop.arguments, compiled, _IN_FULL).exists()


def _over_rows(loop: Understood, text: Text) -> bool:
    """Whether an access in an innermost loop moves by more than one element, and is not picked by data."""
    patterns = Patterns(loop.source, loop.value_types)
    for each in text.innermost:
        node = vectorisation.innermost(loop.source, each.line)
        if not isinstance(node, ast.For):
            continue
        for one in ast.walk(node):
            base = root(one) if isinstance(one, ast.Subscript) else None
            if base is None or loop.value_types.array(base) is None or not isinstance(base, ast.Name):
                continue
            assert isinstance(one, ast.Subscript)
            unit = loop.arguments.layouts[base.id].unit
            if patterns.of(one, each.variable, unit) == "stride":
                return True
    return False


def _that_run(loops: Sequence[llvm_ir.InnerLoop], rows: bool) -> tuple[llvm_ir.InnerLoop, ...]:
    """The versions of a compiled loop that can be the one that ran.

    LLVM also writes a vectorised version for the case that rows are one element apart, tested when it runs;
    `rows`: they are not.
    """
    plain = tuple(each for each in loops if each.lanes == 1 or each.gathers)
    return plain if rows and plain else tuple(loops)


def _found(
    source: Source,
    arguments: Arguments,
    compiled: time.Compiled,
    rows: bool,
    asked: tuple[bool, bool],
    begun: Meanwhile | None = None,
) -> _Found:
    """What the IR says; `asked`: of a loop that is not vectorised also with sums in any order, and remarks."""
    path = _path(arguments, compiled, asked)
    for each in (path, _path(arguments, compiled, _IN_FULL)):
        if each.exists():
            try:
                return msgspec.json.decode(each.read_bytes(), type=_Found)
            except msgspec.DecodeError:
                # cut off, or of another version: found anew
                each.unlink(missing_ok=True)
    loops = _loops(compiled, arguments, fastmath=False)
    main = llvm_ir.main_loop(_that_run(loops, rows))
    fast, messages = None, []
    if main is not None and main.lanes == 1:
        fast = list(_loops(compiled, arguments, fastmath=True, begun=begun)) if asked[0] else None
        messages = (
            [] if not asked[1] else remarks.of(source, compiled.module.__file__, "serial", arguments.values, begun)
        )
    result = _Found(list(loops), fast, messages)
    path.write_bytes(msgspec.json.encode(result))
    return result


def _loops(
    compiled: time.Compiled, arguments: Arguments, *, fastmath: bool, begun: Meanwhile | None = None
) -> tuple[llvm_ir.InnerLoop, ...]:
    types = tuple(numba.typeof(value) for value in arguments.values)
    found = None if fastmath else with_lines.optimised(compiled.serial, types)
    if found is not None:
        return llvm_ir.inner_loops(found.ir, "serial")
    if fastmath and begun is not None and begun.remarks() is not None:
        left = any_order.place(compiled.module.__file__, types)
        ir = left.read_text("utf-8") if left.exists() else ""
        if ir:
            return llvm_ir.inner_loops(ir, "serial")
    options = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    done = lower.compiled_to_ir(python_function(compiled.serial), types, options)
    return llvm_ir.inner_loops(done.library.get_llvm_str(), "serial")


def _path(arguments: Arguments, compiled: time.Compiled, asked: tuple[bool, bool]) -> Path:
    types = [str(numba.typeof(value)) for value in arguments.values]
    where = Path(compiled.module.__file__)
    key = "|".join(
        [
            *types,
            repr(asked),
            numba.__version__,
            sys.version,
            *(Path(each).read_text("utf-8") for each in (llvm_ir.__file__, remarks.__file__, ahead.__file__)),
        ]
    )
    return where.with_name(f"{where.stem}_{hashlib.sha256(key.encode()).hexdigest()[:12]}.json")


def _trips(counted: Counted) -> tuple[int, int]:
    """Trips of the only innermost loop, and how often it was entered; zeros where there are several."""
    text, passes = counted.twin.text, counted.passes
    if len(text.innermost) != 1:
        return 0, 0
    inner = text.innermost[0]
    # A loop that lies in no other is entered once; no block around it need be counted.
    entries = 1 if inner.parent is None else int(passes[text.loops[inner.parent].block])
    return int(passes[inner.block]), entries


def _passes(counted: Counted, main: llvm_ir.InnerLoop) -> float | None:
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
    counted: Counted, main: llvm_ir.InnerLoop, passes: float | None
) -> tuple[float | None, float | None]:
    """Bytes read and written by all passes of the compiled loop and by the accesses around it."""
    if passes is None:
        return None, None
    number = counted.twin.text.innermost[0].number
    around = [_accessed(counted, number, write=each, inside=False) for each in (False, True)]
    return main.load_bytes * passes + around[0], main.store_bytes * passes + around[1]


def _chain(source: Source, types: ValueTypes, counted: Counted) -> int:
    """Operations of the innermost loop that wait for one another: one addition a trip for a sum."""
    text, node = counted.twin.text, _innermost(source, counted.twin.text)
    if node is None:
        return 0
    trips = int(counted.passes[text.innermost[0].block])
    if list(vectorisation.sums(node, types)):
        return trips
    if not isinstance(node, ast.For) or dependence.carried(node, types) is None:
        return 0
    number = text.innermost[0].number
    return sum(
        each.times * int(counted.passes[block])
        for (block, _), held in text.flop.items()
        for each in held
        if text.owners[block] == number
    )


def _innermost(source: Source, text: Text) -> ast.For | ast.While | None:
    return vectorisation.innermost(source, text.innermost[0].line) if len(text.innermost) == 1 else None
