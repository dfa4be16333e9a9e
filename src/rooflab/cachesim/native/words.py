"""What compiled functions read and write: words at an address, and calls of a function at an address.

NumPy arrays that are taken out of tuples cost two atomic reference counts per access, ten times the work
itself; integers cost nothing. The caller keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

import numba.extending
from llvmlite import ir
from numba import types

from rooflab.cachesim.native.layout import RAISED, RETURNED

I32, I64 = ir.IntType(32), ir.IntType(64)
WORD = 8  # bytes
# numba calls what it decorates with fewer arguments than are written: no type checker can follow.
intrinsic: Any = numba.extending.intrinsic
CALL_SIGNATURE = types.int64(types.int64, types.int64, types.int64, types.int64, types.int64)


def pointer(builder: Any, base: Any, index: Any, pointee: Any = I64) -> Any:
    """The address of 64-bit word `index` after `base`, as a pointer to `pointee`."""
    address = builder.add(base, builder.shl(index, ir.Constant(I64, 3)))
    return builder.inttoptr(address, ir.PointerType(pointee))


def load_vector(builder: Any, where: Any, kind: Any) -> Any:
    """A vector of `kind` read at `where`, aligned to a word."""
    value = builder.load(where, typ=kind)
    value.align = WORD
    return value


@intrinsic
def load(typing_context, base, index):
    """The word `index` after `base`."""

    def generate(context, builder, signature, args):
        return builder.load(pointer(builder, args[0], args[1]), typ=I64)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def store(typing_context, base, index, value):
    """Write `value` to the word `index` after `base`."""

    def generate(context, builder, signature, args):
        builder.store(args[2], pointer(builder, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def add(typing_context, base, index, amount):
    """Add `amount` to the word `index` after `base`."""

    def generate(context, builder, signature, args):
        where = pointer(builder, args[0], args[1])
        builder.store(builder.add(builder.load(where, typ=I64), args[2]), where)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context, address):
    """Have the machine that runs this bring the line at `address` near, to be written."""

    def generate(context, builder, signature, args):
        byte = ir.PointerType(ir.IntType(8))
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
        )
        write, keep, data = (ir.Constant(I32, number) for number in (1, 3, 1))
        builder.call(hint, [builder.inttoptr(args[0], byte), write, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def load_byte(typing_context, address):
    """The byte at `address`, 0 to 255."""

    def generate(context, builder, signature, args):
        where = builder.inttoptr(args[0], ir.PointerType(ir.IntType(8)))
        return builder.zext(builder.load(where, typ=ir.IntType(8)), I64)

    return types.int64(types.int64), generate


@intrinsic
def shift_right(typing_context, value, bits):
    """`value` shifted right, zeros coming in from the left: addresses have no sign."""

    def generate(context, builder, signature, args):
        return builder.lshr(args[0], args[1])

    return types.int64(types.int64, types.int64), generate


@intrinsic
def halves_swapped(typing_context, value):
    """`value` with its upper and lower 32 bits exchanged."""

    def generate(context, builder, signature, args):
        bits = ir.Constant(I64, 32)
        return builder.or_(builder.shl(args[0], bits), builder.lshr(args[0], bits))

    return types.int64(types.int64), generate


@intrinsic
def count_bits(typing_context, value):
    """How many bits of `value` are one."""

    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.int64), generate


@intrinsic
def call(typing_context, function, level, b, c, d, e):
    """What the compiled function at address `function` returns for the descriptor `level` and four integers."""

    def generate(context, builder, signature, args):
        # numba's own convention: where the result and an exception go, then the arguments; a status comes back.
        # These functions raise nothing. Both go to words of the descriptor: room on the stack would be cleared
        # anew wherever this is inlined, on every access, called or not.
        byte = ir.PointerType(ir.IntType(8))
        kind = ir.FunctionType(I32, [ir.PointerType(I64), ir.PointerType(byte), *([I64] * 5)])
        result = pointer(builder, args[1], ir.Constant(I64, RETURNED))
        error = pointer(builder, args[1], ir.Constant(I64, RAISED), byte)
        builder.call(builder.inttoptr(args[0], ir.PointerType(kind)), [result, error, *args[1:]])
        return builder.load(result, typ=I64)

    return types.int64(*([types.int64] * 6)), generate
