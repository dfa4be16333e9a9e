"""Messages of protocol buffers, read field by field without a schema: numbers, and stretches of bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_VARINT_BYTES = 10
_MORE = 0x80  # set in each byte of a number but its last


class BrokenMessage(Exception):
    """What stands here is no field; what was read before it holds."""


# A number; or where the bytes of a text, a list or a message begin and end.
Value = int | float | tuple[int, int]


def fields(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, Value]]:
    """The number and value of each field of the message from `begin` to `end`.

    Numbers are unsigned as they stand (see `signed`); eight and four bytes are floating-point numbers.

    Raises:
        BrokenMessage: a field that reaches beyond the end, or of a type that does not exist.
    """
    end = len(data) if end is None else end
    at = begin
    while at < end:
        # Most numbers have one byte: read here, without a call.
        key, at = (data[at], at + 1) if data[at] < _MORE else varint(data, at, end)
        number, wire = key >> 3, key & 7
        if not number or at >= end:
            raise BrokenMessage
        if wire == _VARINT:
            value, at = (data[at], at + 1) if data[at] < _MORE else varint(data, at, end)
            yield number, value
        elif wire == _BYTES:
            length, at = (data[at], at + 1) if data[at] < _MORE else varint(data, at, end)
            if at + length > end:
                raise BrokenMessage
            yield number, (at, at + length)
            at += length
        elif wire in (_EIGHT, _FOUR):
            size = 8 if wire == _EIGHT else 4
            if at + size > end:
                raise BrokenMessage
            yield number, struct.unpack_from("<d" if wire == _EIGHT else "<f", data, at)[0]
            at += size
        else:
            raise BrokenMessage


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at `at`, and where it ends.

    Raises:
        BrokenMessage: it does not end.
    """
    value = shift = 0
    for place in range(at, min(end, at + _VARINT_BYTES)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, place + 1
        shift += 7
    raise BrokenMessage


def signed(value: int) -> int:
    """A number that was written as a whole number with a sign, in 64 bits."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def text(data: bytes, where: Value) -> str:
    """The text that stands at `where`; "" where there is a number instead."""
    return data[where[0] : where[1]].decode("utf-8", "replace") if isinstance(where, tuple) else ""


def packed(data: bytes, value: Value) -> Iterator[int]:
    """The whole numbers of a repeated field: one, or several that are packed.

    Raises:
        BrokenMessage: one of them does not end.
    """
    if not isinstance(value, tuple):
        if isinstance(value, int):
            yield value
        return
    at, end = value
    while at < end:
        number, at = varint(data, at, end)
        yield number
