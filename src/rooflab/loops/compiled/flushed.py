"""Arrays taken out of every cache, line by line, where the processor has an instruction for it."""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Iterator
from typing import Any

import numpy as np

_LINE_BYTES = 64  # of every x86-64 processor
_X86 = ("x86_64", "amd64")


def known() -> bool:
    """Whether this processor is known to let a program take a line out of its caches."""
    return platform.machine().lower() in _X86


def flush(values: tuple[Any, ...]) -> None:
    """Take the arrays in `values` out of all caches.

    On x86-64 `clflush` and `clflushopt` write a line back and out of every level (Intel SDM volume 2A): no other
    memory need be read.
    """
    for each in _arrays(values):
        if each.nbytes:
            _compiled()(*np.lib.array_utils.byte_bounds(each))


def _arrays(values: tuple[Any, ...]) -> Iterator[np.ndarray]:
    for each in values:
        if isinstance(each, np.ndarray):
            yield each
        elif isinstance(each, tuple):
            yield from _arrays(each)


@functools.cache
def _compiled() -> Any:
    """A function of the addresses of the first byte and of the one behind the last, in machine code."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    # unordered among each other, several times as fast
    out = "llvm.x86.clflushopt" if features.get("clflushopt", False) else "llvm.x86.sse2.clflush"
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features.flatten(), jit=True)
    module = binding.parse_assembly(_FLUSH.format(out=out, line=_LINE_BYTES))
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("flush"))
    _ENGINES.append(engine)
    return function


_ENGINES: list[Any] = []  # what owns the code
_FLUSH = """
declare void @{out}(ptr)
declare void @llvm.x86.sse2.mfence()
define void @flush(i64 %low, i64 %high) {{
  br label %lines
lines:
  %at = phi i64 [ %low, %0 ], [ %next, %lines ]
  %place = inttoptr i64 %at to ptr
  call void @{out}(ptr %place)
  %next = add i64 %at, {line}
  %more = icmp ult i64 %next, %high
  br i1 %more, label %lines, label %done
done:
  %end = add i64 %high, -1
  %last = inttoptr i64 %end to ptr
  call void @{out}(ptr %last)
  call void @llvm.x86.sse2.mfence()
  ret void
}}
"""
