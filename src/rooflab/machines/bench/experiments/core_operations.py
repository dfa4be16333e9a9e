"""What single operations of this core take: chains for latencies, others for throughput, branches missed.

Each is a loop in LLVM IR, compiled in process without passes that would fold it. Times are the best of several;
a pass holds so many operations that its own counter hides behind them. Kept on disk by processor: they take two
seconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from llvmlite import binding

from rooflab.types.core_timing import CoreTiming

_VERSION = 5
_CHAIN, _APART = 16, 10  # operations of a chain a pass; chains side by side where throughput is asked for
_ROUNDS, _LEAST_S = 10, 2e-4
_MATHS = ("exp", "log", "sin", "cos", "pow", "tan", "tanh", "exp2", "log2", "log10", "atan", "sinh", "cosh")
_LIBRARY = ("hypot", "atan2", "expm1", "log1p", "erf")  # without an instruction of the IR: called by name
_ARGUMENT, _OTHER_ARGUMENT = 0.7, 1.3
_RANGE, _ARGUMENTS = (0.05, 3.0), 4096  # of what functions are called with
_SLOTS, _PAGE_BYTES = 48, 4096
# What a core renames and never executes, so that its front alone is timed: of nops some fuse two to one.
_RENAMED = {"x86_64": ("xorl %eax, %eax", "xorl %ecx, %ecx", "xorl %edx, %edx", "xorl %esi, %esi")}
_CLOBBERED = "~{rax},~{rcx},~{rdx},~{rsi}"
# A column of a matrix: its lines so far apart that an L1 of 64 sets, or of a few more, has 1 to 8 of them for it.
# It lies in so few pages that their translations are at hand.
_COLUMN_BYTES, APART_BYTES = 1 << 18, (512, 1024, 2048, 4096)
_TWO_SUMS, _ELSEWHERE = " into two sums", " elsewhere"
_WIDTHS = ((0, ""), (32, " vector"), (64, " wide"))  # bytes of a vector, 0: a single number
_BODY = {
    "fp add": "fadd double {x}, %f",
    "fp multiply": "fmul double {x}, %f",
    "fp multiply-add": "call double @llvm.fma.f64(double {x}, double %f, double %g)",
    "divide fp64": "fdiv double {x}, %f",
    "sqrt fp64": "call double @llvm.sqrt.f64(double {x})",
    "divide fp32": "fdiv float {x}, %f",
    "sqrt fp32": "call float @llvm.sqrt.f32(float {x})",
    "integer multiply": "mul i64 {x}, %f|xor i64 {y}, %g",
    "integer divide": "sdiv i64 {x}, %f",
}
_BOXED = 1 << 14
_LEAST_OPERATIONS = 7  # of each of its choices: three loads, a sum, a comparison, a choice, a store
_COUNTED, _FEW_BINS, _MANY_BINS = 4096, 16, 256
# Share of loads that meet one of the 32 stores before them where 16 bins are chosen at random; none does where 256
# are taken in turn.
_MEETING = 1 - (1 - 1 / _FEW_BINS) ** 32
_RANDOM_BYTES = 1 << 20  # more branches than any predictor learns by heart


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
    return _turns({"cycle": _item(_integer_chain(), _CHAIN)})["cycle"]


def _path() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    features = binding.get_host_cpu_features().flatten()
    model = next((line for line in _cpuinfo() if line.startswith("model name")), "")
    key = "|".join(
        (str(_VERSION), binding.get_host_cpu_name(), features, model, Path(__file__).read_text("utf-8"))
    )
    return Path(home) / "rooflab" / f"core-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        # not Linux: the compiler's name of the processor does
        return []


class _Item(NamedTuple):
    """A compiled loop to be timed: a pass of it holds `operations`."""

    run: Callable[..., Any]
    operations: int
    start: int
    values: tuple[np.ndarray, np.ndarray]
    kept: tuple[Any, ...]


def _measured() -> CoreTiming:
    items: dict[str, _Item] = {"cycle": _item(_integer_chain(), _CHAIN)}
    items |= {
        f"latency {name}": _item(_function(each, _type(each), _CHAIN, 1), _CHAIN) for name, each in _BODY.items()
    }
    for name, each in _BODY.items():
        if name.startswith("integer"):
            items[name] = _item(_function(each, _type(each), 4, _APART), 4 * _APART)
            continue
        slow = "divide" in name or "sqrt" in name
        for width, suffix in _WIDTHS:
            if width <= vector_bytes():
                text, kind = _vector(each, width)
                length, apart = (2, 6) if slow and width else (4, _APART)
                if "sqrt" in name:
                    # roots of roots come to 1, whose root some cores find sooner
                    items[f"{name}{suffix}"] = _roots(text, kind)
                    continue
                items[f"{name}{suffix}"] = _item(_function(text, kind, length, apart), length * apart)
    for name in (*_MATHS, *_LIBRARY):
        for kind, format in (("double", "fp64"), ("float", "fp32")):
            suffix = "f64" if kind == "double" else "f32"
            more = f", {kind} %g" if name in ("pow", "hypot", "atan2") else ""
            symbol = f"llvm.{name}.{suffix}" if name in _MATHS else name if kind == "double" else f"{name}f"
            items[f"call {name} {format}"] = _calls(kind, symbol, more)
            items[f"latency call {name} {format}"] = _calls(kind, symbol, more, chained=True)
    items["latency fp add beside"] = _item(_function(_BODY["fp add"], "double", 4, 3), 4)
    items["latency load"] = _pointers(_CHAIN)
    items["latency load indexed"] = _indices(_CHAIN)
    items["latency store forward"] = _item(_store_chain("double", "fadd"), _CHAIN)
    items["latency store forward integer"] = _item(_store_chain("i64", "add"), _CHAIN)
    items["latency fp compare"] = _item(_function(_LEAST, "double", _CHAIN, 1), _CHAIN)
    items["latency convert"] = _item(_function(_ROUND_TRIP, "double", 4, 1), 4)
    items["convert"] = _item(_function(_ROUND_TRIP, "double", 2, _APART), 4 * _APART)
    for width, suffix in _WIDTHS[1:]:
        if width <= vector_bytes():
            lanes = width // 8
            text, kind = _LESS_EXACT.replace("*", f"{lanes} x"), f"<{lanes} x double>"
            items[f"convert{suffix}"] = _item(_function(text, kind, 2, _APART), 4 * _APART)
    items["integer"] = _item(_function("add i64 {x}, %f|xor i64 {y}, %g", "i64", 4, 9), 72)
    items["integer mixed"] = _item(_least_of_sums(), 4 * _LEAST_OPERATIONS)
    for what in ("load", "store"):
        items[f"{what} integer"] = _item(_accesses(what, 0, 0, 16).replace("double", "i64"), 16)
    items["fp mixed"] = _item(_function("fadd double {x}, %g|fmul double {y}, %f", "double", 2, 12), 48)
    items["slot"] = _item(_nothing(), _SLOTS)
    lanes = min(32, vector_bytes()) // 8
    items["shuffle"] = _item(_function(_shuffle(lanes), f"<{lanes} x double>", 4, _APART), 4 * _APART)
    pair = f"<{lanes} x i64>"
    items["vector integer"] = _item(
        _function(f"add {pair} {{x}}, %f|xor {pair} {{y}}, %g", pair, 2, _APART), 4 * _APART
    )
    items["gather"] = _item(_gather(lanes), 4 * lanes)
    for width, suffix in _WIDTHS:
        if width <= vector_bytes():
            for what in ("load", "store"):
                items[f"{what}{suffix}"] = _item(_accesses(what, width, 0, 16), 16)
    for what in ("load", "store"):
        # half a vector beside where it belongs: some of them lie across two lines, and of a page's one across two
        # pages, which takes some cores much longer
        width = min(32, vector_bytes())
        items[f"{what} unaligned"] = _item(
            _accesses(what, width, width // 2, _PAGE_BYTES // width), _PAGE_BYTES // width
        )
    for bins in (_FEW_BINS, _MANY_BINS):
        items[f"counted in {bins}"] = _counted(bins)
    items |= _columns()
    random = np.random.default_rng(0).integers(0, 2, _RANDOM_BYTES).astype(np.uint8)
    same = np.ones(_RANDOM_BYTES, np.uint8)
    branches = _compiled(_BRANCHES), _compiled(_BRANCHES_OF_FLOATS)
    for name, each in (("random", random), ("same", same)):
        for kind, code, held in (("", branches[0], each), (" fp", branches[1], each.astype(np.float32))):
            # where the last run ended: no branch of the random ones is seen twice
            at = np.zeros(1, np.int64)
            items[f"branch {name}{kind}"] = _Item(code, 1, held.ctypes.data, (_NONE, at), (held,))
    seconds = _turns(items)
    return _timing({**seconds, "call boxing": _boxing_s()})


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
    crossing = min(32, vector_bytes()) / 64
    for what in ("load", "store"):
        beside = each.pop(f"{what} unaligned")
        each[f"{what} split"] = max(0.0, (beside - each[f"{what} vector"]) / crossing)
    few, many = each.pop(f"counted in {_FEW_BINS}"), each.pop(f"counted in {_MANY_BINS}")
    each["load overtaken"] = max(0.0, few - many) / _MEETING
    for name in [name for name in each if name.endswith(_TWO_SUMS)]:
        # a sum waits for itself; where lines come sooner than that, two do not
        plain = name.removesuffix(_TWO_SUMS)
        each[plain] = min(each[plain], each.pop(name))
    for name in [name for name in each if name.endswith(_ELSEWHERE)]:
        # lines that are written back take as long as where their pages lie lets them: up to half as long again
        plain = name.removesuffix(_ELSEWHERE)
        each[plain] = (each[plain] + each.pop(name)) / 2
    latency["fp branch"] = max(0.0, floating - missed)  # how much later one on a floating-point number is known
    latency["integer"] = 1.0
    latency["integer multiply"] -= 1.0  # an exclusive or stands between two
    latency["store forward"] -= latency["fp add"]
    # some cores hand whole numbers on without going through memory
    latency["store forward integer"] = max(0.0, latency["store forward integer"] - 1.0)
    latency["fp compare"] = max(1.0, latency["fp compare"] - 1.0)  # the choice is the rest
    latency["convert"] /= 2  # there and back
    for name in latency:
        if name.startswith("call "):
            latency[name] -= latency["fp multiply"] + latency["fp add"]  # between two of a chain
    return CoreTiming(cycle_s=cycle_s, latency=latency, throughput=each, missed_branch=missed)


def _turns(items: dict[str, _Item]) -> dict[str, float]:
    """The least seconds of one operation of each item, over turns among all of them."""
    # from a page's border
    held = np.zeros(3 * _PAGE_BYTES // 8, np.float64)
    out = held[-held.ctypes.data % _PAGE_BYTES // 8 :]
    passes = dict.fromkeys(items, 1 << 9)
    best = dict.fromkeys(items, float("inf"))
    # NumPy takes microseconds to say where an array lies
    places = {
        name: (each.start or out.ctypes.data, *(one.ctypes.data for one in each.values), out.ctypes.data)
        for name, each in items.items()
    }
    for turn in range(_ROUNDS):
        for name, item in items.items():
            while True:
                begun = time.perf_counter()
                item.run(passes[name], *places[name])
                took = time.perf_counter() - begun
                if turn or took >= _LEAST_S:
                    break
                passes[name] *= 4
            best[name] = min(best[name], took / passes[name] / item.operations)
    return best


@functools.cache
def vector_bytes() -> int:
    """Bytes of the widest vectors that LLVM makes code for here."""
    features = binding.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


_LEAST = "fcmp olt double {x}, %f|select i1 {y}, double {x}, double %f"
_LESS_EXACT = "fptrunc <* double> {x} to <* float>|fpext <* float> {y} to <* double>"
_ROUND_TRIP = "fptosi double {x} to i64|sitofp i64 {y} to double"


def _type(body: str) -> str:
    return next(each for each in ("double", "float", "i64") if each in body)


def _vector(body: str, width: int) -> tuple[str, str]:
    """The same on vectors of `width` bytes, and their type; on single numbers where that is 0."""
    kind = _type(body)
    if not width:
        return body, kind
    lanes = width // (8 if kind == "double" else 4)
    wide = f"<{lanes} x {kind}>"
    return body.replace(kind, wide).replace(".f64", f".v{lanes}f64").replace(".f32", f".v{lanes}f32"), wide


def _shuffle(lanes: int) -> str:
    """One that crosses the halves of a vector, and an addition, without which two would become one."""
    order = ", ".join(f"i32 {(n + 1) % lanes}" for n in range(lanes))
    kind = f"<{lanes} x double>"
    return f"shufflevector {kind} {{x}}, {kind} %f, <{lanes} x i32> <{order}>|fadd {kind} {{y}}, %g"


def _nothing() -> str:
    """Instructions that do nothing but pass through the front of the core."""
    architecture = binding.get_default_triple().partition("-")[0]
    texts = _RENAMED.get(architecture, ("nop",))
    clobbered = _CLOBBERED if architecture in _RENAMED else ""
    return _looped(
        [f'  call void asm sideeffect "{texts[n % len(texts)]}", "{clobbered}"()' for n in range(_SLOTS)]
    )


def _gather(lanes: int) -> str:
    """Four gathers a pass from L1, each of a whole vector."""
    kind = f"<{lanes} x double>"
    order = ", ".join(f"i64 {3 * n + 1}" for n in range(lanes))
    mask = ", ".join(["i1 true"] * lanes)
    lines = [
        f"  %i0 = load volatile <{lanes} x i64>, ptr %fp, align 8",
        f"  %a = and <{lanes} x i64> %i0, <{order}>",
    ]
    for n in range(4):
        lines += [
            f"  %p{n} = getelementptr [{n + 1} x double], ptr %out, <{lanes} x i64> %a",
            f"  %v{n} = call {kind} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr> %p{n}, i32 8,"
            f" <{lanes} x i1> <{mask}>, {kind} zeroinitializer)",
            f"  store volatile {kind} %v{n}, ptr %gp, align 8",
        ]
    declared = (
        f"declare {kind} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr>, i32, <{lanes} x i1>, {kind})"
    )
    return declared + _looped(lines)


def _looped(lines: list[str]) -> str:
    """A function whose loop runs `lines` in each pass."""
    return f"""
