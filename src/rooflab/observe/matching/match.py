"""Which operation each kernel of a trace belongs to: by launch, by call, up to the operator that is counted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.matching.calls import Numbers, around, open_at
from rooflab.observe.matching.torch_calls import enough_recorded, entry
from rooflab.observe.timeline.launched import launch_of
from rooflab.observe.timeline.steps import STEP
from rooflab.types.trace import ANNOTATION, MODULE, NONE, OPERATOR, Trace
from rooflab.types.work import Phase

# Calls that only choose or prepare: the operator within, or around, is the one that is counted.
_BY_PARTS = frozenset({"view", "opaque", "create"})
_BACKWARD = "autograd::engine::evaluate_function"
_OPTIMIZER = "Optimizer.step"
_BLOCK = 2**16  # calls looked at together
_KINDS = 4  # of calls, rounded up
_ITEM = re.compile(r"OpaqueType<(\d+)")
_TYPED = re.compile(r"(?:Functor|CatArrayBatched\w+)<((?:float|double|(?:c10|at)::(?:Half|BFloat16)))\b")
_TYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "at::Half": "fp16",
    "c10::BFloat16": "bf16",
    "at::BFloat16": "bf16",
}
_OF_SIZE = {1: "int8", 2: "bf16", 4: "fp32", 8: "fp64"}
# Made of other operators before a kernel is chosen: those are what is captured and counted.
_COMPOSITE = tuple(
    f"aten::{name}"
    for name in ("linear", "float_power", "isfinite", "relu6", "selu", "square", "true_divide", "clip")
)
# Lists with gaps are recorded as nothing: what is done inside with their tensors tells their shapes.
_TOLD_INSIDE = ("aten::index", "aten::_unsafe_index", "aten::_index_put_impl_", "aten::index_put_")


def operations_of(trace: Trace, parents: Numbers) -> NDArray[np.int64]:
    """For each kernel the number of the call that it is counted with; `NONE` where no call is known.

    A kernel belongs to the outermost operator, of those that were open when it was launched, that is counted: what
    an operator calls within (a sort its copy, a convolution its bias) is part of its own count. Where none of them
    can be counted as it was recorded, it belongs to the innermost that the vocabulary knows.

    Args:
        trace: with kernels and calls.
        parents: of the calls (see `parents_of`).
    """
    innermost = innermost_of(trace, parents)
    named = counted(trace)
    whole = _whole(trace, named & _reached(innermost, parents))
    chosen = np.full(len(innermost), NONE, np.int64)
    level = innermost.copy()
    while (level != NONE).any():
        here = (level != NONE) & whole[level]
        chosen[here] = level[here]
        level = np.where(level == NONE, NONE, parents[level])
    chosen = np.where(chosen == NONE, around(innermost, parents, named), chosen)
    return np.where(chosen == NONE, innermost, chosen)


def _reached(innermost: NDArray[np.int64], parents: Numbers) -> NDArray[np.bool_]:
    """For each call whether a kernel was launched within it."""
    found = np.zeros(len(parents), np.bool_)
    level = np.unique(innermost[innermost != NONE])
    while len(level):
        level = level[~found[level]]
        found[level] = True
        level = np.unique(parents[level])
        level = level[level != NONE]
    return found


def counted(trace: Trace) -> NDArray[np.bool_]:
    """For each call whether it is an operator that the vocabulary can count."""
    calls = trace.calls
    rows = map(entry, trace.names)
    known = np.array([row is not None and row.kind not in _BY_PARTS for row in rows], np.bool_)
    return (calls.kind == OPERATOR) & known[calls.name]


def counted_whole(trace: Trace) -> NDArray[np.bool_]:
    """For each call whether it is an operator that is counted with what it calls within."""
    return _whole(trace, counted(trace))


def _whole(trace: Trace, named: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the `named` calls are counted as they stand, with what they call within."""
    calls, found = trace.calls, np.zeros(len(trace.calls), np.bool_)
    which = np.flatnonzero(named)
    keys = calls.name[which].astype(np.int64) * max(len(trace.signatures), 1) + calls.signature[which]
    distinct, of_call = np.unique(keys, return_inverse=True)
    enough = []
    for key in distinct.tolist():
        number, signature = divmod(key, max(len(trace.signatures), 1))
        name = trace.names[number]
        told = name in _TOLD_INSIDE or enough_recorded(name, trace.signatures[signature])
        enough.append(name not in _COMPOSITE and told)
    found[which] = np.array(enough, np.bool_)[of_call.reshape(-1)]
    return found


def innermost_of(trace: Trace, parents: Numbers) -> NDArray[np.int64]:
    """The innermost operator open at each kernel's launch."""
    kernels, calls, launches = trace.kernels, trace.calls, trace.launches
    found = np.full(len(kernels), NONE, np.int64)
    is_operator = calls.kind == OPERATOR
    if not is_operator.any():
        return found
    launch = launch_of(trace)
    external = kernels.external.copy()
    missing = (external == NONE) & (launch != NONE)
    external[missing] = launches.external[launch[missing]]
    # Most calls launch nothing: only those that a kernel names are sorted.
    operators = np.flatnonzero(is_operator & _among(calls.external, np.unique(external[external != NONE])))
    order = operators[np.argsort(calls.external[operators], kind="stable")]
    known = np.append(calls.external[order], NONE)
    at = np.searchsorted(known[:-1], external)
    hit = (known[at] == external) & (external != NONE)
    found[hit] = order[at[hit]]
    # Without a number: by time, on the launch's thread.
    timed = np.flatnonzero(~hit & (launch != NONE))
    made = launch[timed]
    found[timed] = open_at(trace, launches.thread[made], launches.start_s[made], parents)
    return found


