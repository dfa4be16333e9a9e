"""A compiled function of C called from here: a few instructions that load its arguments from memory."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding

from rooflab.loops.c.lower import Lowered
from rooflab.loops.c.memory import word
from rooflab.loops.compiled import time as timing
from rooflab.loops.compiled.target import target_machine
from rooflab.timing import Timing, time_call

_RESULTS: dict[str, Any] = {
    "double": ctypes.c_double, "float": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32,
    "i16": ctypes.c_int16, "i8": ctypes.c_int8, "i1": ctypes.c_bool,
}  # fmt: skip
_LONG_S = 1e-3  # of a call: beyond it the way from Python to it does not matter
_REPEATED = """
define void @rl_repeat(ptr %slots, ptr %result, i64 %times) {
  br label %again
again:
  %n = phi i64 [ 0, %0 ], [ %next, %again ]
  call void @rl_call(ptr %slots, ptr %result)
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, %times
  br i1 %more, label %again, label %done
done:
  ret void
}
"""


class Signature(NamedTuple):
    """What a call of a function needs: the types of its parameters and of its result, as `Lowered` has them."""

    header: tuple[str, ...]
    wide: tuple[str, ...]
    result: str


def signature(lowered: Lowered) -> Signature:
    """That of a function."""
    return Signature(lowered.header, lowered.wide, lowered.result)


def loads(header: Sequence[str], wide: Sequence[str]) -> tuple[list[str], str]:
    """Lines that load arguments of the types `header` from %slots, and how a call names them."""
    lines, given = [], []
    for n, (kind, how) in enumerate(zip(header, wide, strict=True)):
        lines.append(f"  %at{n} = getelementptr i64, ptr %slots, i64 {n}")
        if kind == "i1":
            lines += [f"  %b{n} = load i8, ptr %at{n}", f"  %v{n} = trunc i8 %b{n} to i1"]
        else:
            lines.append(f"  %v{n} = load {kind}, ptr %at{n}")
        given.append(f"{kind} {how} %v{n}")
    return lines, ", ".join(given)


def called(callee: str, of: Signature) -> list[str]:
    """Lines that call `callee` with the arguments in %slots, and store what it returns in %result."""
    lines, given = loads(of.header, of.wide)
    if of.result == "void":
        return [*lines, f"  call void {callee}({given})"]
    lines.append(f"  %r = call {of.result} {callee}({given})")
    if of.result == "i1":
        return [*lines, "  %w = zext i1 %r to i8", "  store i8 %w, ptr %result"]
    return [*lines, f"  store {of.result} %r, ptr %result"]


def value_of(kind: str, words: np.ndarray) -> Any:
    """The value of a type of LLVM that lies in `words`; None of void, and of what is no number."""
    made = _RESULTS.get(kind)
    return None if made is None else made.from_address(words.ctypes.data).value


def named(name: str) -> str:
    """A function's name as IR writes it."""
    return f"@{name}" if re.fullmatch(r"[\w.$-]+", name) else f'@"{name}"'


class Callee:
    """A function of C as a function of Python: of arrays, whose addresses it is given, and numbers."""

    def __init__(self, address: int, of: Signature) -> None:
        """`address`: of the function."""
        lines = called(f"inttoptr (i64 {address} to ptr)", of)
        text = "\n".join(["define void @rl_call(ptr %slots, ptr %result) {", *lines, "  ret void", "}", _REPEATED])
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(text), target_machine())
        self._engine.finalize_object()
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        self._call: Callable[..., Any] = prototype(self._engine.get_function_address("rl_call"))
        many = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self._many: Callable[..., Any] = many(self._engine.get_function_address("rl_repeat"))
        self._of = of
        self._result = np.zeros(4, np.int64)
        self._key: tuple[int, ...] = ()
        self._held: Any = None
        self._at = 0, self._result.ctypes.data

    def __call__(self, *values: Any) -> Any:
        """What it returns."""
        self._hand_over(values)
        self._call(*self._at)
        return value_of(self._of.result, self._result)

    def repeat(self, times: int, values: Sequence[Any]) -> None:
        """Call it so many times, one after the other, with nothing of Python between."""
        self._hand_over(values)
        self._many(*self._at, times)

    def _hand_over(self, values: Sequence[Any]) -> None:
        key = tuple(map(id, values))
        if key != self._key:
            self._held = values, *slots(values, self._of.header)
            self._key, self._at = key, (self._held[1].ctypes.data, self._result.ctypes.data)


def warm(function: Callee, bound: timing.Copies, fresh: bool, part: float = 1.0) -> Timing:
    """Seconds of a call that finds in the caches what the last one left there, without the way from Python to it.

    Args:
        function: compiled.
        bound: its arguments.
        fresh: give each run the inputs anew.
        part: of the usual number of rounds.
    """
    copies = bound.copied()
    start = time.perf_counter()
    function(*copies)
    once = time.perf_counter() - start
    if fresh or once > _LONG_S:
        return timing.warm(function, bound, fresh, part)
    times = max(1, round(timing.WARM_RUN_S / once))
    rounds = timing.rounds_of(once * times, part)
    taken = time_call(
        lambda: function.repeat(times, copies), rounds=rounds, run_s=timing.WARM_RUN_S, more=2 * rounds
    )
    return replace(taken, best_s=taken.best_s / times, median_s=taken.median_s / times, calls=taken.calls * times)


def slots(values: Sequence[Any], header: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray]]:
    """What is handed over for `values`, 64 bits each; and tables of pointers that must live as long."""
    made, tables = np.zeros(max(1, len(values)), np.int64), []
    for n, (value, kind) in enumerate(zip(values, header, strict=True)):
        if isinstance(value, np.ndarray):
            made[n] = value.ctypes.data
        elif isinstance(value, tuple):
            tables.append(np.array([each.ctypes.data for each in value], np.int64))
            made[n] = tables[-1].ctypes.data
        else:
            made[n] = word(value, kind)
    return made, tables
