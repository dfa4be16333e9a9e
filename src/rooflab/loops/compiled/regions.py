"""How the trips of loops over prange divide among threads: the work of the longest share, by number of threads.

numba deals the trips of such a loop in blocks as equal in number as they can be (`gufunc_scheduler.cpp`), one to
each thread. Where trips differ in work, as in a triangular loop, the thread with the most holds up the others. The
function runs once more on one core, in its order, with a sum of the work done so far taken at the start of each
trip: a pass of a loop counts its operations, whatever they take. Of the thread with the most it is kept how many
passes of each loop inside are its own: what they take is the model's to say.
"""

from __future__ import annotations

import ast
import copy
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rooflab.types.loop import LoopShare, Region

THREADS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
# Columns of what is noted of each loop over prange in its first row, in the others of those inside, whose work are
# their passes.
_ENTRIES, _TRIPS, _WORK, _LONGEST = 0, 1, 2, 3
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)
_CALL = 10  # operations that a call stands for
_NOTES, _SO_FAR, _PASSES = "rl_notes", "rl_so_far", "rl_passes_"


def of_tree(
    tree: ast.FunctionDef,
    scope: Mapping[str, Any],
    values: Callable[[], tuple[Any, ...]],
    aliases: frozenset[str] = frozenset(),
    trips: Mapping[int, int] | None = None,
) -> tuple[Region, ...]:
    """The loops over prange of `tree`, of one run; those inside others are in order.

    Args:
        tree: a function, line numbers those of its file.
        scope: what it takes from outside, by name.
        values: gives its arguments in order, which the run changes.
        aliases: further names of prange.
        trips: how often the body of each loop ran, by its line, where that was counted.
    """
    names = {"prange", *aliases}
    alike = None if trips is None else _alike(tree, names, trips)
    return _counted(tree, scope, values, names) if alike is None else alike


def follow_from_trips(tree: ast.FunctionDef, names: Set[str]) -> bool:
    """Whether counted trips say how those of the loops over prange of `tree` divide, without a run for it."""
    once = {each.lineno: 1 for each in ast.walk(tree) if isinstance(each, ast.For)}
    return _alike(tree, set(names), once) is not None


