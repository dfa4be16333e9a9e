"""What single operations of this core take: chains for latencies, others for throughput, branches missed.

Each is a loop in LLVM IR, compiled in process without passes that would fold it. Times are the best of several;
a pass holds so many operations that its own counter hides behind them. Kept on disk by processor: they take two
seconds.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from llvmlite import binding

from rooflab.machines.core_timing import CoreTiming

_VERSION = 1
_CHAIN, _APART = 16, 10  # operations of a chain a pass; chains side by side where throughput is asked for
_ROUNDS, _LEAST_S = 5, 5e-4
_MATHS = ("exp", "log", "sin", "cos", "pow", "tan", "tanh", "exp2", "log2", "log10", "atan", "sinh", "cosh")
_LIBRARY = ("hypot", "atan2", "expm1", "log1p", "erf")  # without an instruction of the IR: called by name
_ARGUMENT, _OTHER_ARGUMENT = 0.7, 1.3
_RANDOM_BYTES = 1 << 14


def measure() -> CoreTiming:
    """The times of this core's operations, in cycles of its integer addition; from disk where they are there."""
    path = _path()
    if path.exists():
        try:
            return msgspec.json.decode(path.read_bytes(), type=CoreTiming)
        except msgspec.DecodeError:
            # cut off, or of another version: measured anew
            path.unlink(missing_ok=True)
    found = _measured()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(found))
    return found


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


