"""The kernels of a trace laid beside the operations of a captured program: by name, shapes, order and kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.matching import kernel_names, match
from rooflab.observe.matching.alignment import align
from rooflab.observe.matching.calls import Numbers, parents_of
from rooflab.observe.matching.torch_calls import entry
from rooflab.observe.timeline import launch_of
from rooflab.types.trace import NONE, OPERATOR, Trace
from rooflab.types.work import Graph, Op

# How well an operation fits what ran: the more is known to agree, the more it is worth.
_SAME, _SAME_NAME, _SAME_SHAPES, _SAME_KIND, _OTHER_SHAPES = 8.0, 6.0, 5.0, 4.0, 1.0
_MOVES = ("layout", "copy", "create", "view")
# A run of the program of which less was found is no run, but chance.
_LEAST_SHARE = 0.1
_WHOLE_SHARE = 0.5

# What the dispatcher, or a version of the framework, puts around an operator's name.
_AROUND = re.compile(r"^(aten|prims|torch|mylib)?(::|\.)|^fused (?=\w)")
_PREFIXES = re.compile(r"^_+|^(native|cudnn|miopen|mkldnn|thnn|fused|efficientzerotensor)_")
_ATTENTION = re.compile(
    r"(scaled_dot_product|cudnn|flash|efficient)_?(fused|flash|efficient|cudnn|mem_eff)?_?attention(?!_mask)"
    r"(_forward)?(_for_cpu|_overrideable|_math)?"
)
_SAME_AS = {
    "to": "to_copy",
    "convolution": "conv",
    "conv1d": "conv",
    "conv2d": "conv",
    "conv3d": "conv",
    "conv_depthwise2d": "conv",
    "convolution_overrideable": "conv",
    "batch_norm_legit": "batch_norm",
    "batch_norm_with_update": "batch_norm",
    "batch_norm_no_training": "batch_norm",
    "softmax_backward_data": "softmax_backward",
    "log_softmax_backward_data": "log_softmax_backward",
    "max_pool2d_with_indices": "max_pool2d",
    "adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "unsafe_index": "index",
    "index_put_impl": "index_put",
}


def plain_name(name: str) -> str:
    """What an operator is called in whatever version or back end ("aten::_fused_rms_norm" → "rms_norm")."""
    text = _AROUND.sub("", name.strip())
    before = None
    while text != before:
        before, text = text, _PREFIXES.sub("", text).rstrip("_")
    text = _ATTENTION.sub("attention", text)
    return _SAME_AS.get(text, text)


class Level(NamedTuple):
    """One of the operators that were open when a kernel was launched; `shapes` None where not recorded."""

    name: str
    shapes: tuple[tuple[int, ...], ...] | None


class Unit(NamedTuple):
    """Kernels that ran for one operation.

    Attributes:
        call: the operator's, `NONE` where none is recorded.
        kernels: numbers in the trace, in the order of their launches.
        key: number of its sort, in `Units.sorts`.
    """

    call: int
    kernels: list[int]
    key: int


class Sort(NamedTuple):
    """What units of one sort have in common.

    Attributes:
        levels: the operators around, outermost first.
        kind: of the formula of the operator that is counted; None where not known.
        kernel: name of its first kernel.
    """

    levels: tuple[Level, ...]
    kind: str | None
    kernel: str


class Fit(NamedTuple):
    """An operation and the kernels that ran for it once.

    Attributes:
        op: number in the graph.
        run: which run of the program it was.
        kernels: numbers in the trace.
        shapes_differ: whether it ran with other sizes than the program has.
    """

    op: int
    run: int
    kernels: list[int]
    shapes_differ: bool


class Fits(NamedTuple):
    """What of a trace belongs to a program.

    Attributes:
        fits: in the order in which they ran.
        rest: kernels that belong to none of its operations.
        runs: numbers of the runs that are there from begin to end; `partial`: those cut off.
        takes_time: numbers of the operations that were looked for.
    """

    fits: list[Fit]
    rest: list[int]
    runs: list[int]
    partial: list[int]
    takes_time: list[int]


def fit(trace: Trace, graph: Graph, takes_time: Sequence[int]) -> Fits:
    """The operations of `graph` numbered in `takes_time`, each with its kernels in `trace`.

    Args:
        trace: of any number of runs of the program, begun and ended anywhere.
        graph: one run of it.
        takes_time: the operations that run a kernel, in order.
    """
    ops = [graph.ops[number] for number in takes_time]
    names = {name for op in ops for name in _names(op)}
    units, sorts = _units(trace, names)
    keys, wanted = _op_sorts(graph, ops)
    scores = np.array([[_score(one, other) for other in sorts] for one in wanted]).reshape(len(wanted), len(sorts))
    pairs = align(keys, [unit.key for unit in units], scores) if len(scores) else []
    found = Counter(pair.place // len(ops) for pair in pairs)
    # Kernels without operators are told by their kind alone: a few alike are chance.
    least = _LEAST_SHARE if any(sort.levels for sort in sorts) else _WHOLE_SHARE
    good = {run for run, count in found.items() if count >= max(1, least * len(ops))}
    fits, taken = [], set()
    for pair in pairs:
        run, at = divmod(pair.place, len(ops))
        if run in good:
            unit = units[pair.element]
            differ = scores[keys[at], unit.key] <= _OTHER_SHAPES
            fits.append(Fit(takes_time[at], run, unit.kernels, bool(differ)))
            taken.add(pair.element)
    rest = [kernel for number, unit in enumerate(units) if number not in taken for kernel in unit.kernels]
    first, last = min(good, default=0), max(good, default=0)
    whole = [run for run in sorted(good) if run not in (first, last) or found[run] >= _WHOLE_SHARE * len(ops)]
    return Fits(fits, rest, whole, sorted(good - set(whole)), list(takes_time))


def _names(op: Op) -> list[str]:
    return [plain_name(one) for one in op.name.removeprefix("fused ").split("+")]


class _OpSort(NamedTuple):
    names: tuple[str, ...]
    kind: str | None
    shapes: Counter[tuple[int, ...]]
    dtype: str


def _op_sorts(graph: Graph, ops: Iterable[Op]) -> tuple[list[int], list[_OpSort]]:
    """For each operation the number of its sort; and the sorts."""
    numbers: dict[Any, int] = {}
    sorts: list[_OpSort] = []
    keys = []
    for op in ops:
        shapes = tuple(graph.tensors[one].shape for one in op.inputs)
        key = (op.name, op.kind, shapes)
        if key not in numbers:
            numbers[key] = len(sorts)
            sorts.append(_OpSort(tuple(_names(op)), op.kind, Counter(_flat(shapes)), _dtype(graph, op)))
        keys.append(numbers[key])
    return keys, sorts


def _dtype(graph: Graph, op: Op) -> str:
    return next((graph.tensors[one].dtype for one in op.inputs), "")


def _score(op: _OpSort, sort: Sort) -> float:
    best = 0.0
    for level in sort.levels:
        if level.name in op.names:
            if level.shapes is None:
                best = max(best, _SAME_NAME)
            elif not op.shapes - Counter(level.shapes) or len(op.names) > 1:
                return _SAME
            else:
                best = max(best, _OTHER_SHAPES)
    if best:
        return best
    known = kernel_names.known(sort.kernel)
    fused = _fused_score(op, sort, known)
    if fused:
        return fused
    recorded = [level for level in sort.levels if level.shapes is not None]
    if recorded:
        # An operator of another name: only one of the same kind on the same tensors is the same.
        same = any(not op.shapes - Counter(level.shapes) for level in recorded) and bool(op.shapes)
        return _SAME_SHAPES if same and op.kind is not None and op.kind == sort.kind else 0.0
    if sort.levels and sort.kind is not None:
        return 0.0  # its name is known, and it is another one
    if known is None or known.operators or op.kind not in known.fits or not _same_dtype(op, known.dtype):
        return 0.0
    return _applied_score(op, kernel_names.applied(sort.kernel))


def _same_dtype(op: _OpSort, dtype: str) -> bool:
    """Whether a kernel that computes in `dtype` may run for the operation; wherever one is not known, it may."""
    # TF32 is a way to multiply fp32 operands.
    return not dtype or not op.dtype or dtype == op.dtype or (dtype, op.dtype) == ("tf32", "fp32")


def _applied_score(op: _OpSort, applied: str) -> float:
    """How well a kernel of the operation's kind fits it, by the function that its name says it applies."""
    if not applied:
        return _SAME_KIND
    for name in op.names:
        if applied.startswith(name) or name.startswith(applied) or name in applied.split("_"):
            return _SAME_NAME
    if "copy" in applied or applied == "fill":
        return _SAME_KIND if op.kind in _MOVES else 0.0
    # It names another operator, or one that nobody knows.
    return 0.0 if entry(f"aten::{applied}") is not None else _SAME_KIND / 2


