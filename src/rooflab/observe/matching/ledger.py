"""The rows of a profile: kernels grouped by the operation that ran them, each operation counted once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rooflab.observe.matching import kernel_names, match, onnx_calls, torch_calls, xla_calls
from rooflab.observe.matching.calls import parents_of
from rooflab.observe.matching.countable import countable
from rooflab.observe.matching.torch_arguments import Seen
from rooflab.types.profile import KernelTime, Observation, ProfileRow
from rooflab.types.trace import NONE, Trace
from rooflab.types.work import Graph
from rooflab.work.costs import costs, uncosted


class Ledger(NamedTuple):
    """What a trace's kernels belong to.

    Attributes:
        rows: without predictions, most time first.
        graph: an operation for each row, with its tensors, in the order of `rows`; of no kind where not counted.
    """

    rows: tuple[ProfileRow, ...]
    graph: Graph


def ledger(trace: Trace, only: Collection[int] | None = None) -> Ledger:
    """The kernels of `trace` by operation and arguments.

    Args:
        trace: with kernels.
        only: numbers of the kernels that are wanted; None for all.
    """
    rows = [_resolved(trace, group) for group in _groups(trace, only)]
    rows.sort(key=lambda pair: -pair[0].time_s)
    rows = [(row, countable(known)) for row, known in rows]
    graph = torch_calls.graph(known for _, known in rows)
    graph = msgspec.structs.replace(graph, framework=trace.framework or "torch")
    every, reasons = costs(graph), uncosted(graph)
    return Ledger(
        tuple(
            msgspec.structs.replace(row, cost=cost, why=None if cost else known.why or reasons.get(known.name))
            for (row, known), cost in zip(rows, every, strict=True)
        ),
        graph,
    )


class _Group(NamedTuple):
    """Kernels of one row.

    Attributes:
        call: one of the calls that they are counted with; `NONE` where none is known.
        place: of those calls.
        single_s: the time of each execution.
        kernels: that ran, by name.
        within: names and signatures' numbers of the calls within, where the arguments say too little.
    """

    call: int
    place: match.Place
    single_s: NDArray[np.float64]
    kernels: tuple[KernelTime, ...]
    within: match.Within


def _groups(trace: Trace, only: Collection[int] | None) -> list[_Group]:
    """The kernels by name, arguments and place of their calls; those without a call by their own names."""
    kernels, calls = trace.kernels, trace.calls
    parents = parents_of(trace)
    call = match.operations_of(trace, parents)
    which = np.arange(len(kernels)) if only is None else np.array(sorted(only), np.int64)
    call, name, duration_s = call[which], kernels.name[which], kernels.duration_s[which]
    if not len(which):
        return []
    # An execution is a call, or a kernel without one.
    execution = np.where(call == NONE, -2 - np.arange(len(call)), call)
    distinct, first, of_kernel = np.unique(execution, return_index=True, return_inverse=True)
    single_s = np.bincount(of_kernel, weights=duration_s).astype(np.float64)
    caller = call[first]
    places = match.Places(trace, parents)
    known = caller != NONE
    key = np.full((len(distinct), 4), NONE, np.int64)
    within: dict[match.Within, int] = {(): NONE}
    key[:, 0] = name[first]
    key[known, 0] = calls.name[caller[known]]
    key[known, 1] = calls.signature[caller[known]]
    key[known, 2] = places.numbers(caller[known])
    for at in np.flatnonzero(known & match.told_inside(trace)[caller]).tolist():
        key[at, 3] = within.setdefault(match.inside(trace, int(caller[at]), parents), len(within))
    inside = {number: one for one, number in within.items()}
    met = places.distinct
    # Of a large trace each of these is megabytes.
    del places, parents, execution, distinct, known
    _, row, of_execution = np.unique(key, axis=0, return_index=True, return_inverse=True)
    of_execution = of_execution.reshape(-1)
    times = _by_name(trace, of_execution[of_kernel], name, duration_s)
    order = np.argsort(of_execution, kind="stable")
    parts = np.split(single_s[order], np.flatnonzero(np.diff(of_execution[order])) + 1)
    # In the order of their first kernels, those without a call last.
    begins = np.full(len(row), len(which))
    np.minimum.at(begins, of_execution, first)
    turn = np.lexsort((begins, caller[row] == NONE)).tolist()
    groups = [
        _Group(
            int(caller[at]),
            met[max(int(key[at, 2]), 0)],
            part,
            times[number],
            inside[int(key[at, 3])],
        )
        for number, (at, part) in enumerate(zip(row.tolist(), parts, strict=True))
    ]
    return [groups[number] for number in turn]


def _by_name(
    trace: Trace, group: NDArray[np.int64], name: NDArray[np.int32], duration_s: NDArray[np.float64]
) -> dict[int, tuple[KernelTime, ...]]:
    """For each group of kernels how often and how long those of each name ran, most time first."""
    pairs, of_kernel = np.unique(group * len(trace.names) + name, return_inverse=True)
    runs, seconds = np.bincount(of_kernel), np.bincount(of_kernel, weights=duration_s)
    found: dict[int, list[KernelTime]] = defaultdict(list)
    for pair, count, time_s in zip(pairs.tolist(), runs.tolist(), seconds.tolist(), strict=True):
        number, one = divmod(pair, len(trace.names))
        found[number].append(KernelTime(name=trace.names[one], runs=count, time_s=time_s))
    return {number: tuple(sorted(several, key=lambda one: -one.time_s)) for number, several in found.items()}


def _resolved(trace: Trace, group: _Group) -> tuple[ProfileRow, torch_calls.Resolved]:
    """The row of `group`, not yet counted, and what its operation is."""
    if group.call == NONE:
        own = group.kernels[0].name
        why = "no operation is recorded for it" if len(trace.calls) else "no operations are recorded"
        named = kernel_names.known(own)
        known = torch_calls.Resolved(own, None if named is None else named.kind, (), (), {}, why)
        return _row(known, group), known
    name = trace.names[trace.calls.name[group.call]]
    signature = trace.signatures[trace.calls.signature[group.call]]
    if trace.framework == "onnx":
        known = onnx_calls.resolve(name, signature)
    elif trace.framework == "xla":
        known = xla_calls.resolve(name, signature)
    else:
        dtype = match.item_dtype(one.name for one in group.kernels)
        within = [(one, trace.signatures[number]) for one, number in group.within]
        known = torch_calls.resolve(name, signature, dtype, within)
    row = _row(known, group)
    place = group.place
    row = msgspec.structs.replace(row, module=place.module, label=place.label, phase=place.phase)
    if trace.framework == "xla":
        stated = xla_calls.counted(name, signature, row.time_s, row.executions)
        row = msgspec.structs.replace(row, counted=stated, phase=xla_calls.phase_of(place.module))
    return row, known


def observed(trace: Trace, executions: list[list[int]]) -> Observation:
    """The measured time of an operation that ran the kernels of each of `executions`."""
    kernels = trace.kernels
    single_s = np.array([kernels.duration_s[several].sum() for several in executions])
    every = np.array([one for several in executions for one in several], np.int64)
    times = _by_name(trace, np.zeros(len(every), np.int64), kernels.name[every], kernels.duration_s[every])
    return _observation(single_s, times.get(0, ()))


def _observation(single_s: NDArray[np.float64], kernels: tuple[KernelTime, ...]) -> Observation:
    low_s, high_s = np.quantile(single_s, (0.1, 0.9))
    return Observation(time_s=float(single_s.sum()), low_s=float(low_s), high_s=float(high_s), kernels=kernels)


def _row(known: torch_calls.Resolved, group: _Group) -> ProfileRow:
    return ProfileRow(
        name=known.name,
        kind=known.kind,
        shapes=" · ".join("x".join(map(str, one.shape)) for one in known.inputs if one.shape),
        dtype=next((one.dtype for one in known.inputs if isinstance(one, Seen) and one.dtype), _named(known)),
        executions=len(group.single_s),
        observation=_observation(group.single_s, group.kernels),
    )


def _named(known: torch_calls.Resolved) -> str:
    """The number format that a kernel's own name has, where no operator's is recorded."""
    named = None if known.inputs else kernel_names.known(known.name)
    return "" if named is None else named.dtype