def _alike(tree: ast.FunctionDef, names: set[str], trips: Mapping[int, int]) -> tuple[Region, ...] | None:
    """The same where it follows from the trips counted: no trip runs more loops than another. None elsewhere."""
    found: list[Region] = []

    def visit(body: list[ast.stmt], entered: int | None, varying: set[str]) -> bool:
        for node in body:
            if isinstance(node, ast.For) and _is_prange(node.iter, names):
                ran, known = trips.get(node.lineno, 0), entered
                if not (known and ran) or _named(node.iter) & varying or not _same_loops(node, varying):
                    return False
                each = ran / known
                shares = tuple(-(-each // min(n, each)) / each for n in THREADS)
                found.append(
                    Region(
                        line=node.lineno,
                        last_line=node.end_lineno or node.lineno,
                        variable=ast.unparse(node.target),
                        entries=known,
                        trips=ran,
                        threads=THREADS,
                        shares=shares,
                    )
                )
            elif isinstance(node, (ast.For, ast.While)):
                inside = varying | _assigned(node)
                count = trips.get(node.lineno) if isinstance(node, ast.For) else None
                if not visit(node.body, count, inside) or not visit(node.orelse, None, inside):
                    return False
            elif isinstance(node, ast.If) and not (
                visit(node.body, None, varying) and visit(node.orelse, None, varying)
            ):
                return False
        return True

    return tuple(found) if visit(tree.body, 1, set()) else None


def _same_loops(node: ast.For, varying: set[str]) -> bool:
    """Whether each trip of `node` runs the same loops as often, as far as names say."""
    changing = varying | _assigned(node)
    for each in ast.walk(node):
        if isinstance(each, (ast.While, ast.Break, ast.Continue)):
            return False
        if (
            isinstance(each, ast.For)
            and each is not node
            and (_named(each.iter) & changing or _subscripts(each.iter))
        ):
            return False
        if isinstance(each, ast.If) and any(isinstance(one, ast.For) for one in ast.walk(each)):
            return False
    return True


def _assigned(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _named(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _subscripts(node: ast.expr) -> bool:
    """Whether data decide `node`: an element of an array, not one of its sides."""
    return any(
        isinstance(each, ast.Subscript) and not ast.unparse(each.value).endswith(".shape")
        for each in ast.walk(node)
    )


def _counted(
    tree: ast.FunctionDef, scope: Mapping[str, Any], values: Callable[[], tuple[Any, ...]], names: set[str]
) -> tuple[Region, ...]:
    marked = copy.deepcopy(tree)
    marked.decorator_list = []
    found: list[_Found] = []
    marked.body = list(_marked(marked.body, found, names))
    if not found:
        return ()
    marked.args.args.append(ast.arg(_NOTES))
    most = 1 + max(len(each.inner) for each in found)
    # each number that is summed up before it is first set
    passes = "".join(f"\n{_PASSES}{number} = 0" for number in range(1, most))
    marked.body[:0] = ast.parse(f"{_SO_FAR} = rl_room(2, {most})\nrl_work = 0.0\nrl_trip = 0{passes}").body
    module = ast.fix_missing_locations(ast.Module([marked], []))
    room, close = _helpers()
    known: dict[str, Any] = {**scope, "rl_room": room, "rl_close": close}
    exec(compile(module, "<loops over prange, marked>", "exec"), known)
    function = njit(nogil=True, error_model="numpy")(known[marked.name])
    notes = np.zeros((len(found), most, _LONGEST + len(THREADS)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(*values(), notes)
    return tuple(_region(each, rows) for each, rows in zip(found, notes.tolist(), strict=True))


class _Found(NamedTuple):
    """A loop over prange, and those inside it in the order in which their passes are counted."""

    node: ast.For
    inner: list[ast.For | ast.While]


def _region(found: _Found, rows: list[list[float]]) -> Region:
    node, (row, *inside) = found.node, rows
    loops = tuple(
        LoopShare(line=each.lineno, last_line=_last_line(each), shares=_shares(passes))
        for each, passes in zip(found.inner, inside, strict=False)
        if passes[_WORK]
    )
    alike = all(np.allclose(each.shares, _shares(row)) for each in loops)
    return Region(
        line=node.lineno,
        last_line=_last_line(node),
        variable=ast.unparse(node.target),
        entries=round(row[_ENTRIES]),
        trips=round(row[_TRIPS]),
        threads=THREADS,
        shares=_shares(row),
        loops=() if alike else loops,
    )


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _shares(row: list[float]) -> tuple[float, ...]:
    return tuple(longest / row[_WORK] if row[_WORK] else 1.0 for longest in row[_LONGEST:])


def _marked(body: list[ast.stmt], found: list[_Found], names: set[str]) -> Iterator[ast.stmt]:
    """`body` with every outermost loop over prange in order, and marked; they are added to `found`."""
    for node in body:
        if isinstance(node, ast.For) and _is_prange(node.iter, names):
            yield from _region_of(node, found, names)
            continue
        for part in ("body", "orelse"):
            if getattr(node, part, None):
                setattr(node, part, list(_marked(getattr(node, part), found, names)))
        yield node


def _is_prange(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names


def _region_of(node: ast.For, found: list[_Found], names: set[str]) -> Iterator[ast.stmt]:
    number, inner = len(found), list[ast.For | ast.While]()
    found.append(_Found(copy.deepcopy(node), inner))
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and _is_prange(each, names):
            each.func = ast.Name("range", ast.Load())
    _weighed(node, inner)
    passes = [f"{_PASSES}{each}" for each in range(1, 1 + len(inner))]
    noted = "\n".join(f"{_SO_FAR}[rl_trip, {n}] = {each}" for n, each in enumerate(["rl_work", *passes]))
    node.body[:0] = ast.parse(f"{noted}\nrl_trip += 1").body
    count = f"rl_count = len({ast.unparse(node.iter)})"
    room = f"if rl_count >= len({_SO_FAR}):\n    {_SO_FAR} = rl_room(2 * rl_count, {_SO_FAR}.shape[1])"
    zeros = "\n".join(f"{each} = 0" for each in passes)
    yield from ast.parse(f"{count}\n{room}\nrl_work = 0.0\nrl_trip = 0\n{zeros}").body
    yield node
    yield from ast.parse(f"{noted}\nrl_close({_NOTES}, {number}, {_SO_FAR}, rl_trip, {len(inner)})").body


def _weighed(loop: ast.For | ast.While, counted: list[ast.For | ast.While]) -> None:
    """Add to the work, at the start of each pass of `loop` and of those inside, what the pass itself does.

    Those inside are added to `counted`, as they were, and their passes counted.
    """
    inner: list[ast.For | ast.While] = []
    weight = 1
    for each in (one for statement in loop.body for one in _own(statement, inner)):
        if isinstance(each, ast.Call):
            weight += 0 if ast.unparse(each.func) in ("range", "len") else _CALL
        else:
            weight += isinstance(each, _OPERATIONS)
    for each in inner:
        counted.append(copy.deepcopy(each))
        number = len(counted)
        _weighed(each, counted)
        each.body[:0] = ast.parse(f"{_PASSES}{number} += 1").body
    loop.body[:0] = ast.parse(f"rl_work += {weight}.0").body


def _own(node: ast.AST, inner: list[ast.For | ast.While]) -> Iterator[ast.AST]:
    """`node` and what lies in it, but not in a loop inside it; those loops are added to `inner`."""
    if isinstance(node, (ast.For, ast.While)):
        inner.append(node)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _own(child, inner)


@functools.cache
def _helpers() -> tuple[Any, Any]:
    """`_room` and `_close`, compiled once for all loops: what they use takes numba longer than most loops do."""
    room = njit("float64[:, ::1](int64, int64)", nogil=True, cache=True)(_room)
    close = njit("void(float64[:, :, ::1], int64, float64[:, ::1], int64, int64)", nogil=True, cache=True)(_close)
    return room, close


def _room(trips: int, numbers: int) -> np.ndarray:
    """Room for what is noted at the start of each trip."""
    return np.zeros((trips, numbers))


def _close(every: np.ndarray, number: int, so_far: np.ndarray, trips: int, loops: int) -> None:
    """Add a run of a loop to its notes: `so_far[k]` is the work and the passes before trip k, the last all."""
    notes = every[number]
    notes[0, _ENTRIES] += 1
    notes[0, _TRIPS] += trips
    for each in range(1 + loops):
        notes[each, _WORK] += so_far[trips, each]
    for place in range(len(THREADS)):
        blocks = min(THREADS[place], trips)
        longest, begin, end = 0.0, 0, 0
        for block in range(blocks):
            first, last = block * trips // blocks, (block + 1) * trips // blocks
            if so_far[last, 0] - so_far[first, 0] > longest:
                longest, begin, end = so_far[last, 0] - so_far[first, 0], first, last
        for each in range(1 + loops):
            notes[each, _LONGEST + place] += so_far[end, each] - so_far[begin, each]


def scope_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """What a Python function takes from its module and from the functions around it, by name."""
    names = dict(fn.__globals__)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        names[name] = cell.cell_contents
    return names