def _fused_score(op: _OpSort, sort: Sort, known: kernel_names.Known | None) -> float:
    """How well a kernel that a compiler fused fits an operation, by the operators that its name lists."""
    if known is None or not known.operators:
        return 0.0
    listed = known.operators
    inside = sum(name in listed for name in op.names)
    if inside == len(op.names):
        alone = len(op.names) == 1 and listed.strip("_") not in op.names
        return _SAME_KIND if alone else _SAME_NAME
    return _SAME_KIND * inside / len(op.names) if 2 * inside > len(op.names) else 0.0


def _units(trace: Trace, names: set[str]) -> tuple[list[Unit], list[Sort]]:
    """The kernels by the operation that they ran for, in the order of their launches."""
    parents = parents_of(trace)
    innermost = match.innermost_of(trace, parents)
    counted = match.operations_of(trace, parents)
    levels = _Levels(trace, parents)
    units: list[Unit] = []
    by_call: dict[int, Unit] = {}
    numbers: dict[Any, int] = {}
    sorts: list[Sort] = []
    waiting: list[int] = []  # kernels that prepare the next one
    for kernel in _by_launch(trace).tolist():
        name = trace.names[trace.kernels.name[kernel]]
        call = levels.owner(int(innermost[kernel]), int(counted[kernel]), names)
        if call == NONE:
            helper = getattr(kernel_names.known(name), "helper", None)
            if helper in ("after", "beside") and units and units[-1].call == NONE:
                units[-1].kernels.append(kernel)
                continue
            if helper == "before":
                waiting.append(kernel)
                continue
        elif call in by_call:
            by_call[call].kernels.append(kernel)
            continue
        several = levels.around(call)
        kind = None if call == NONE else _kind(trace, int(counted[kernel]))
        key = (several, kind, "" if several and kind else name)
        if key not in numbers:
            numbers[key] = len(sorts)
            sorts.append(Sort(several, kind, name))
        unit = Unit(call, [*(waiting if call == NONE else ()), kernel], numbers[key])
        if call == NONE:
            waiting = []
        else:
            by_call[call] = unit
        units.append(unit)
    if waiting:
        name = trace.names[trace.kernels.name[waiting[0]]]
        sorts.append(Sort((), None, name))
        units.append(Unit(NONE, waiting, len(sorts) - 1))
    return units, sorts


