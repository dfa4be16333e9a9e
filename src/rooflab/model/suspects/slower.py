"""What would make something slower than its prediction, each predicted: caches, formats, threads, host, clocks."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.model.program.precision import change_dtype
from rooflab.model.suspects.case import Case
from rooflab.model.suspects.one_core import one_core
from rooflab.types.own_time import Suspect
from rooflab.types.report import Report
from rooflab.types.work import Graph
from rooflab.units import duration, si
from rooflab.work import by_hand

# A number format, and the next wider one that frameworks fall back to, or make where none is said.
_WIDER = {
    "fp8": ("bf16",),
    "bf16": ("fp32",),
    "fp16": ("fp32",),
    "fp32": ("fp64",),
    "tf32": ("fp32",),
    "int8": ("fp32",),
}
_LINK_BAR = 1.25  # what a link attains differs by so much with the size of the copy and the host (assumed)
_LOWEST_CLOCK = 0.5  # of the highest: power and heat lower clocks no further while a card works
_AT_REST_S = 0.1  # a bisection ends at so many parts of a thousand


def cold_caches(case: Case) -> Iterator[Suspect]:
    """The caches were cold, where warm ones were predicted."""
    if case.setting.cache == "warm":
        cold = case.again(cache="cold")
        if cold is not None and cold.time_s > case.prediction.time_s:
            # With a part of it in the caches it takes any time between the two.
            yield case.bar(
                "cold caches",
                "the caches were cold, all or in part: a run found nothing there of the last one",
                "repeat it on the same data until it is warm, or predict it with --cache cold",
                cold.time_s,
                min(cold.low_s, case.prediction.high_s),
                cold.high_s,
            )


def wider_format(case: Case) -> Iterator[Suspect]:
    """It ran in a wider number format."""
    for dtype in _WIDER.get(main_format(case.report) or "", ()):
        graph = in_format(case.graph, dtype)
        if graph is not None:
            yield from case.suspect(
                f"{dtype} instead of {main_format(case.report)}",
                f"it ran in {dtype}",
                "print the dtype of what is timed"
                + (": NumPy makes fp64 where none is said" if dtype == "fp64" else ""),
                case.again(graph=graph),
            )


def no_matrix_engine(case: Case) -> Iterator[Suspect]:
    """Products ran on the vector units, where matrix units (tensor cores) were predicted."""
    products = [one for one in case.report.flop_by if one.engine == "matrix"]
    if case.machine.kind != "gpu" or not products:
        return
    matrix = case.machine.peak(products[0].dtype, engine="matrix")
    vector = case.machine.peak(products[0].dtype, engine="vector") or case.machine.peak("fp32", engine="vector")
    if matrix is not None and vector is not None and vector.value < matrix.value:
        slower = vector.value / matrix.value * case.setting.what_if.get("compute", 1.0)
        yield from case.suspect(
            "no tensor cores",
            f"its products ran on the vector units, at {si(vector.value, 'FLOP/s')} instead of "
            f"{si(matrix.value, 'FLOP/s')}",
            "take sizes in multiples of 8, allow TF32 for fp32; a profile names the kernel",
            case.again(what_if={**case.setting.what_if, "compute": slower}),
        )


def one_thread(case: Case) -> Iterator[Suspect]:
    """One core worked, where all were predicted."""
    units = case.machine.compute_units or 1
    if case.machine.kind == "cpu" and units > 1:
        yield from case.suspect(
            "one thread",
            f"one core worked instead of {units}",
            "look at OMP_NUM_THREADS, torch.get_num_threads(), threadpoolctl, taskset and the cgroup's limit",
            case.again(machine=one_core(case.machine)),
        )


def dispatch(case: Case) -> Iterator[Suspect]:
    """The host dispatched each operation, where kernels back to back were predicted."""
    if case.setting.mode == "eager":
        return
    predicted = case.again(mode="eager")
    if predicted is not None:
        ops = sum(op.count for op in case.graph.ops)
        yield from case.suspect(
            "dispatch",
            f"the host dispatched {'it' if ops == 1 else f'each of {ops:,} operations'} "
            f"({duration(predicted.host_s or predicted.overhead_s)})",
            "predict it with --mode eager; a CUDA graph or a compiler takes the host out of the way",
            predicted,
        )


def host_copies(case: Case) -> Iterator[Suspect]:
    """Its inputs were copied to the device within the timed part."""
    nbytes = sum(spec.nbytes for spec in case.report.graph.held("input"))
    link = next((link for link in case.machine.links if link.to == "host"), None)
    if case.machine.kind != "gpu" or link is None or not nbytes:
        return
    for memory, rate in (("pageable", link.pageable_bytes_per_s), ("pinned", link.pinned_bytes_per_s)):
        attained = rate or (link.each_way_bytes_per_s if memory == "pinned" else None)
        if attained:
            copy_s = nbytes / attained
            yield from case.suspect(
                f"copies from {memory} memory",
                f"its {si(nbytes, 'B')} of inputs were copied from {memory} memory of the host within the timed "
                f"part ({duration(copy_s)} at {si(attained, 'B/s')})",
                "move the inputs to the device before the clock starts"
                + ("; pin what must be copied" if memory == "pageable" else ""),
                case.prediction,
                (copy_s / _LINK_BAR, copy_s * _LINK_BAR),
            )


def strided(case: Case) -> Iterator[Suspect]:
    """Its operands were views in another order, copied before they are used; products take them in either."""
    ops = [op for op in case.graph.ops if op.kind not in ("view", "matmul", "grouped_matmul")]
    used = dict.fromkeys(number for op in ops for number in op.inputs)
    specs = [case.graph.tensors[number] for number in used]
    plain = [spec for spec in specs if spec.role == "input" and spec.strides is None and len(spec.shape) > 1]
    copies = [_transposed(case, spec.shape, spec.dtype) for spec in plain]
    known = [one for one in copies if one is not None]
    if not known or len(known) < len(copies):
        return
    low_s, high_s = sum(one.low_s for one in known), sum(one.high_s for one in known)
    yield from case.suspect(
        "other layout",
        f"{'its operand was a transposed view' if len(known) == 1 else f'its {len(known)} operands were views'} "
        f"in another order, copied before each use ({duration(sum(one.time_s for one in known))})",
        "look at .is_contiguous() and strides; call .contiguous() once, before the clock starts",
        case.prediction,
        (low_s, high_s),
    )


def _transposed(case: Case, shape: tuple[int, ...], dtype: str):
    flat = (max(1, _product(shape[:-1])), shape[-1])
    try:
        return case.again(graph=by_hand.graph("transpose", (flat,), dtype=dtype))
    except RooflabError:
        return None  # a format that no copy is written for


def _product(sizes: tuple[int, ...]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def lower_clock(case: Case) -> Iterator[Suspect]:
    """Power, heat or a lock held the clock down."""
    if case.setting.power == "burst":
        yield from case.suspect(
            "power limit",
            "it ran long enough for power and heat to lower the clock",
            "watch clocks while it runs; predict it with --power sustained",
            case.again(power="sustained"),
        )
    highest = max((rate.value for rate in case.machine.clocks if rate.per_s == "cycle"), default=None)
    factor = _clock_factor(case)
    if highest is not None and factor is not None:
        what_if = {**case.setting.what_if, "clock": factor * case.setting.what_if.get("clock", 1.0)}
        yield from case.suspect(
            "low clock",
            f"its clock was {si(factor * highest, 'Hz')} instead of {si(highest, 'Hz')}",
            "look at the clock while it runs (nvidia-smi -q -d CLOCK, cpupower) and at power limits",
            case.again(what_if=what_if),
        )


def _clock_factor(case: Case) -> float | None:
    """The share of the clock at which it would take the measured time; None where no such clock explains it."""

    def time_s(factor: float) -> float:
        what_if = {**case.setting.what_if, "clock": factor * case.setting.what_if.get("clock", 1.0)}
        predicted = case.again(what_if=what_if)
        return 0.0 if predicted is None else predicted.time_s

    low, high = _LOWEST_CLOCK, 1.0
    if time_s(low) < case.time_s:
        return None
    while high - low > _AT_REST_S / 100:
        middle = (low + high) / 2
        low, high = (middle, high) if time_s(middle) >= case.time_s else (low, middle)
    return low


def remote_memory(case: Case) -> Iterator[Suspect]:
    """Its data lay in the memory of another NUMA node, on a machine where that was measured."""
    rates = {
        to: [link.each_way_bytes_per_s for link in case.machine.links if link.to == to]
        for to in ("local memory", "remote memory")
    }
    local, remote = ([rate for rate in rates[to] if rate] for to in ("local memory", "remote memory"))
    if local and remote and min(remote) < max(local):
        slower = min(remote) / max(local) * case.setting.what_if.get("bandwidth", 1.0)
        yield from case.suspect(
            "remote memory",
            f"its data lay in the memory of another node, {si(min(remote), 'B/s')} a core instead of "
            f"{si(max(local), 'B/s')}",
            "numactl --cpunodebind=0 --membind=0; touch arrays first on the cores that use them",
            case.again(what_if={**case.setting.what_if, "bandwidth": slower}),
        )


# What may be otherwise in how it runs: a field of the setting, its other value, and words.
_OTHERWISE = (
    ("cache", "cold", "the caches were cold"),
    ("mode", "eager", "the host dispatched each operation"),
    ("power", "sustained", "power and heat lowered the clock"),
)


def together(case: Case) -> Iterator[Suspect]:
    """Two or three of the settings were otherwise at once."""
    open_ = [one for one in _OTHERWISE if getattr(case.setting, one[0]) != one[1]]
    for count in (2, 3):
        for several in combinations(open_, count):
            changes: dict[str, Any] = {name: value for name, value, _ in several}
            yield from case.suspect(
                " and ".join(value for _, value, _ in several),
                " and ".join(words for _, _, words in several),
                f"predict it with {' '.join(f'--{name} {value}' for name, value, _ in several)}",
                case.again(**changes),
            )


class FirstCall(NamedTuple):
    """Something that a first call does and no later one, with how long that takes.

    Attributes:
        kinds: of machines that it happens on.
        frameworks: that do it; "hand" stands for an operation whose framework is not known.
    """

    name: str
    says: str
    hint: str
    kinds: tuple[str, ...]
    frameworks: tuple[str, ...]
    low_s: float
    high_s: float
    source: str


@cache
def first_calls() -> tuple[FirstCall, ...]:
    """The rows of first_calls.toml."""
    text = files("rooflab.model.suspects").joinpath("first_calls.toml").read_text(encoding="utf-8")
    return tuple(msgspec.convert(row, FirstCall) for row in _rows(tomllib.loads(text)))


def _rows(raw: dict) -> Iterator[list]:
    for row in raw["first_call"]:
        yield [row[name] for name in FirstCall._fields]


def first_call(case: Case) -> Iterator[Suspect]:
    """The first call was timed, which loads or compiles what later ones find."""
    for one in first_calls():
        if case.machine.kind in one.kinds and case.graph.framework in one.frameworks:
            low_s, high_s = case.prediction.low_s + one.low_s, case.prediction.high_s + one.high_s
            middle_s = case.prediction.time_s + (one.low_s * one.high_s) ** 0.5
            yield case.bar(one.name, one.says, one.hint, middle_s, low_s, high_s)


def main_format(report: Report) -> str | None:
    """The number format of most of the FLOP, else of most of the bytes."""
    by_flop = report.flop_by
    if by_flop:
        return by_flop[0].dtype
    sizes: dict[str, float] = {}
    for spec in report.graph.tensors:
        sizes[spec.dtype] = sizes.get(spec.dtype, 0.0) + spec.nbytes
    return max(sizes, key=sizes.__getitem__, default=None)


def in_format(graph: Graph, dtype: str) -> Graph | None:
    """`graph` in that format; None where it has no such form."""
    try:
        return change_dtype(graph, dtype)
    except RooflabError:
        return None
