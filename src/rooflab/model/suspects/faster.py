"""What would make something faster than it can be, each predicted: a clock that stopped early, data in a cache."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from rooflab.machines import catalog
from rooflab.model.device.device import device_of
from rooflab.model.program import host_dispatch
from rooflab.model.suspects.case import Case
from rooflab.model.suspects.slower import in_format, main_format
from rooflab.types.machine import Machine
from rooflab.types.own_time import Suspect
from rooflab.types.work import Op
from rooflab.units import duration

_NARROWER = {"fp64": ("fp32",), "fp32": ("bf16", "fp16"), "bf16": ("fp8",), "fp16": ("fp8",), "int8": ("int4",)}
_TENTHS = 1.2816  # standard deviations from the middle of a normal distribution to its tenth and ninetieth percent
# A call in a loop of its own takes the host a third of what it takes between others: 12–15 µs beside 17–39 µs, of
# PyTorch on the host of one H200.
_BARE = 1 / 3
_LAZY = ("jax", "tinygrad")  # frameworks whose calls return before their work is done, on any machine
_THOUSAND = 1000.0
_OTHERS = 3  # machines that are named


def no_synchronisation(case: Case) -> Iterator[Suspect]:
    """The clock stopped when the call returned: that is what the host takes to dispatch it."""
    lazy = case.graph.framework in _LAZY
    if case.machine.kind != "gpu" and not lazy:
        return
    eager = msgspec.structs.replace(case.setting, mode="eager")
    device = device_of(
        case.machine,
        cache=eager.cache,
        power=eager.power,
        knobs=eager.what_if,
        constants=eager.constants,
    )
    ops = case.graph.ops
    host_s = sum(
        seconds * op.count
        for op, seconds in zip(ops, host_dispatch.dispatch_s(ops, device, eager)[:, 0].tolist(), strict=True)
    )
    times = math.exp(_TENTHS * host_dispatch.spread(ops, device, eager))
    wait = "block_until_ready()" if case.graph.framework == "jax" else "torch.cuda.synchronize(), or events"
    yield case.bar(
        "no synchronisation",
        f"the clock stopped when the call returned, before its work was done: the host takes {duration(host_s)} "
        "to dispatch it",
        f"wait for the device before the clock is read ({wait})",
        host_s,
        host_s * _BARE / times,
        host_s * times,
    )


def warm_caches(case: Case) -> Iterator[Suspect]:
    """The data lay in a cache, where cold ones were predicted."""
    if case.setting.cache == "cold":
        warm = case.again(cache="warm")
        if warm is not None and warm.time_s < case.prediction.time_s:
            # With a part of it in a cache it takes any time between the two.
            yield case.bar(
                "data in a cache",
                "its data lay in a cache, whole or in part: each run found what the last one left there",
                "write over the caches between runs, use other data each time, or predict it with --cache warm",
                warm.time_s,
                warm.low_s,
                max(warm.high_s, case.prediction.low_s),
            )


def narrower_format(case: Case) -> Iterator[Suspect]:
    """It ran in a narrower number format."""
    main = main_format(case.report)
    for dtype in _NARROWER.get(main or "", ()):
        graph = in_format(case.graph, dtype)
        if graph is not None:
            yield from case.suspect(
                f"{dtype} instead of {main}",
                f"it ran in {dtype}",
                "print the dtype of what is timed; autocast and allowed TF32 change that of products",
                case.again(graph=graph),
            )
    if main == "fp32" and case.machine.peak("tf32", engine="matrix") is not None:
        matrix, vector = case.machine.peak("tf32", engine="matrix"), case.machine.peak("fp32", engine="vector")
        if matrix is not None and vector is not None and any(op.kind in _PRODUCTS for op in case.graph.ops):
            yield from case.suspect(
                "tf32 instead of fp32",
                "its products ran in tf32 on the tensor cores",
                "look at torch.get_float32_matmul_precision()",
                case.again(what_if={**case.setting.what_if, "compute": matrix.value / vector.value}),
            )


_PRODUCTS = ("matmul", "conv", "linear", "grouped_matmul")


def causal(case: Case) -> Iterator[Suspect]:
    """A causal mask spared half of an attention's work."""
    ops = [_masked(op) for op in case.graph.ops]
    if any(new is not old for new, old in zip(ops, case.graph.ops, strict=True)):
        yield from case.suspect(
            "causal mask",
            "its attention was causal, which leaves out half of the scores",
            "say --causal",
            case.again(graph=msgspec.structs.replace(case.graph, ops=tuple(ops))),
        )


def _masked(op: Op) -> Op:
    if op.kind != "attention" or op.attrs.get("causal"):
        return op
    return msgspec.structs.replace(op, attrs={**op.attrs, "causal": True})


def no_dispatch(case: Case) -> Iterator[Suspect]:
    """No host stood in the way, where each operation was predicted to be dispatched."""
    if case.setting.mode == "eager":
        for mode, what in (
            ("graph", "its kernels ran back to back (a CUDA graph, an engine)"),
            ("compiled", "it was compiled"),
        ):
            yield from case.suspect(
                f"{mode} mode", what, f"predict it with --mode {mode}", case.again(mode=mode, dispatch_s=None)
            )


def wrong_unit(case: Case) -> Iterator[Suspect]:
    """The number is in another unit: a thousand times more or less."""
    one = case.prediction
    slower = case.time_s > one.time_s
    factor = 1 / _THOUSAND if slower else _THOUSAND
    why = (
        "microseconds were taken for milliseconds, or it is the time of 1000 calls"
        if slower
        else "milliseconds were taken for microseconds, or it was divided by 1000 calls once too often"
    )
    yield case.bar(
        "other unit",
        f"it is {duration(case.time_s * factor)}: {why}",
        "look at the unit of the timer, and divide by the calls that it timed",
        one.time_s / factor,
        one.low_s / factor,
        one.high_s / factor,
    )


def calls_together(case: Case) -> Iterator[Suspect]:
    """Ten or a hundred calls were timed together."""
    if case.time_s > case.prediction.time_s:
        for calls in (10, 100):
            one = case.prediction
            yield case.bar(
                f"{calls} calls",
                f"it is the time of {calls} calls, {duration(case.time_s / calls)} each",
                "divide by the calls that were timed",
                one.time_s * calls,
                one.low_s * calls,
                one.high_s * calls,
            )


def other_machine(case: Case) -> Iterator[Suspect]:
    """It ran on another machine of the catalogue, of the same vendor."""
    held = []
    for name in catalog.names():
        other = catalog.find(name)
        if _comparable(other, case.machine):
            found = case.again(machine=other)
            if found is not None and found.low_s <= case.time_s <= found.high_s:
                held.append((abs(math.log(found.time_s / case.time_s)), name, found))
    for _, name, found in sorted(held, key=lambda each: each[:2])[:_OTHERS]:
        yield from case.suspect("other machine", f"it ran on {name}", "check --machine", found)


def _comparable(other: Machine, machine: Machine) -> bool:
    return other.kind == machine.kind and other.vendor == machine.vendor and other.name != machine.name