def _by_launch(trace: Trace) -> NDArray[np.int64]:
    """The kernels in the order of their launches; those of one launch as they ran."""
    launch = launch_of(trace)
    starts = trace.kernels.start_s.copy()
    known = launch != NONE
    moments = starts.copy()
    moments[known] = trace.launches.start_s[launch[known]]
    return np.lexsort((starts, moments))


def _kind(trace: Trace, call: int) -> str | None:
    row = None if call == NONE else entry(trace.names[trace.calls.name[call]])
    return None if row is None else row.kind


class _Levels:
    """The operators around a call, each looked up once."""

    def __init__(self, trace: Trace, parents: Numbers) -> None:
        self._trace, self._parents = trace, parents
        self._plain: dict[int, str] = {}
        self._shapes: dict[int, tuple[tuple[int, ...], ...] | None] = {}

    def _name(self, call: int) -> str:
        number = int(self._trace.calls.name[call])
        if number not in self._plain:
            self._plain[number] = plain_name(self._trace.names[number])
        return self._plain[number]

    def _stack(self, call: int) -> list[int]:
        stack = []
        while call != NONE:
            if self._trace.calls.kind[call] == OPERATOR:
                stack.append(call)
            call = int(self._parents[call])
        return stack[::-1]

    def owner(self, innermost: int, counted: int, names: set[str]) -> int:
        """The outermost operator around that the program has; else the one that is counted."""
        return next((call for call in self._stack(innermost) if self._name(call) in names), counted)

    def around(self, call: int) -> tuple[Level, ...]:
        """`call` and the operators around it, outermost first, but not those of the autograd engine."""
        trace = self._trace
        found = []
        for one in self._stack(call):
            if "::" not in trace.names[trace.calls.name[one]] and one != call:
                continue
            number = int(trace.calls.signature[one])
            if number not in self._shapes:
                # Tensors of lists are not recorded everywhere: no shape at all says nothing.
                self._shapes[number] = tuple(_flat(trace.signatures[number].shapes)) or None
            found.append(Level(self._name(one), self._shapes[number]))
        return tuple(found)


def _flat(shapes: Iterable[Any]) -> Iterable[tuple[int, ...]]:
    """All shapes in lists of them, without sizes of 1: back ends put those where they like."""
    for shape in shapes:
        if isinstance(shape, tuple) and shape:
            if all(isinstance(size, int) for size in shape):
                plain = tuple(size for size in shape if size != 1)
                if plain:
                    yield plain
            else:
                yield from _flat(shape)