define void @run(i64 %n, ptr %startp, ptr %fp, ptr %gp, ptr %out) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{chr(10).join(lines)}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def _function(body: str, kind: str, length: int, apart: int) -> str:
    """A loop whose pass runs `body` `length` times on each of `apart` values: `{x}` is the value so far."""
    phis, lines = [], []
    for chain in range(apart):
        phis.append(f"  %c{chain} = phi {kind} [ %start, %entry ], [ %c{chain}.{length}, %loop ]")
        for step in range(1, length + 1):
            before = f"%c{chain}" if step == 1 else f"%c{chain}.{step - 1}"
            first, _, second = body.partition("|")
            if second:
                lines.append(f"  %t{chain}.{step} = {first.format(x=before)}")
                lines.append(f"  %c{chain}.{step} = {second.format(y=f'%t{chain}.{step}', x=before)}")
            else:
                lines.append(f"  %c{chain}.{step} = {first.format(x=before)}")
    kept = "\n".join(f"  store {kind} %c{chain}.{length}, ptr %out, align 8" for chain in range(apart))
    loads = "\n".join(f"  %{name} = load {kind}, ptr %{name}p, align 8" for name in ("start", "f", "g"))
    declared = "\n".join(sorted(set(_declarations(body))))
    return f"""{declared}
define void @run(i64 %n, ptr %startp, ptr %fp, ptr %gp, ptr %out) {{
entry:
{loads}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{chr(10).join(phis)}
{chr(10).join(lines)}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{kept}
  ret void
}}"""


