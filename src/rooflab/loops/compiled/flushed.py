"""Arrays taken out of every cache, line by line, where the processor has an instruction for it."""

from __future__ import annotations

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
        _compiled()(*np.lib.array_utils.byte_bounds(each))


def _arrays(values: tuple[Any, ...]) -> Iterator[np.ndarray]:
    for each in values:
        if isinstance(each, np.ndarray):
            yield each
        elif isinstance(each, tuple):
            yield from _arrays(each)


@functools.cache
def _compiled() -> Any:
    from llvmlite import binding, ir
    from numba import njit, types
    from numba.extending import intrinsic

    declared: Any = intrinsic
    # unordered among each other, several times as fast
    quick = binding.get_host_cpu_features().get("clflushopt", False)
    name = "llvm.x86.clflushopt" if quick else "llvm.x86.sse2.clflush"
    byte = ir.PointerType(ir.IntType(8))

    @declared
    def line_out(typing_context, address):
        def generate(context, builder, signature, args):
            kind = ir.FunctionType(ir.VoidType(), [byte])
            out = builder.module.declare_intrinsic(name, (), kind)
            builder.call(out, [builder.inttoptr(args[0], byte)])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    @declared
    def fence(typing_context):
        def generate(context, builder, signature, args):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.mfence", (), kind), [])
            return context.get_dummy_value()

        return types.void(), generate

    def flush(low, high):
        for address in range(low, high, _LINE_BYTES):
            line_out(address)
        line_out(high - 1)
        fence()

    function: Any = njit("void(int64, int64)", nogil=True)(flush)
    return function
