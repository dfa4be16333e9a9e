"""The rows of a profile: kernels grouped by the operation that ran them, each operation counted once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import msgspec
import numpy as np

from rooflab.observe.matching import kernel_names, match, onnx_calls, torch_calls
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
    parents = match.parents_of(trace)
    groups = match.by_operation(trace, parents)
    if only is not None:
        wanted = set(only)
        kept = {call: [one for one in kernels if one in wanted] for call, kernels in groups.items()}
        groups = {call: kernels for call, kernels in kept.items() if kernels}
    alone = groups.pop(NONE, [])
    same: dict[tuple[int, int, match.Place], list[int]] = defaultdict(list)
    for call in groups:
        place = match.place_of(trace, call, parents)
        same[int(trace.calls.name[call]), int(trace.calls.signature[call]), place].append(call)
    rows: list[tuple[ProfileRow, torch_calls.Resolved]] = []
    for (name, signature, place), calls in same.items():
        kernels = [kernel for call in calls for kernel in groups[call]]
        size = match.item_bytes(trace, kernels)
        if trace.framework == "onnx":
            known = onnx_calls.resolve(trace.names[name], trace.signatures[signature])
        else:
            known = torch_calls.resolve(trace.names[name], trace.signatures[signature], size)
        row = _row(trace, known, [groups[call] for call in calls])
        rows.append(
            (msgspec.structs.replace(row, module=place.module, label=place.label, phase=place.phase), known)
        )
    for kernels in _by_name(trace, alone).values():
        own = trace.names[trace.kernels.name[kernels[0]]]
        why = "no operation is recorded for it" if len(trace.calls) else "no operations are recorded"
        named = kernel_names.known(own)
        known = torch_calls.Resolved(own, None if named is None else named.kind, (), (), {}, why)
        rows.append((_row(trace, known, [[kernel] for kernel in kernels]), known))
    rows.sort(key=lambda pair: -pair[0].time_s)
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


def _by_name(trace: Trace, kernels: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for kernel in kernels:
        found[int(trace.kernels.name[kernel])].append(kernel)
    return found


def observed(trace: Trace, executions: list[list[int]]) -> Observation:
    """The measured time of an operation that ran the kernels of each of `executions`."""
    durations = trace.kernels.duration_s
    single = np.array([durations[kernels].sum() for kernels in executions])
    by_name: dict[int, list[float]] = defaultdict(list)
    for kernels in executions:
        for kernel in kernels:
            by_name[int(trace.kernels.name[kernel])].append(float(durations[kernel]))
    times = [
        KernelTime(name=trace.names[name], runs=len(several), time_s=sum(several))
        for name, several in by_name.items()
    ]
    low_s, high_s = np.quantile(single, (0.1, 0.9))
    return Observation(
        time_s=float(single.sum()),
        low_s=float(low_s),
        high_s=float(high_s),
        kernels=tuple(sorted(times, key=lambda one: -one.time_s)),
    )


def _row(trace: Trace, known: torch_calls.Resolved, executions: list[list[int]]) -> ProfileRow:
    return ProfileRow(
        name=known.name,
        kind=known.kind,
        shapes=" · ".join("x".join(map(str, one.shape)) for one in known.inputs if one.shape),
        dtype=next((one.dtype for one in known.inputs if isinstance(one, Seen) and one.dtype), _named(known)),
        executions=len(executions),
        observation=observed(trace, executions),
    )


def _named(known: torch_calls.Resolved) -> str:
    """The number format that a kernel's own name has, where no operator's is recorded."""
    named = None if known.inputs else kernel_names.known(known.name)
    return "" if named is None else named.dtype
