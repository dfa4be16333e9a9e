"""Traces without a device: the operators that ran on the host are what ran."""

from __future__ import annotations

import msgspec
import numpy as np

from rooflab.observe.matching.calls import around, parents_of
from rooflab.observe.matching.match import counted, counted_whole
from rooflab.observe.matching.torch_calls import entry
from rooflab.types.trace import KERNEL, NONE, ON_HOST, OPERATOR, Device, Kernels, Shape, Trace

# Inside the dispatcher, not in the vocabulary of what a program calls: they change how a tensor is seen.
_SEES = ("as_strided", "_reshape_alias", "view", "detach", "alias", "resolve_conj", "resolve_neg", "lift_fresh")


def _works(name: str) -> bool:
    """Whether an operator called `name` may read or write elements."""
    row = entry(name)
    return name.removeprefix("aten::").rstrip("_") not in _SEES and (row is None or row.kind != "view")


def on_host(trace: Trace) -> Trace:
    """`trace` with its operators as activities of the host, where it has no kernels; else as it is.

    An operator that is counted is one activity, with what it calls within; of the others those that call none.
    """
    calls = trace.calls
    operators = calls.kind == OPERATOR
    if len(trace.kernels) or trace.framework != "torch" or not operators.any():
        return trace
    parents = parents_of(trace)
    named, whole = counted(trace), counted_whole(trace)
    # Within a counted one nothing is counted again.
    covered = around(parents.astype(np.int64), parents, whole) != NONE
    works = np.array([_works(name) for name in trace.names], np.bool_)
    leaf = operators & works[calls.name]
    leaf[parents[operators & (parents != NONE)]] = False
    # What a composite operator calls to prepare (linear its transposed view) is no execution of that operator.
    every = np.arange(len(calls))
    nearest = around(every.copy(), parents, named)
    ran = np.flatnonzero(~covered & (whole | (leaf & ((nearest == every) | (nearest == NONE)))))
    order = ran[np.argsort(calls.start_s[ran], kind="stable")]
    count = len(order)
    kernels = Kernels(
        name=calls.name[order],
        kind=np.full(count, KERNEL, np.int8),
        start_s=calls.start_s[order],
        duration_s=calls.duration_s[order],
        device=np.full(count, ON_HOST, np.int64),
        stream=calls.thread[order].astype(np.int64),
        correlation=np.full(count, NONE, np.int64),
        external=calls.external[order],
        nbytes=np.full(count, np.nan),
        shape=np.zeros(count, np.int32),
    )
    return msgspec.structs.replace(
        trace,
        kernels=kernels,
        shapes=trace.shapes or (Shape(),),
        devices=(Device(number=ON_HOST),),
        notes=(*trace.notes, "operators that ran on the CPU are taken as what ran, from call to return"),
    )
