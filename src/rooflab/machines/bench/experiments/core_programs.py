"""Loops in LLVM IR that time a core's operations, compiled, with what they are called on."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding

CHAIN, APART = 16, 10  # operations of a chain a pass; chains side by side where throughput is asked for
_ARGUMENT, _OTHER_ARGUMENT = 0.7, 1.3
_RANGE, ARGUMENTS = (0.05, 3.0), 1 << 14  # of what functions are called with
SLOTS, PAGE_BYTES = 48, 4096
# What a core renames and never executes, so that its front alone is timed: of nops some fuse two to one.
_RENAMED = {"x86_64": ("xorl %eax, %eax", "xorl %ecx, %ecx", "xorl %edx, %edx", "xorl %esi, %esi")}
_CLOBBERED = "~{rax},~{rcx},~{rdx},~{rsi}"
BODY = {
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
LEAST_OPERATIONS = 7  # of each of its choices: three loads, a sum, a comparison, a choice, a store


class Item(NamedTuple):
    """A compiled loop to be timed: `operations` in a pass, `least` passes to go through all that it is given."""

    run: Callable[..., Any]
    operations: int
    start: int
    values: tuple[np.ndarray, np.ndarray]
    kept: tuple[Any, ...]
    least: int = 1


@functools.cache
def vector_bytes() -> int:
    """Bytes of the widest vectors that LLVM makes code for here."""
    features = binding.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


def kind_of(body: str) -> str:
    """The type of the numbers that `body` computes with."""
    return next(each for each in ("double", "float", "i64") if each in body)


def widened(body: str, width: int) -> tuple[str, str]:
    """The same on vectors of `width` bytes, and their type; on single numbers where that is 0."""
    kind = kind_of(body)
    if not width:
        return body, kind
    lanes = width // (8 if kind == "double" else 4)
    wide = f"<{lanes} x {kind}>"
    return body.replace(kind, wide).replace(".f64", f".v{lanes}f64").replace(".f32", f".v{lanes}f32"), wide


def shuffle(lanes: int) -> str:
    """One that crosses the halves of a vector, and an addition, without which two would become one."""
    order = ", ".join(f"i32 {(n + 1) % lanes}" for n in range(lanes))
    kind = f"<{lanes} x double>"
    return f"shufflevector {kind} {{x}}, {kind} %f, <{lanes} x i32> <{order}>|fadd {kind} {{y}}, %g"


def renamed_only() -> str:
    """Instructions that do nothing but pass through the front of the core."""
    return looped(renamed(SLOTS))


def renamed(count: int) -> list[str]:
    """So many of them."""
    architecture = binding.get_default_triple().partition("-")[0]
    texts = _RENAMED.get(architecture, ("nop",))
    clobbered = _CLOBBERED if architecture in _RENAMED else ""
    return [f'  call void asm sideeffect "{texts[n % len(texts)]}", "{clobbered}"()' for n in range(count)]


def looped(lines: list[str]) -> str:
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


def chains(body: str, kind: str, length: int, apart: int) -> str:
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


def integer_chain() -> str:
    """Additions and exclusive ors in turn: what is not folded."""
    return chains("add i64 {x}, %f|xor i64 {y}, %g", "i64", CHAIN // 2, 1)


def roots(text: str, kind: str) -> Item:
    """Square roots of a number that is loaded anew for each."""
    lines = []
    for n in range(APART):
        lines += [
            f"  %x{n} = load volatile {kind}, ptr %fp, align 8",
            f"  %y{n} = {text.format(x=f'%x{n}')}",
            f"  store volatile {kind} %y{n}, ptr %out, align 8",
        ]
    held = np.full(64, _ARGUMENT, np.float32 if "float" in kind else np.float64)
    declared = "\n".join(_declarations(text))
    return Item(compiled(declared + looped(lines)), APART, held.ctypes.data, (held, held), (held,))


def calls(
    kind: str,
    symbol: str,
    given: tuple[np.ndarray, ...] = (),
    *,
    two: bool = False,
    chained: bool = False,
) -> Item:
    """Calls of a function on numbers in their order: at random, so that its own branches are foretold as seldom.

    Args:
        kind: of its numbers.
        symbol: the function.
        given: numbers of each argument, as many as a power of two; usual ones by default.
        two: whether it takes two numbers.
        chained: each waits for the one before, whose result times 0 is added to its argument.
    """
    size, second = 8 if kind == "double" else 4, ""
    count = len(given[0]) if given else ARGUMENTS
    lines = [f"  %first = mul i64 %i, {4 * size}", f"  %at = and i64 %first, {count * size - 1}"]
    for n in range(4):
        lines += [
            f"  %o{n} = add i64 %at, {n * size}",
            f"  %p{n} = getelementptr i8, ptr %startp, i64 %o{n}",
            f"  %x{n} = load {kind}, ptr %p{n}, align {size}",
        ]
        if two:
            second = f", {kind} %z{n}"
            lines += [
                f"  %q{n} = getelementptr i8, ptr %gp, i64 %o{n}",
                f"  %z{n} = load {kind}, ptr %q{n}, align {size}",
            ]
        if chained:
            before = f"%y{n - 1}" if n else "%last"
            lines += [
                f"  %m{n} = fmul {kind} {before}, %f",
                f"  %s{n} = fadd {kind} %x{n}, %m{n}",
                f"  %y{n} = call {kind} @{symbol}({kind} %s{n}{second})",
            ]
        else:
            lines += [
                f"  %y{n} = call {kind} @{symbol}({kind} %x{n}{second})",
                f"  store volatile {kind} %y{n}, ptr %out, align {size}",
            ]
    declared = "\n".join(_declarations(f"call {kind} @{symbol}({kind} %x{second})"))
    loads = f"entry:\n  %f = load {kind}, ptr %fp"
    text = declared + looped(lines).replace("entry:", loads, 1)
    if chained:
        text = text.replace("  %first =", f"  %last = phi {kind} [ %f, %entry ], [ %y3, %loop ]\n  %first =", 1)
        text = text.replace("  ret void", f"  store {kind} %y3, ptr %out\n  ret void")
    format = np.float64 if size == 8 else np.float32
    if not given:
        given = np.random.default_rng(0).uniform(*_RANGE, ARGUMENTS), np.full(ARGUMENTS, _OTHER_ARGUMENT)
    held = [np.ascontiguousarray(each, format) for each in given]
    nothing = np.zeros(64, format)
    least = count // 4 if given else 1
    return Item(compiled(text), 4, held[0].ctypes.data, (nothing, held[-1]), tuple(held), least)


def least_of_sums() -> str:
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
    return looped(lines)


def compiled(text: str) -> Callable[..., Any]:
    """`run` of the module in `text`: takes a number of passes and four addresses."""
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


def item(text: str, operations: int, factor: float = 1.0000001, addend: float = 1e-9) -> Item:
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
    return Item(compiled(text), operations, start.ctypes.data, (values[0], values[1]), (start,))


NONE = np.zeros(64)