def _measured() -> CoreTiming:
    lanes = {"double": vector_bytes() // 8, "float": vector_bytes() // 4}
    body = {
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
    cycle_s = _seconds(_integer_chain(), _CHAIN)
    latency = {
        name: _seconds(_function(each, _type(each), _CHAIN, 1), _CHAIN) / cycle_s for name, each in body.items()
    }
    each_one = {}
    for name, each in body.items():
        wide = "divide" in name or "sqrt" in name or name.startswith("integer")
        text, kind = (each, _type(each)) if wide else _vector(each, lanes)
        each_one[name] = _seconds(_function(text, kind, 4, _APART), 4 * _APART) / cycle_s
        if wide and not name.startswith("integer"):
            text, kind = _vector(each, lanes)
            each_one[f"{name} vector"] = _seconds(_function(text, kind, 2, 6), 12) / cycle_s
    for name in (*_MATHS, *_LIBRARY):
        for kind, format in (("double", "fp64"), ("float", "fp32")):
            suffix = "f64" if kind == "double" else "f32"
            more = f", {kind} %g" if name in ("pow", "hypot", "atan2") else ""
            symbol = f"llvm.{name}.{suffix}" if name in _MATHS else name if kind == "double" else f"{name}f"
            # what it is called with is loaded anew: no call waits for another, and none is hoisted or left out
            text = f"load volatile {kind}, ptr %fp|call {kind} @{symbol}({kind} {{y}}{more})"
            each_one[f"call {name} {format}"] = (
                _seconds(_function(text, kind, 1, 4), 4, _ARGUMENT, _OTHER_ARGUMENT) / cycle_s
            )
    latency["integer"] = 1.0
    latency["integer multiply"] -= 1.0
    latency["load"] = _seconds(_load_chain(), _CHAIN) / cycle_s
    latency["store forward"] = _seconds(_store_chain(), _CHAIN) / cycle_s - latency["fp add"]
    latency["convert"] = _seconds(_function(_ROUND_TRIP, "double", 4, 1), 4) / cycle_s / 2
    each_one["integer"] = _seconds(_function("add i64 {x}, %f|xor i64 {y}, %g", "i64", 4, 6), 48) / cycle_s
    for wide in ("", " vector"):
        each_one[f"load{wide}"] = _seconds(_accesses("load", bool(wide)), 16) / cycle_s
        each_one[f"store{wide}"] = _seconds(_accesses("store", bool(wide)), 16) / cycle_s
    missed = _missed_branch_s() / cycle_s
    return CoreTiming(cycle_s=cycle_s, latency=latency, throughput=each_one, missed_branch=missed)


@functools.cache
def vector_bytes() -> int:
    """Bytes of the widest vectors that LLVM makes code for here."""
    features = binding.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


_ROUND_TRIP = "fptosi double {x} to i64|sitofp i64 {y} to double"


def _type(body: str) -> str:
    return next(each for each in ("double", "float", "i64") if each in body)


def _vector(body: str, lanes: dict[str, int]) -> tuple[str, str]:
    """The same on vectors as wide as they come, and their type."""
    kind = _type(body)
    wide = f"<{lanes[kind]} x {kind}>"
    return body.replace(kind, wide).replace(".f64", f".v{lanes[kind]}f64").replace(
        ".f32", f".v{lanes[kind]}f32"
    ), wide


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
                lines.append(f"  %c{chain}.{step} = {second.format(y=f'%t{chain}.{step}')}")
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


def _load_chain() -> str:
    steps = "\n".join(f"  %p{n + 1} = load ptr, ptr %p{n}, align 8" for n in range(_CHAIN))
    return f"""
define void @run(i64 %n, ptr %startp, ptr %fp, ptr %gp, ptr %out) {{
entry:
  store ptr %out, ptr %out
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p0 = phi ptr [ %out, %entry ], [ %p{_CHAIN}, %loop ]
{steps}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  store ptr %p{_CHAIN}, ptr %out
  ret void
}}"""


def _store_chain() -> str:
    """A number added to in memory: load, add, store, and the load of the next waits for the store."""
    steps = "\n".join(
        f"  %x{n} = load volatile double, ptr %out, align 8\n  %y{n} = fadd double %x{n}, %f\n"
        f"  store volatile double %y{n}, ptr %out, align 8"
        for n in range(_CHAIN)
    )
    return f"""
define void @run(i64 %n, ptr %startp, ptr %fp, ptr %gp, ptr %out) {{
entry:
  %f = load double, ptr %fp
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{steps}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def _accesses(what: str, wide: bool) -> str:
    """Sixteen loads or stores a pass, of whole vectors where `wide`, within L1."""
    kind = f"<{vector_bytes() // 8} x double>" if wide else "double"
    lines = []
    for n in range(16):
        lines.append(f"  %p{n} = getelementptr i8, ptr %out, i64 {n * 64}")
        if what == "load":
            lines.append(f"  %v{n} = load volatile {kind}, ptr %p{n}, align 8")
        else:
            lines.append(f"  store volatile {kind} %start, ptr %p{n}, align 8")
    return f"""
define void @run(i64 %n, ptr %startp, ptr %fp, ptr %gp, ptr %out) {{
entry:
  %start = load {kind}, ptr %startp, align 8
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


_BRANCHES = f"""
define void @run(i64 %n, ptr %bytes, ptr %fp, ptr %gp, ptr %out) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %joined ]
  %at = and i64 %i, {_RANDOM_BYTES - 1}
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
  ret void
}}"""


def _missed_branch_s() -> float:
    """What a branch that goes at random takes beyond one that always goes the same way: half are missed."""
    random = np.random.default_rng(0).integers(0, 2, _RANDOM_BYTES).astype(np.uint8)
    same = np.ones(_RANDOM_BYTES, np.uint8)
    run = _compiled(_BRANCHES)
    slow, quick = (_best(run, each.ctypes.data, 1 << 17) for each in (random, same))
    return max(0.0, 2 * (slow - quick))


def _compiled(text: str) -> Callable[..., Any]:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text), target)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, *([ctypes.c_void_p] * 4))(engine.get_function_address("run"))
    function.engine = engine  # type: ignore[attr-defined]
    return function


def _seconds(text: str, operations: int, factor: float = 1.0000001, addend: float = 1e-9) -> float:
    """Seconds of one of the `operations` that a pass runs.

    Factors are close to 1, so that nothing becomes infinite, nor so small that it is handled in another way.
    """
    kind = np.int64 if "load i64, ptr %startp" in text else np.float32 if "float" in text else np.float64
    values = [np.full(64, max(each, 1) if kind is np.int64 else each, kind) for each in (factor, addend)]
    start = np.full(64, 3, kind)
    return _best(_compiled(text), start.ctypes.data, 1 << 10, *values) / operations


_NONE = np.zeros(1)


def _best(
    run: Callable[..., Any], start: int, passes: int, factor: np.ndarray = _NONE, addend: np.ndarray = _NONE
) -> float:
    """The least seconds of a pass."""
    out = np.zeros(256, np.float64)
    best = float("inf")
    rounds = 0
    while rounds < _ROUNDS:
        begun = time.perf_counter()
        run(passes, start, factor.ctypes.data, addend.ctypes.data, out.ctypes.data)
        took = time.perf_counter() - begun
        if took < _LEAST_S:
            passes *= 4
            continue
        best = min(best, took / passes)
        rounds += 1
    return best
