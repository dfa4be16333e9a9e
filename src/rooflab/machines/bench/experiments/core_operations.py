"""What single operations of this core take: chains for latencies, others for throughput, branches missed.

Each is a loop in LLVM IR, compiled in process without passes that would fold it. Times are the best of several;
a pass holds so many operations that its own counter hides behind them. Kept on disk by processor: they take two
seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
from llvmlite import binding

from rooflab.machines.bench.experiments import core_accesses as reach
from rooflab.machines.bench.experiments import core_calls, core_conversions
from rooflab.machines.bench.experiments import core_programs as ir
from rooflab.types.core_timing import CoreTiming

_VERSION = 8
_ROUNDS, _LEAST_S = 10, 2e-4
_MATHS = ("exp", "log", "sin", "cos", "pow", "tan", "tanh", "exp2", "log2", "log10", "atan", "sinh", "cosh")
_LIBRARY = (
    "hypot",
    "atan2",
    "expm1",
    "log1p",
    "erf",
    "erfc",
    "cbrt",
    "lgamma",
    "tgamma",
    "asinh",
    "fmod",
)  # without an instruction of the IR: called by name
_OF_TWO = ("pow", "hypot", "atan2", "fmod")
_FORMATS = {"fp64": "double", "fp32": "float"}
_WIDTHS = ((0, ""), (32, " vector"), (64, " wide"))  # bytes of a vector, 0: a single number
_BOXED = 1 << 14


def measure() -> CoreTiming:
    """The times of this core's operations, in cycles of its integer addition; from disk where they are there."""
    path = _path()
    if path.exists():
        try:
            return msgspec.json.decode(path.read_bytes(), type=CoreTiming)
        except msgspec.DecodeError:
            # cut off, or of another version: measured anew
            path.unlink(missing_ok=True)
    return afresh()


def afresh() -> CoreTiming:
    """The same measured now, and kept on disk where that can be written to."""
    found, path = _measured(), _path()
    with contextlib.suppress(OSError):
        # a home that is read-only: measured anew each time
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(found))
    return found


def cycle_now_s() -> float:
    """Seconds of a cycle at this moment: the clock may be another than when the operations were timed."""
    return _turns({"cycle": ir.item(ir.integer_chain(), ir.CHAIN)})["cycle"]


def _path() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    features = binding.get_host_cpu_features().flatten()
    model = next((line for line in _cpuinfo() if line.startswith("model name")), "")
    key = "|".join(
        (
            str(_VERSION),
            binding.get_host_cpu_name(),
            features,
            model,
            *map(_source, (__file__, ir.__file__, reach.__file__, core_calls.__file__, core_conversions.__file__)),
        )
    )
    return Path(home) / "rooflab" / f"core-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _source(path: str) -> str:
    return Path(path).read_text("utf-8")


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        # not Linux: the compiler's name of the processor does
        return []