def _among(values: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of `values` are among the sorted `wanted`; in blocks, as there are many of them."""
    found = np.zeros(len(values), np.bool_)
    for begin in range(0, len(values) if len(wanted) else 0, _BLOCK):
        part = values[begin : begin + _BLOCK]
        at = np.minimum(np.searchsorted(wanted, part), len(wanted) - 1)
        found[begin : begin + _BLOCK] = wanted[at] == part
    return found


def item_dtype(names: Iterable[str]) -> str | None:
    """The number format of what kernels of these `names` work on, where one tells it.

    One that only moves elements tells their size: then it is a format of that size.
    """
    for name in names:
        typed = _TYPED.search(name)
        if typed:
            return _TYPES[typed.group(1)]
        sized = _ITEM.search(name)
        if sized:
            return _OF_SIZE.get(int(sized.group(1)))
    return None


Within = tuple[tuple[str, int], ...]


def told_inside(trace: Trace) -> NDArray[np.bool_]:
    """For each call, and for `NONE` at the end, whether what is called within tells of its arguments."""
    names = np.array([name in _TOLD_INSIDE for name in trace.names], np.bool_)
    return np.append((trace.calls.kind == OPERATOR) & names[trace.calls.name], False)


def inside(trace: Trace, call: int, parents: Numbers) -> Within:
    """Names and signatures' numbers of the operators in `call`, where its own arguments say too little."""
    if trace.names[trace.calls.name[call]] not in _TOLD_INSIDE:
        return ()
    calls, found = trace.calls, []
    end_s = calls.start_s[call] + calls.duration_s[call]
    at = call + 1
    while at < len(calls) and calls.thread[at] == calls.thread[call] and calls.start_s[at] <= end_s:
        if parents[at] == call and calls.kind[at] == OPERATOR:
            found.append((trace.names[calls.name[at]], int(calls.signature[at])))
        at += 1
    return tuple(found)


class Place(NamedTuple):
    """Where a call was made.

    Attributes:
        module: path of the modules around it, outermost first, as the profiler numbers them.
        label: the innermost annotation around it that is no step.
        phase: of training.
    """

    module: str
    label: str
    phase: Phase


class Places:
    """Where calls were made, by the calls around them.

    Attributes:
        distinct: the places, in the order in which they were met.
    """

    def __init__(self, trace: Trace, parents: Numbers) -> None:
        self.distinct = [Place("", "", "forward")]
        self._trace, self._parents = trace, parents
        self._numbers = {self.distinct[0]: 0}
        self._within: dict[int, int] = {}

    def numbers(self, calls: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each of `calls` the number in `distinct` of its place; 0 for `NONE`."""
        blocks = [self._block(calls[begin : begin + _BLOCK]) for begin in range(0, len(calls), _BLOCK)]
        return np.concatenate([np.empty(0, np.int64), *blocks])

    def _block(self, calls: NDArray[np.int64]) -> NDArray[np.int64]:
        trace, levels = self._trace, []
        while (calls != NONE).any():
            levels.append(calls)
            calls = np.where(calls == NONE, NONE, self._parents[calls])
        place = np.zeros(len(calls), np.int64)
        # From the outermost in: few calls of few names are made at few places.
        for level in reversed(levels):
            made = np.flatnonzero(level != NONE)
            one = level[made]
            keys = (place[made] * len(trace.names) + trace.calls.name[one]) * _KINDS + trace.calls.kind[one]
            distinct, which = np.unique(keys, return_inverse=True)
            place[made] = np.array([self._inside(key) for key in distinct.tolist()], np.int64)[which]
        return place

    def _inside(self, key: int) -> int:
        """The number of the place within a call of a name and a kind that was made at a place, all in `key`."""
        if key in self._within:
            return self._within[key]
        outer, kind = divmod(key, _KINDS)
        number, name = divmod(outer, len(self._trace.names))
        module, label, phase = self.distinct[number]
        text = self._trace.names[name]
        if kind == MODULE:
            own = text.partition(": ")[2]
            module = f"{module}.{own}" if module else own
        elif kind == ANNOTATION and not STEP.fullmatch(text):
            label = text
        # The outermost says which part of training it is.
        if phase == "forward" and text.startswith(_BACKWARD):
            phase = "backward"
        elif phase == "forward" and text.startswith(_OPTIMIZER):
            phase = "optimizer"
        found = Place(module, label, phase)
        if found not in self._numbers:
            self._numbers[found] = len(self.distinct)
            self.distinct.append(found)
        self._within[key] = self._numbers[found]
        return self._numbers[found]
