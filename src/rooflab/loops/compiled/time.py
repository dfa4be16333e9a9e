"""The loop itself, compiled: checked against its twin, timed warm and cold, on one core and on all."""

from __future__ import annotations

import ast
import copy
import functools
import math
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops.compiled import flushed
from rooflab.loops.compiled.kept_code import Code, Text
from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.source import Source
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes, root
from rooflab.loops.static import dependence
from rooflab.loops.twin import generated_files
from rooflab.timing import Timing, time_call, time_once

_OPTIONS = 'nogil=True, error_model="numpy"'
COLD_ROUNDS, PATIENCE_S = 3, 1.0
# A core whose other thread belongs to a neighbour is a third slower for a millisecond or for a second: short
# rounds fall into the moments between, and many of them find such on several cores at once.
WARM_RUN_S, WARM_S = 5e-4, 0.06  # of a round; of all of them, as many again twice where few are alike
LEAST_ROUNDS, MOST_ROUNDS = 5, 100
FEWEST_ROUNDS = 3  # of a part of them
LEAST_TURNS, MOST_TURNS, TURN_S = 3, 10, 0.003
TURNS_S = 0.3  # of all of them: what takes long is called often enough in that
LONG_S = 0.05  # of a call beside which the filling of caches is nothing
_ALIKE = 1.02  # turns that differ by less took equally long
# How numba writes the types of a store that it cannot do.
_STORED = re.compile(r"setitem\(array\((?P<item>\w+), .*\), .*, (?P<value>\w+)\)")
_UNKNOWN = re.compile(r"(?P<what>\w+)\((?P<types>.*)\)")
_RAISED = re.compile(r"\.*\s*Raised from .*?(?:\((?P<line>\d+)\))?$")  # what it adds where bytecode is unknown
_SAME = {4: 1e-4, 8: 1e-9}  # relative; sums of parallel loops are added in another order
PLAIN = "plain Python"  # what a function is called that is run without numba
_DIGITS = 20  # of a whole number, that a message shows
_WALKS = 8.0  # roundings of a sum in units of the root of their number: four were seen, as those of one size lean


class Copies(Protocol):
    """Arguments of which each run can have copies of its own."""

    def copied(self) -> tuple[Any, ...]:
        """Them in order, with every array copied."""
        ...


class Compiled(NamedTuple):
    """A loop compiled for one core, and for all where it may be.

    Attributes:
        serial, parallel: compiled functions; `parallel` is None where `verdict` says why.
        module: what they are defined in.
    """

    serial: Callable[..., Any]
    parallel: Callable[..., Any] | None
    verdict: dependence.Verdict
    module: Any


class Texts(NamedTuple):
    """A loop as modules that numba compiles: for one core, and for all where it may be.

    Attributes:
        serial, parallel: modules; `parallel` is None where `verdict` says why.
    """

    serial: Text
    parallel: Text | None
    verdict: dependence.Verdict


def texts(loop: Understood, *, fastmath: bool = False) -> Texts:
    """`loop` as modules that numba compiles; `fastmath`: sums in any order."""
    source = loop.source
    serial = _function(source.tree, "serial", loop.value_types)
    options = f"{_OPTIONS}, fastmath=True" if fastmath else _OPTIONS
    preamble = generated_files.preamble(source)
    own = Text(f"loop_{source.name}", f"{preamble}\n\n@njit(cache=True, {options})\n{serial}\n", "serial")
    verdict = dependence.parallel(loop)
    if verdict.tree is None:
        return Texts(own, None, verdict)
    spread = ast.unparse(_named(verdict.tree, "parallel"))
    text = f"{preamble}\n\n@njit(cache=True, parallel=True, {_OPTIONS})\n{spread}\n"
    return Texts(own, Text(f"prange_{source.name}", text, "parallel"), verdict)


def build(loop: Understood, *, fastmath: bool = False) -> Compiled:
    """`loop` compiled by numba on its first call, or found compiled on disk; `fastmath`: sums in any order."""
    found = texts(loop, fastmath=fastmath)
    serial, parallel = found.serial.compiled(), None if found.parallel is None else found.parallel.compiled()
    module = generated_files.module(found.serial.stem, found.serial.text)
    return Compiled(serial, parallel, found.verdict, module)


