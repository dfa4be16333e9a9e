"""Text as compiled code reads it: numbers, blanks and line ends, 16 or 32 characters at a time.

A place is the address of a character. Vectors are read past both ends of what is looked at: text must have MARGIN
readable bytes before and after it, and end with a newline.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types

from rooflab.cachesim.native.compile import INLINED
from rooflab.cachesim.native.words import I64, intrinsic, load_byte
from rooflab.cachesim.sets.set_vectors import splat

MARGIN = 64
NEWLINE, SPACE, TAB, RETURN = 10, 32, 9, 13
_BYTE = ir.IntType(8)
_HEX_DIGITS = 16  # of one vector: those of a 64-bit number


@njit(**INLINED)
def is_blank(char):
    """Whether `char` is a space or a tab."""
    return char in (SPACE, TAB)


@njit(**INLINED)
def skip_blanks(at):
    """The place of the first character from `at` that is no blank."""
    while is_blank(load_byte(at)):
        at += 1
    return at


@njit(**INLINED)
def skip_back(at):
    """The place after the last character before `at` that is no blank."""
    while is_blank(load_byte(at - 1)):
        at -= 1
    return at


@njit(**INLINED)
def ends(at):
    """Whether the line ends at `at`: a newline, or a return before one."""
    char = load_byte(at)
    return char == NEWLINE or (char == RETURN and load_byte(at + 1) == NEWLINE)


@njit(**INLINED)
def line_end(at):
    """The place after the line that `at` lies in."""
    matched = equal_to(at, NEWLINE)
    while matched == 0:
        at += 32
        matched = equal_to(at, NEWLINE)
    return at + trailing_zeros(matched) + 1


@njit(**INLINED)
def first_in_line(at, char):
    """The place of the first `char` from `at`, or that of the newline if there is none before it."""
    matched = equal_to(at, char) | equal_to(at, NEWLINE)
    while matched == 0:
        at += 32
        matched = equal_to(at, char) | equal_to(at, NEWLINE)
    return at + trailing_zeros(matched)


@njit(**INLINED)
def hex_at(at):
    """The hexadecimal number at `at` (0x before it or not; of over 16 digits the last), and the place after it.

    The place is `at` where there is no number.
    """
    begin = at
    if load_byte(at) == 48 and load_byte(at + 1) | 32 == 120:
        begin += 2
    digits = hex_digits(begin)
    if digits == 0:
        return 0, at
    end = begin + digits
    while digits == _HEX_DIGITS:
        digits = hex_digits(end)
        end += digits
    return hex_before(end, min(end - begin, _HEX_DIGITS)), end


@njit(**INLINED)
def decimal_at(at):
    """The decimal number at `at`, and the place after it."""
    value, char = 0, load_byte(at) - 48
    while 0 <= char <= 9:
        value = value * 10 + char
        at += 1
        char = load_byte(at) - 48
    return value, at


@njit(**INLINED)
def decimal_before(at):
    """The decimal number that ends before `at`, and its place."""
    value, weight, char = 0, 1, load_byte(at - 1) - 48
    while 0 <= char <= 9:
        value += char * weight
        weight *= 10
        at -= 1
        char = load_byte(at - 1) - 48
    return value, at


@intrinsic
def trailing_zeros(typing_context, bits):
    """How many zeros `bits`, not all zero, end with."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def eight_before(typing_context, at):
    """The 8 characters before `at`, the last in the highest byte."""

    def generate(context, builder, signature, args):
        value = builder.load(_pointer(builder, args[0], -8, I64), typ=I64)
        value.align = 1
        return value

    return types.int64(types.int64), generate


@intrinsic
def equal_to(typing_context, at, char):
    """A bit for each of the 32 characters from `at` that is `char`."""

    def generate(context, builder, signature, args):
        vector = ir.VectorType(_BYTE, 32)
        wanted = splat(builder, builder.trunc(args[1], _BYTE), vector)
        return _bits(builder, builder.icmp_unsigned("==", _load(builder, args[0], 0, 32), wanted), 32)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def hex_digits(typing_context, at):
    """How many of the 16 characters from `at` are hexadecimal digits, before one that is none."""

    def generate(context, builder, signature, args):
        decimal, letter = _digits(builder, _load(builder, args[0], 0, _HEX_DIGITS))
        none = builder.not_(builder.or_(_under(builder, decimal, 10), _from_10_under_16(builder, letter)))
        # A bit after the last: there is always one to find.
        stop_bits = builder.or_(_bits(builder, none, _HEX_DIGITS), ir.Constant(I64, 1 << _HEX_DIGITS))
        return builder.cttz(stop_bits, ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def hex_before(typing_context, at, count):
    """The number that the `count` hexadecimal digits before `at` mean, 1 to 16 of them."""

    def generate(context, builder, signature, args):
        decimal, letter = _digits(builder, _load(builder, args[0], -_HEX_DIGITS, _HEX_DIGITS))
        each = builder.select(_under(builder, decimal, 10), decimal, letter)
        vector = each.type
        lanes = ir.Constant(vector, list(range(_HEX_DIGITS, 0, -1)))
        counted = splat(builder, builder.trunc(args[1], _BYTE), vector)
        each = builder.select(builder.icmp_unsigned("<=", lanes, counted), each, ir.Constant(vector, None))
        high, low = (_every_other(builder, each, first) for first in (0, 1))
        pairs = builder.or_(builder.shl(high, ir.Constant(high.type, [4] * 8)), low)
        return builder.bswap(builder.bitcast(pairs, I64))

    return types.int64(types.int64, types.int64), generate


def _pointer(builder: Any, at: Any, offset: int, kind: Any) -> Any:
    return builder.inttoptr(builder.add(at, ir.Constant(I64, offset)), ir.PointerType(kind))


def _load(builder: Any, at: Any, offset: int, count: int) -> Any:
    kind = ir.VectorType(_BYTE, count)
    value = builder.load(_pointer(builder, at, offset, kind), typ=kind)
    value.align = 1
    return value


def _digits(builder: Any, text: Any) -> tuple[Any, Any]:
    """What each character means if it is a decimal digit, and if it is a letter from a to f, of either case."""
    vector = text.type

    def every(number: int) -> Any:
        return ir.Constant(vector, [number] * vector.count)

    return builder.sub(text, every(48)), builder.sub(builder.or_(text, every(32)), every(87))


def _under(builder: Any, value: Any, bound: int) -> Any:
    return builder.icmp_unsigned("<", value, ir.Constant(value.type, [bound] * value.type.count))


def _from_10_under_16(builder: Any, value: Any) -> Any:
    return _under(builder, builder.sub(value, ir.Constant(value.type, [10] * value.type.count)), 6)


def _bits(builder: Any, mask: Any, count: int) -> Any:
    return builder.zext(builder.bitcast(mask, ir.IntType(count)), I64)


def _every_other(builder: Any, value: Any, first: int) -> Any:
    order = ir.Constant(ir.VectorType(ir.IntType(32), 8), list(range(first, _HEX_DIGITS, 2)))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)