def _measured() -> CoreTiming:
    items: dict[str, ir.Item] = {"cycle": ir.item(ir.integer_chain(), ir.CHAIN)}
    items |= {
        f"latency {name}": ir.item(ir.chains(each, ir.kind_of(each), ir.CHAIN, 1), ir.CHAIN)
        for name, each in ir.BODY.items()
    }
    for name, each in ir.BODY.items():
        if name.startswith("integer"):
            items[name] = ir.item(ir.chains(each, ir.kind_of(each), 4, ir.APART), 4 * ir.APART)
            continue
        slow = "divide" in name or "sqrt" in name
        for width, suffix in _WIDTHS:
            if width <= ir.vector_bytes():
                text, kind = ir.widened(each, width)
                length, apart = (2, 6) if slow and width else (4, ir.APART)
                if "sqrt" in name:
                    # roots of roots come to 1, whose root some cores find sooner
                    items[f"{name}{suffix}"] = ir.roots(text, kind)
                    continue
                items[f"{name}{suffix}"] = ir.item(ir.chains(text, kind, length, apart), length * apart)
    for name in (*_MATHS, *_LIBRARY):
        for format in _FORMATS:
            items[f"call {name} {format}"] = _called(name, format)
            items[f"latency call {name} {format}"] = _called(name, format, chained=True)
    items["latency fp add beside"] = ir.item(ir.chains(ir.BODY["fp add"], "double", 4, 3), 4)
    items["latency load"] = reach.pointers(ir.CHAIN)
    items["latency load indexed"] = reach.indices(ir.CHAIN)
    items["latency store forward"] = ir.item(reach.store_chain("double", "fadd"), ir.CHAIN)
    for width, suffix in _WIDTHS[1:]:
        if width <= ir.vector_bytes():
            kind = f"<{width // 8} x double>"
            # within a line, and with a half of 32 bytes or less across two
            for where, offset in (("", 0), (" split", 48 if width == 32 else 16)):
                text = reach.store_chain(kind, "fadd", offset)
                items[f"latency store forward{suffix}{where}"] = ir.item(text, ir.CHAIN)
    items["latency store forward integer"] = ir.item(reach.store_chain("i64", "add"), ir.CHAIN)
    items["latency fp compare"] = ir.item(ir.chains(_LEAST, "double", ir.CHAIN, 1), ir.CHAIN)
    items["latency fp compare apart"] = ir.item(ir.chains(_OTHER_CHOSEN, "double", ir.CHAIN, 1), ir.CHAIN)
    items |= _conversions()
    items["latency convert"] = ir.item(ir.chains(_ROUND_TRIP, "double", 4, 1), 4)
    items["convert"] = ir.item(ir.chains(_ROUND_TRIP, "double", 2, ir.APART), 4 * ir.APART)
    for width, suffix in _WIDTHS[1:]:
        if width <= ir.vector_bytes():
            lanes = width // 8
            text, kind = _LESS_EXACT.replace("*", f"{lanes} x"), f"<{lanes} x double>"
            # as many side by side as registers hold, or a pipe waits for those before; once there and back a pass,
            # as twice is once for a compiler
            apart = ir.APART if ir.vector_bytes() < _MASKED_BYTES else 2 * ir.APART
            items[f"convert{suffix}"] = ir.item(ir.chains(text, kind, 1, apart), 2 * apart)
    items["integer"] = ir.item(ir.chains("add i64 {x}, %f|xor i64 {y}, %g", "i64", 4, 9), 72)
    items["integer mixed"] = ir.item(ir.least_of_sums(), 4 * ir.LEAST_OPERATIONS)
    for what in ("load", "store"):
        items[f"{what} integer"] = ir.item(reach.side_by_side(what, 0, 0, 16).replace("double", "i64"), 16)
    items["fp mixed"] = ir.item(ir.chains("fadd double {x}, %g|fmul double {y}, %f", "double", 2, 12), 48)
    items["slot"] = ir.item(ir.renamed_only(), ir.SLOTS)
    items["integer shift"] = ir.item(ir.chains("shl i64 {x}, %g", "i64", 4, 9), 36)
    items |= _of_whole_vectors()
    items |= _gathers()
    for width, suffix in _WIDTHS:
        if width <= ir.vector_bytes():
            for what in ("load", "store"):
                items[f"{what}{suffix}"] = ir.item(reach.side_by_side(what, width, 0, 16), 16)
    for what in ("load", "store"):
        # half a vector beside where it belongs: some of them lie across two lines, and of a page's one across two
        # pages, which takes some cores much longer
        for width, suffix in ((min(32, ir.vector_bytes()), ""), (64, " wide")):
            if width <= ir.vector_bytes():
                count = ir.PAGE_BYTES // width
                items[f"{what} unaligned{suffix}"] = ir.item(
                    reach.side_by_side(what, width, min(16, width // 2), count), count
                )
    for bins in (reach.FEW_BINS, reach.MANY_BINS):
        items[f"counted in {bins}"] = reach.counted(bins)
    items |= reach.columns()
    random = np.random.default_rng(0).integers(0, 2, reach.RANDOM_BYTES).astype(np.uint8)
    same = np.ones(reach.RANDOM_BYTES, np.uint8)
    branches = ir.compiled(reach.BRANCHES), ir.compiled(reach.BRANCHES_OF_FLOATS)
    for name, each in (("random", random), ("same", same)):
        for kind, code, held in (("", branches[0], each), (" fp", branches[1], each.astype(np.float32))):
            # where the last run ended: no branch of the random ones is seen twice
            at = np.zeros(1, np.int64)
            items[f"branch {name}{kind}"] = ir.Item(code, 1, held.ctypes.data, (ir.NONE, at), (held,))
    items |= core_calls.items()
    seconds = _turns(items)
    return _timing({**seconds, "call boxing": _boxing_s()})


def dearer(given: Mapping[str, tuple[np.ndarray, ...]]) -> dict[str, float]:
    """How many times as long mathematical functions take here for what they are `given` as for usual arguments.

    Their own branches, and how they bring an argument into their range, depend on it. Side by side, and each
    waiting for the one before ("latency call sin fp64"); and both where hardly a branch of theirs is foretold
    wrongly ("ordered call sin fp64", "ordered latency call sin fp64"), as arguments come in ascending order.

    Args:
        given: by kind ("call sin fp64"), numbers of each argument, as many as a power of two; others are left out.
            A core learns by heart which way some ten thousand calls go: as many as a run makes, again and again,
            are foretold as there.
    """
    items: dict[str, ir.Item] = {}
    for kind, values in given.items():
        _, name, format = kind.split()
        if name in (*_MATHS, *_LIBRARY) and format in _FORMATS:
            # of many, as many as the usual ones: hardly a branch of theirs is foretold wrongly in any case
            order = np.lexsort(values[::-1])[:: max(1, len(values[0]) // ir.ARGUMENTS)]
            ordered = tuple(each[order] for each in values)
            for row, chained in ((kind, False), (f"latency {kind}", True)):
                items[f"usual {row}"] = _called(name, format, chained=chained)
                items[row] = _called(name, format, values, chained=chained)
                items[f"ordered {row}"] = _called(name, format, ordered, chained=chained)
    seconds = _turns(items)
    return {
        row: seconds[row] / seconds[f"usual {row.removeprefix('ordered ')}"]
        for row in items
        if not row.startswith("usual ")
    }


def _called(name: str, format: str, given: tuple[np.ndarray, ...] = (), *, chained: bool = False) -> ir.Item:
    """Calls of a function of the C library's, or what stands for it in LLVM's IR."""
    kind = _FORMATS[format]
    symbol = f"llvm.{name}.f{format[2:]}" if name in _MATHS else name if kind == "double" else f"{name}f"
    return ir.calls(kind, symbol, given, two=name in _OF_TWO, chained=chained)


def _conversions() -> dict[str, ir.Item]:
    """Between numbers and whole numbers, which lie in other registers."""
    trips, each = core_conversions.ROUND_TRIPS, core_conversions.APART
    return {
        "latency convert whole": ir.item(core_conversions.round_trips(), trips),
        "convert from whole": ir.item(core_conversions.from_bytes(), each),
        "convert to whole": ir.item(core_conversions.to_whole(), each),
        "to whole": ir.item(core_conversions.to_whole_alone(), each),
    }


def _of_whole_vectors() -> dict[str, ir.Item]:
    """What moves numbers within vectors, and arithmetic on vectors of whole numbers, by their width."""
    items = {}
    for width, suffix in ((min(32, ir.vector_bytes()), ""), (64, " wide")):
        if width <= ir.vector_bytes():
            kind, halves = f"<{width // 8} x i64>", f"<{width // 4} x i32>"
            moved = ir.chains(ir.shuffle(width // 8), f"<{width // 8} x double>", 4, ir.APART)
            added = ir.chains(f"add {kind} {{x}}, %f|xor {kind} {{y}}, %g", kind, 2, ir.APART)
            shifted = ir.chains(f"shl {kind} {{x}}, %g|xor {kind} {{y}}, %f", kind, 4, ir.APART)
            product = ir.chains(f"mul {halves} {{x}}, %f", halves, 4, ir.APART)
            items[f"shuffle{suffix}"] = ir.item(moved, 4 * ir.APART)
            items[f"vector integer{suffix}"] = ir.item(added, 4 * ir.APART)
            items[f"vector shift{suffix}"] = ir.item(shifted, 4 * ir.APART)
            items[f"vector multiply{suffix}"] = ir.item(product, 4 * ir.APART)
    return items


def _gathers() -> dict[str, ir.Item]:
    """Gathers and scatters within L1, by the width of vectors: side by side, in a chain, as instructions alone."""
    items = {}
    for width, suffix in ((min(32, ir.vector_bytes()), ""), (64, " wide")):
        if width <= ir.vector_bytes():
            lanes = width // 8
            items[f"gather{suffix}"] = ir.item(reach.gather(lanes), 4 * lanes)
            items[f"gather slots{suffix}"] = ir.item(reach.gather(lanes, ir.SLOTS), 4)
            items[f"latency gather{suffix}"] = reach.gathers_in_chain(lanes)
            items[f"scatter{suffix}"] = ir.item(reach.scatter(lanes), 4 * lanes)
            items[f"scatter slots{suffix}"] = ir.item(reach.scatter(lanes, ir.SLOTS), 4)
    return items


def _boxing_s() -> float:
    """Seconds to make a number an object in a list of Python's, and to let go of it."""
    held, best = np.random.default_rng(0).random(_BOXED), float("inf")
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        held.tolist()
        best = min(best, time.perf_counter() - begun)
    return best / _BOXED


def _timing(seconds: dict[str, float]) -> CoreTiming:
    """What the seconds of each item come to, in cycles."""
    cycle_s = seconds.pop("cycle")
    missed, floating = (
        max(0.0, 2 * (seconds.pop(f"branch random{kind}") - seconds.pop(f"branch same{kind}"))) / cycle_s
        for kind in ("", " fp")
    )
    each = {name: value / cycle_s for name, value in seconds.items() if not name.startswith("latency ")}
    latency = {
        name.removeprefix("latency "): value / cycle_s
        for name, value in seconds.items()
        if name.startswith("latency ")
    }
    for suffix, plain, width in (("", " vector", min(32, ir.vector_bytes())), (" wide", " wide", 64)):
        for what in ("load", "store"):
            if f"{what} unaligned{suffix}" in each:
                more = each.pop(f"{what} unaligned{suffix}") - each[f"{what}{plain}"]
                each[f"{what} split{suffix}"] = max(0.0, more * 64 / width)
        for what in ("gather slots", "scatter slots"):
            if what + suffix in each:
                # what passes through the front of the core beside instructions that only do that, of each number
                passed = each[what + suffix] / each["slot"] - ir.SLOTS
                each[what + suffix] = max(1.0, passed / (width / 8))
    for name in ("convert from whole", "convert to whole"):
        # a product and an addition go beside, on units that do both
        each[name] = max(0.0, each[name] - 2 * each["fp mixed"])
    each[core_calls.RANDOM_STATE] = max(1.0, each[core_calls.RANDOM_STATE] - core_calls.BESIDE * each["slot"])
    few, many = each.pop(f"counted in {reach.FEW_BINS}"), each.pop(f"counted in {reach.MANY_BINS}")
    each["load overtaken"] = max(0.0, few - many) / reach.MEETING
    for name in [name for name in each if name.endswith(reach.TWO_SUMS)]:
        # a sum waits for itself; where lines come sooner than that, two do not
        plain = name.removesuffix(reach.TWO_SUMS)
        each[plain] = min(each[plain], each.pop(name))
    for name in [name for name in each if name.endswith(reach.ELSEWHERE)]:
        # lines that are written back take as long as where their pages lie lets them: up to half as long again
        plain = name.removesuffix(reach.ELSEWHERE)
        each[plain] = (each[plain] + each.pop(name)) / 2
    latency["fp branch"] = max(0.0, floating - missed)  # how much later one on a floating-point number is known
    latency["integer"] = 1.0
    latency["integer multiply"] -= 1.0  # an exclusive or stands between two
    for name in latency:
        if name.startswith("store forward") and name != "store forward integer":
            latency[name] -= latency["fp add"]
    # some cores hand whole numbers on without going through memory
    latency["store forward integer"] = max(0.0, latency["store forward integer"] - 1.0)
    latency["fp compare"] = max(1.0, latency["fp compare"] - 1.0)  # the choice is the rest
    latency["fp compare apart"] = max(1.0, latency["fp compare apart"] - 1.0)
    latency["convert"] /= 2  # there and back
    whole = (latency.pop("convert whole") - 2.0) / 2  # two operations on the whole number stand between
    latency |= {"convert from whole": whole, "convert to whole": whole}
    for name in latency:
        if name.startswith("call "):
            latency[name] -= latency["fp multiply"] + latency["fp add"]  # between two of a chain
    latency |= {name: each[name] for name in core_calls.ROWS}
    return CoreTiming(cycle_s=cycle_s, latency=latency, throughput=each, missed_branch=missed)


def _turns(items: dict[str, ir.Item]) -> dict[str, float]:
    """The least seconds of one operation of each item, over turns among all of them."""
    # from a page's border
    held = np.zeros(3 * ir.PAGE_BYTES // 8, np.float64)
    out = held[-held.ctypes.data % ir.PAGE_BYTES // 8 :]
    passes = {name: max(1 << 9, each.least) for name, each in items.items()}
    best = dict.fromkeys(items, float("inf"))
    # NumPy takes microseconds to say where an array lies
    places = {
        name: (each.start or out.ctypes.data, *(one.ctypes.data for one in each.values), out.ctypes.data)
        for name, each in items.items()
    }
    for turn in range(_ROUNDS):
        for name, one in items.items():
            while True:
                begun = time.perf_counter()
                one.run(passes[name], *places[name])
                took = time.perf_counter() - begun
                if turn or took >= _LEAST_S:
                    break
                passes[name] *= 4
            best[name] = min(best[name], took / passes[name] / one.operations)
    return best


_LEAST = "fcmp olt double {x}, %f|select i1 {y}, double {x}, double %f"
_OTHER_CHOSEN = "fcmp olt double {x}, %f|select i1 {y}, double %g, double {x}"
_MASKED_BYTES = 64  # of vectors that come with twice as many registers
_LESS_EXACT = "fptrunc <* double> {x} to <* float>|fpext <* float> {y} to <* double>"
_ROUND_TRIP = "fptosi double {x} to i64|sitofp i64 {y} to double"