def _named(tree: ast.FunctionDef, name: str) -> ast.FunctionDef:
    renamed = copy.deepcopy(tree)
    renamed.name = name
    return renamed


def _function(tree: ast.FunctionDef, name: str, types: ValueTypes) -> str:
    renamed = _named(tree, name)
    for node in ast.walk(renamed):
        if isinstance(node, ast.Call) and types.called(node) == "prange":
            node.func = ast.Name("range", ast.Load())
    return ast.unparse(ast.fix_missing_locations(renamed))


def compile_error(error: Exception, source: Source) -> RooflabError:
    """The refusal of numba in one line: which line of the source, and why."""
    text = _line_of(error)
    where_text = f" at {text!r}" if text else ""
    return RooflabError(
        f"{_place(source, text)}: {source.name}: numba cannot compile it{where_text}: {reason(error)}"
    )


def refusals() -> tuple[type[Exception], ...]:
    """The errors with which numba refuses a function."""
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    # what its lowering does not know, numba says with Python's own error
    return NumbaError, UnsupportedBytecodeError, NotImplementedError


def line_of(error: Exception) -> int | None:
    """The line of the source that numba refused; None where it does not say."""
    said = _RAISED.search(str(error))
    return getattr(getattr(error, "loc", None), "line", int(said["line"]) if said and said["line"] else None)