def _declarations(body: str) -> list[str]:
    found = []
    for each in body.split("|"):
        if each.startswith("call "):
            kind = each[5 : each.index(" @")]
            name = each[each.index("@") : each.index("(")]
            count = each[each.index("(") :].count(kind)
            found.append(f"declare {kind} {name}({', '.join([kind] * count)})")
    return found


def _integer_chain() -> str:
    """Additions and exclusive ors in turn: what is not folded."""
    return _function("add i64 {x}, %f|xor i64 {y}, %g", "i64", _CHAIN // 2, 1)


def _roots(text: str, kind: str) -> _Item:
    """Square roots of a number that is loaded anew for each."""
    lines = []
    for n in range(_APART):
        lines += [
            f"  %x{n} = load volatile {kind}, ptr %fp, align 8",
            f"  %y{n} = {text.format(x=f'%x{n}')}",
            f"  store volatile {kind} %y{n}, ptr %out, align 8",
        ]
    held = np.full(64, _ARGUMENT, np.float32 if "float" in kind else np.float64)
    declared = "\n".join(_declarations(text))
    return _Item(_compiled(declared + _looped(lines)), _APART, held.ctypes.data, (held, held), (held,))


def _calls(kind: str, symbol: str, more: str, *, chained: bool = False) -> _Item:
    """Calls of a function on numbers at random, so that its own branches are foretold as seldom as on data.

    `chained`: each waits for the one before, whose result times 0 is added to its argument.
    """
    size = 8 if kind == "double" else 4
    lines = [f"  %first = mul i64 %i, {4 * size}", f"  %at = and i64 %first, {_ARGUMENTS * size - 1}"]
    for n in range(4):
        lines += [
            f"  %o{n} = add i64 %at, {n * size}",
            f"  %p{n} = getelementptr i8, ptr %startp, i64 %o{n}",
            f"  %x{n} = load {kind}, ptr %p{n}, align {size}",
        ]
        if chained:
            before = f"%y{n - 1}" if n else "%last"
            lines += [
                f"  %m{n} = fmul {kind} {before}, %f",
                f"  %s{n} = fadd {kind} %x{n}, %m{n}",
                f"  %y{n} = call {kind} @{symbol}({kind} %s{n}{more})",
            ]
        else:
            lines += [
                f"  %y{n} = call {kind} @{symbol}({kind} %x{n}{more})",
                f"  store volatile {kind} %y{n}, ptr %out, align {size}",
            ]
    declared = "\n".join(_declarations(f"call {kind} @{symbol}({kind} %x{more})"))
    loads = f"entry:\n  %f = load {kind}, ptr %fp\n  %g = load {kind}, ptr %gp"
    text = declared + _looped(lines).replace("entry:", loads, 1)
    if chained:
        text = text.replace("  %first =", f"  %last = phi {kind} [ %g, %entry ], [ %y3, %loop ]\n  %first =", 1)
        text = text.replace("  ret void", f"  store {kind} %y3, ptr %out\n  ret void")
    low, high = _RANGE
    held = np.random.default_rng(0).uniform(low, high, _ARGUMENTS).astype(np.float64 if size == 8 else np.float32)
    nothing, other = np.zeros(64, held.dtype), np.full(64, _OTHER_ARGUMENT, held.dtype)
    return _Item(_compiled(text), 4, held.ctypes.data, (nothing, other), (held,))


def _pointers(length: int) -> _Item:
    """Loads that each say where the next finds its address: all differ, as some cores guess what does not."""
    order = np.random.default_rng(0).permutation(256)
    held = np.zeros(256, np.int64)
    held[order] = held.ctypes.data + 8 * np.roll(order, -1)
    steps = [f"  %p{n + 1} = load ptr, ptr %p{n}, align 8" for n in range(length)]
    text = (
        _looped([*steps])
        .replace("  %p1 =", f"  %p0 = phi ptr [ %startp, %entry ], [ %p{length}, %loop ]\n  %p1 =", 1)
        .replace("  ret void", f"  store ptr %p{length}, ptr %out\n  ret void")
    )
    return _Item(_compiled(text), length, held.ctypes.data, (_NONE, _NONE), (held,))


def _indices(length: int) -> _Item:
    """Loads that each say which number of an array the next one is: addresses are computed on the way."""
    order = np.random.default_rng(0).permutation(256)
    held = np.zeros(256, np.int64)
    held[order] = np.roll(order, -1)
    steps = []
    for n in range(length):
        steps += [
            f"  %p{n + 1} = getelementptr i64, ptr %startp, i64 %x{n}",
            f"  %x{n + 1} = load i64, ptr %p{n + 1}, align 8",
        ]
    text = (
        _looped(steps)
        .replace("  %p1 =", f"  %x0 = phi i64 [ 0, %entry ], [ %x{length}, %loop ]\n  %p1 =", 1)
        .replace("  ret void", f"  store i64 %x{length}, ptr %out\n  ret void")
    )
    return _Item(_compiled(text), length, held.ctypes.data, (_NONE, _NONE), (held,))


def _columns() -> dict[str, _Item]:
    """Numbers in more lines than their sets of L1 hold, by how far apart they lie: added up, changed, stored."""
    places = (np.ones(_COLUMN_BYTES // 8), np.ones(4 * _COLUMN_BYTES // 8))
    items: dict[str, _Item] = {}
    for kind, sums, place in (
        ("read", 1, 0),
        ("read", 2, 0),
        ("changed", 0, 0),
        ("changed", 0, 1),
        ("stored", 0, 0),
    ):
        run, held = _compiled(_column(kind, sums)), places[place]
        for apart in APART_BYTES:
            name = column_row(kind, apart) + (_TWO_SUMS if sums > 1 else _ELSEWHERE if place else "")
            step = np.full(1, apart, np.int64)
            turns = np.full(1, _COLUMN_BYTES // apart // 4 - 1, np.int64)
            items[name] = _Item(run, 4, held.ctypes.data, (step, turns), (held,))
    return items


def column_row(kind: str, apart_bytes: int) -> str:
    """The name of the cycles that a line takes where lines so far apart are walked."""
    return f"L2 line {kind}, {apart_bytes} apart"


def _column(kind: str, sums: int) -> str:
    """A walk down a column, whose rows lie as far apart as is read at run time, into so many sums in turn."""
    lines = [f"  %s{n} = phi double [ 0.0, %entry ], [ %s{n + 4}, %loop ]" for n in range(sums)]
    lines += ["  %at = and i64 %i, %turns", "  %far = mul i64 %at, %four"]
    sum_of = [f"%s{n}" for n in range(sums)]
    for n in range(4):
        lines += [
            f"  %f{n} = mul i64 %step, {n}",
            f"  %o{n} = add i64 %far, %f{n}",
            f"  %p{n} = getelementptr i8, ptr %startp, i64 %o{n}",
        ]
        if kind != "stored":
            lines.append(f"  %v{n} = load volatile double, ptr %p{n}, align 8")
        if kind == "read":
            made = f"%s{4 + n - (4 - sums)}" if n >= 4 - sums else f"%t{n}"
            lines.append(f"  {made} = fadd double {sum_of[n % sums]}, %v{n}")
            sum_of[n % sums] = made
        else:
            value = "1.0" if kind == "stored" else f"%v{n}"
            lines.append(f"  store volatile double {value}, ptr %p{n}, align 8")
    text = _looped(lines).replace(
        "entry:",
        "entry:\n  %step = load i64, ptr %fp\n  %turns = load i64, ptr %gp\n  %four = shl i64 %step, 2",
        1,
    )
    kept = "".join(f"  store volatile double {each}, ptr %out\n" for each in sum_of)
    return text.replace("  ret void", f"{kept}  ret void")


def _counted(bins: int) -> _Item:
    """Increments of bins, four a pass, whose numbers come late: a division, which the address waits for.

    A few bins are chosen at random, so that a load may be started before an older store to its address is known;
    many are taken in turn.
    """
    held = (
        np.random.default_rng(0).integers(0, bins, _COUNTED) if bins == _FEW_BINS else np.arange(_COUNTED) % bins
    )
    lines = [f"  %at = and i64 %i, {_COUNTED // 4 - 1}", "  %first = mul i64 %at, 32"]
    for n in range(4):
        lines += [
            f"  %o{n} = add i64 %first, {8 * n}",
            f"  %q{n} = getelementptr i8, ptr %startp, i64 %o{n}",
            f"  %k{n} = load i64, ptr %q{n}, align 8",
            f"  %f{n} = sitofp i64 %k{n} to double",
            f"  %d{n} = fdiv double %f{n}, %f",
            f"  %b{n} = fptosi double %d{n} to i64",
            f"  %p{n} = getelementptr i64, ptr %out, i64 %b{n}",
            f"  %x{n} = load volatile i64, ptr %p{n}, align 8",
            f"  %y{n} = add i64 %x{n}, 1",
            f"  store volatile i64 %y{n}, ptr %p{n}, align 8",
        ]
    text = _looped(lines).replace("entry:", "entry:\n  %f = load double, ptr %fp", 1)
    values, ones = held.astype(np.int64), np.ones(64)
    return _Item(_compiled(text), 4, values.ctypes.data, (ones, ones), (values,))


def _least_of_sums() -> str:
    """Ordinary code on whole numbers: three loads, a sum, a comparison and choice, a store; four times."""
    # in turn through a page, so that none waits for the store of the pass before
    lines = ["  %at = and i64 %i, 15", "  %row = mul i64 %at, 256"]
    for n in range(4):
        lines += [
            f"  %o{n} = add i64 %row, {64 * n}",
            f"  %p{n} = getelementptr i8, ptr %out, i64 %o{n}",
            f"  %q{n} = getelementptr i8, ptr %startp, i64 {64 * n}",
            f"  %x{n} = load volatile i64, ptr %p{n}, align 8",
            f"  %y{n} = load volatile i64, ptr %q{n}, align 8",
            f"  %z{n} = load volatile i64, ptr %fp, align 8",
            f"  %s{n} = add i64 %y{n}, %z{n}",
            f"  %l{n} = icmp slt i64 %x{n}, %s{n}",
            f"  %m{n} = select i1 %l{n}, i64 %x{n}, i64 %s{n}",
            f"  store volatile i64 %m{n}, ptr %p{n}, align 8",
        ]
    return _looped(lines)


def _store_chain(kind: str, add: str) -> str:
    """A number added to in memory: load, add, store, and the load of the next waits for the store."""
    lines = []
    for n in range(_CHAIN):
        lines += [
            f"  %x{n} = load volatile {kind}, ptr %out, align 8",
            f"  %y{n} = {add} {kind} %x{n}, %f",
            f"  store volatile {kind} %y{n}, ptr %out, align 8",
        ]
    return _looped(lines).replace("entry:", f"entry:\n  %f = load {kind}, ptr %fp", 1)


def _accesses(what: str, width: int, offset: int, count: int) -> str:
    """So many loads or stores a pass within L1, of vectors of so many bytes (0: numbers), so far from a line."""
    kind = f"<{width // 8} x double>" if width else "double"
    lines = []
    for n in range(count):
        lines.append(f"  %p{n} = getelementptr i8, ptr %out, i64 {n * (width or 8) + offset}")
        if what == "load":
            lines.append(f"  %v{n} = load volatile {kind}, ptr %p{n}, align 8")
        else:
            lines.append(f"  store volatile {kind} %start, ptr %p{n}, align 8")
    loaded = f"entry:\n  %start = load {kind}, ptr %gp, align 8"
    return _looped(lines).replace("entry:", loaded, 1)


_BRANCHES = f"""
define void @run(i64 %n, ptr %bytes, ptr %fp, ptr %gp, ptr %out) {{
entry:
  %first = load i64, ptr %gp
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %joined ]
  %seen = add i64 %first, %i
  %at = and i64 %seen, {_RANDOM_BYTES - 1}
  %where = getelementptr i8, ptr %bytes, i64 %at
  %byte = load i8, ptr %where
  %low = icmp eq i8 %byte, 0
  br i1 %low, label %one, label %other
one:
  store volatile i64 %i, ptr %out, align 8
  br label %joined
other:
  %far = getelementptr i8, ptr %out, i64 64
  store volatile i64 %i, ptr %far, align 8
  br label %joined
joined:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  %last = add i64 %first, %n
  store i64 %last, ptr %gp
  ret void
}}"""


_BRANCHES_OF_FLOATS = (
    _BRANCHES.replace("getelementptr i8, ptr %bytes", "getelementptr float, ptr %bytes")
    .replace("load i8, ptr %where", "load float, ptr %where")
    .replace("icmp eq i8 %byte, 0", "fcmp olt float %byte, 5.000000e-01")
)


def _compiled(text: str) -> Callable[..., Any]:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text), target)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, *([ctypes.c_void_p] * 4))(engine.get_function_address("run"))
    function.engine = engine  # type: ignore[attr-defined]
    return function


def _item(text: str, operations: int, factor: float = 1.0000001, addend: float = 1e-9) -> _Item:
    """A loop whose pass holds so many operations.

    Factors are close to 1, so that nothing becomes infinite, nor so small that it is handled in another way.
    """
    first = text.partition("load ")[2].partition(",")[0]
    kind = (
        np.int64
        if "i64, ptr %startp" in text or "x i64" in first
        else np.float32
        if "float" in text
        else np.float64
    )
    values = [np.full(64, max(each, 1) if kind is np.int64 else each, kind) for each in (factor, addend)]
    start = np.full(64, 3, kind)
    return _Item(_compiled(text), operations, start.ctypes.data, (values[0], values[1]), (start,))


_NONE = np.zeros(64)