def reason(error: Exception) -> str:
    """Why numba refused, in one line."""
    lines = [line.strip() for line in _RAISED.sub("", str(error)).splitlines() if line.strip()]
    first = next((line for line in lines if not line.startswith(("Failed in", "-", "During:"))), "unknown")
    signature = next((line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")), "")
    stored = _STORED.fullmatch(signature)
    unknown = _UNKNOWN.fullmatch(signature) if first.startswith("No implementation of") else None
    if stored:
        return f"a {stored['value']} cannot be stored in an array of {stored['item']}"
    if unknown:
        return f"it knows no {unknown['what']} of {unknown['types']}"
    return f"{first} {signature}" if first.endswith(":") and signature else first


def _line_of(error: Exception) -> str:
    import linecache

    where = getattr(error, "loc", None)
    return "" if where is None else linecache.getline(where.filename, where.line).strip()


def _place(source: Source, text: str) -> str:
    """Where the source says `text`, a line of a generated file: "FILE:LINE", else that of the function."""
    same = (
        n for n in ast.walk(source.tree) if isinstance(n, ast.stmt) and ast.unparse(n).partition("\n")[0] == text
    )
    return source.at(next(same, source.tree))


def verify(
    name: str,
    results: tuple[Any, tuple[Any, ...]],
    wanted: tuple[Any, tuple[Any, ...]],
    summed: int = 0,
) -> str | None:
    """What differs between a (result, arguments after the run) and what is `wanted`; None where nothing does.

    Args:
        name: of what ran.
        results, wanted: to be compared.
        summed: how many numbers may have been added up in another order.
    """
    pairs = [*_parts("its result", results[0], wanted[0])]
    for n, (a, b) in enumerate(zip(results[1], wanted[1], strict=True), 1):
        pairs += _parts(f"argument {n}", a, b)
    for what, got, expected in pairs:
        if got is None and expected is None:
            continue
        a, b = np.asarray(got), np.asarray(expected)
        if np.array_equal(a, b):
            # several times faster than the tolerant comparison, and most often enough
            continue
        if a.dtype.kind in "fc":
            size = a.itemsize if a.dtype.kind == "f" else a.itemsize // 2
            epsilon = float(np.finfo(a.dtype).eps)
            rtol = max(_SAME.get(size, 1e-9), _WALKS * epsilon * math.sqrt(summed))
            scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
            same = np.allclose(a, b, rtol=rtol, atol=rtol * scale, equal_nan=True)
        else:
            same = np.array_equal(a, b)
        if not same:
            return f"{name}: {what} differs from the counted run{_why(name, a, b)}"
    return None


def _why(name: str, got: np.ndarray, counted: np.ndarray) -> str:
    """Of plain Python and one whole number: both, and that compiled ones are of 64 bits; "" of others."""
    if name != PLAIN or got.ndim or counted.ndim or got.dtype.kind not in "iuO" or counted.dtype.kind not in "iu":
        return ""
    said = [
        text if len(text) <= _DIGITS else f"a number of {len(text)} digits" for text in (str(got), str(counted))
    ]
    sizes = "compiled whole numbers have 64 bits, Python's as many as they need, NumPy's those of their type"
    return f": {said[0]}, {said[1]} counted; {sizes}"


def _parts(what: str, got: Any, expected: Any) -> Iterator[tuple[str, Any, Any]]:
    """What is compared, with its name: tuples and lists by their parts, which may be of any shapes."""
    several = (tuple, list)
    if isinstance(got, several) and isinstance(expected, several) and len(got) == len(expected):
        for a, b in zip(got, expected, strict=True):
            yield from _parts(what, a, b)
    else:
        yield what, got, expected


def run_once(function: Callable[..., Any], arguments: Copies) -> tuple[Any, tuple[Any, ...]]:
    """(result, arguments after the run) of one call on copies of the arguments."""
    copies = arguments.copied()
    with warnings.catch_warnings():
        # numba warns of loops that it did not spread over threads; the report says it in its own words
        warnings.simplefilter("ignore")
        result = function(*copies)
    kinds = {each.return_type for each in getattr(function, "nopython_signatures", ())}
    return _typed(result, *kinds) if len(kinds) == 1 else result, copies


def _typed(result: Any, kind: Any) -> Any:
    """A result of numba's type `kind` with numbers of fp32 as such: those of Python have more digits."""
    if isinstance(result, tuple) and len(getattr(kind, "types", ())) == len(result):
        return tuple(_typed(*each) for each in zip(result, kind.types, strict=True))
    return np.float32(result) if isinstance(result, float) and str(kind) == "float32" else result


def plain_python(source: Source, arguments: Arguments) -> tuple[Any, tuple[Any, ...]]:
    """(result, arguments after the run) of the loop as Python itself runs it, under the source's line numbers."""
    scope: dict[str, Any] = {}
    exec(generated_files.preamble(source), scope)
    body = ast.fix_missing_locations(ast.Module([_named(source.tree, "plain")], []))
    exec(compile(body, source.path, "exec"), scope)
    copies = arguments.copied()
    with np.errstate(all="ignore"):
        return scope["plain"](*copies), copies


def steered_by_data(source: Source, types: ValueTypes) -> bool:
    """Whether a run may take another path on what the last one wrote: then each run needs fresh inputs."""
    return steered(source.tree, lambda node: types.array(node) is not None)


def steered(tree: ast.FunctionDef, is_array: Callable[[ast.expr], bool]) -> bool:
    """Whether what `tree` stores in an array also decides which way it takes, or where it stores."""
    written, steering = set(), set()
    comes_from: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_array(root(node)):
            steering |= _named_values(node.slice)
            if isinstance(node.ctx, ast.Store):
                written |= _named_values(root(node))
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
            steering |= _named_values(node.test)
        elif isinstance(node, ast.For):
            steering |= _named_values(node.iter)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in _named_values(target) if not isinstance(target, ast.Subscript) else ():
                    comes_from.setdefault(name, set()).update(_named_values(node.value))
    for _ in comes_from:
        steering |= {each for name in steering for each in comes_from.get(name, ())}
    return bool(written & steering)


def _named_values(node: ast.AST) -> set[str]:
    """Names whose values `node` takes: of `a.shape[0]` and `len(a)` none, as no run changes them."""
    if isinstance(node, ast.Attribute):
        return set()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return set()
    if isinstance(node, ast.Name):
        return {node.id}
    return {name for child in ast.iter_child_nodes(node) for name in _named_values(child)}


def warm(
    function: Callable[..., Any],
    arguments: Copies,
    fresh: bool,
    part: float = 1.0,
) -> Timing:
    """Seconds of a call that finds in the caches what the last one left there.

    Args:
        function: compiled.
        arguments: of the loop.
        fresh: give each run the inputs anew (copied before the clock starts, so warm as well).
        part: of the usual number of rounds.
    """
    copies = arguments.copied()
    call = calling(function, copies)
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    rounds = rounds_of(once, part)
    if fresh:
        return _each([lambda _: None] * rounds, function, arguments)
    if once > PATIENCE_S / LEAST_ROUNDS:
        # A call of that length needs neither calibration nor repetition within a round.
        seconds = sorted(_seconds(call) for _ in range(rounds))
        return _timing(seconds)
    return time_call(lambda: call(), rounds=rounds, run_s=WARM_RUN_S, more=2 * rounds)


def rounds_of(once_s: float, part: float = 1.0) -> int:
    """How many rounds of warm calls are timed of what takes `once_s`, or a part as many: within all patience."""
    rounds = min(MOST_ROUNDS, int(WARM_S / max(once_s, WARM_RUN_S)))
    rounds = max(LEAST_ROUNDS if part == 1.0 else FEWEST_ROUNDS, math.ceil(part * rounds))
    return max(2, min(rounds, int(PATIENCE_S / max(once_s, 1e-9))))


def in_turns(loops: Sequence[tuple[Callable[..., Any], Copies, bool]]) -> list[float]:
    """Least seconds of a warm call of each of several functions, called in turns.

    A busy moment then spoils not one of them alone. There are as many turns as it takes for each to come near its
    best a second time, and two where they take long.

    Args:
        loops: compiled functions, their arguments, and whether each run needs its inputs anew.
    """
    timed = [_turn(*each) for each in loops]
    seconds: list[list[float]] = [[] for _ in loops]
    until = time.perf_counter() + TURNS_S
    while len(seconds[0]) < 2 or (
        time.perf_counter() < until
        and (len(seconds[0]) < LEAST_TURNS or (len(seconds[0]) < MOST_TURNS and not all(map(_confirmed, seconds))))
    ):
        for held, once in zip(seconds, timed, strict=True):
            held.append(once())
    return [min(each) for each in seconds]


def _turn(function: Callable[..., Any], arguments: Copies, fresh: bool) -> Callable[[], float]:
    """What runs a function for `TURN_S` or once, and says how many seconds a call took."""
    if fresh:
        return lambda: _seconds(calling(function, arguments.copied()))
    call = calling(function, arguments.copied())
    call()
    once_s = _seconds(call)
    calls = max(1, math.ceil(TURN_S / max(once_s, 1e-7)))

    def once() -> float:
        if once_s < LONG_S:
            # the other functions have taken its data out of the caches since
            call()
        return time_once(lambda: call(), calls)

    return once


def _confirmed(seconds: list[float]) -> bool:
    """Whether the two shortest are alike."""
    best, second, *_ = sorted(seconds)
    return second <= _ALIKE * best


def calling(function: Callable[..., Any], values: tuple[Any, ...]) -> Callable[[], Any]:
    """What calls `function` with `values`, prepared where it can be: that then is not timed."""
    return function.bound(values) if isinstance(function, Code) else functools.partial(function, *values)


def cold(function: Callable[..., Any], arguments: Copies, cache_bytes: int, fresh: bool) -> Timing:
    """Seconds of a call that finds nothing it needs in any cache.

    Its arrays are flushed line by line where the processor lets one; elsewhere memory several times as large as
    caches of `cache_bytes` is written.
    """
    copies = None if fresh else arguments.copied()
    return _each([_emptier(cache_bytes)] * COLD_ROUNDS, function, arguments, copies)


def _emptier(cache_bytes: int) -> Callable[[tuple[Any, ...]], None]:
    """What takes arguments out of all caches."""
    if flushed.known():
        return flushed.flush
    other = np.ones(max(4 * cache_bytes, 1 << 22) // 8)

    def displace(values: tuple[Any, ...]) -> None:
        np.add(other, 1.0, out=other)

    return displace


def _each(
    before: Sequence[Callable[[tuple[Any, ...]], None]],
    function: Callable[..., Any],
    arguments: Copies,
    kept: tuple[Any, ...] | None = None,
) -> Timing:
    seconds = []
    for prepare in before:
        values = arguments.copied() if kept is None else kept
        call = calling(function, values)
        prepare(values)
        seconds.append(_seconds(call))
    return _timing(sorted(seconds))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _timing(seconds: list[float]) -> Timing:
    best, median = seconds[0], seconds[len(seconds) // 2]
    return Timing(best, median, (median - best) / median if median else 0.0, len(seconds), 1)
