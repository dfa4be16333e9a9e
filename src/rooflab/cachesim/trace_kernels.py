"""Parsers of address traces, compiled: from bytes to accesses without a Python object a line.

Each takes a block of whole lines (or records), the settings and the running totals.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from rooflab.cachesim.compiled import INLINED, OPTIONS, kernel
from rooflab.cachesim.core import access, open_state
from rooflab.cachesim.layout import LOAD, STORE

# Totals: accesses made, bytes they name, records that are no data access, then dropped ones by reason.
ACCESSES, BYTES, SKIPPED, DROPPED = range(4)
NOT_A_LINE, NO_ADDRESS, BAD_SIZE, UNFINISHED = range(DROPPED, DROPPED + 4)
TOTALS = DROPPED + 4
_READ, _WRITE, _FETCH, _MODIFY, _OTHER, _BAD = range(6)
LARGEST = 4096  # bytes of one access
# Address bits that are kept: the simulator counts lines in 62 bits, no machine has that many.
_KEPT = (1 << 61) - 1
_NEWLINE, _SPACE, _TAB, _COMMA, _RETURN = 10, 32, 9, 44, 13


@njit(**INLINED)
def digit_of(char):
    """The value of a hexadecimal digit, or −1."""
    if 48 <= char <= 57:
        return char - 48
    low = char | 32
    if 97 <= low <= 102:
        return low - 87
    return -1


@njit(**INLINED)
def skip_blanks(text, at):
    """The place of the first character from `at` that is no blank."""
    while text[at] == _SPACE or text[at] == _TAB:
        at += 1
    return at


@njit(**INLINED)
def hex_at(text, at):
    """The hexadecimal number at `at` (0x before it or not), and the place after it; that is `at` for none."""
    if text[at] == 48 and text[at + 1] | 32 == 120:
        at += 2
    value, digit = 0, digit_of(text[at])
    while digit >= 0:
        value = value << 4 | digit
        at += 1
        digit = digit_of(text[at])
    return value & _KEPT, at


@njit(**INLINED)
def decimal_at(text, at):
    """The decimal number at `at`, and the place after it."""
    value = 0
    while 48 <= text[at] <= 57:
        value = value * 10 + (text[at] - 48)
        at += 1
    return value, at


@njit(**INLINED)
def rest_is_blank(text, at):
    """Whether nothing but blanks follow on the line."""
    at = skip_blanks(text, at)
    return text[at] == _NEWLINE or text[at] == _RETURN


@njit(**OPTIONS)
def record(view, kind, address, nbytes, instructions, totals):
    """Make the access of one record, and count it."""
    if kind == _BAD:
        totals[NOT_A_LINE] += 1
    elif kind == _OTHER or (kind == _FETCH and instructions == 0):
        totals[SKIPPED] += 1
    elif nbytes <= 0 or nbytes > LARGEST:
        totals[BAD_SIZE] += 1
    else:
        totals[ACCESSES] += 1
        totals[BYTES] += nbytes
        if kind == _WRITE:
            access(view, address, nbytes, STORE, 1)
        else:
            access(view, address, nbytes, LOAD, 2 if kind == _FETCH else 0)
        if kind == _MODIFY:
            totals[ACCESSES] += 1
            totals[BYTES] += nbytes
            access(view, address, nbytes, STORE, 1)


@njit(**INLINED)
def line_end(text, at):
    """The place after the line that `at` lies in."""
    while text[at] != _NEWLINE:
        at += 1
    return at + 1


def _din(text, item_bytes, instructions, state, totals):
    # <label> <address>: 0 read, 1 write, 2 instruction, 3 and 4 others; what follows is a comment
    view, at = open_state(state), 0
    while at < text.size:
        at = skip_blanks(text, at)
        if text[at] == _NEWLINE or text[at] == _RETURN:
            at = line_end(text, at)
            continue
        label, after = text[at] - 48, at + 1
        begin = skip_blanks(text, after)
        address, end = hex_at(text, begin)
        if label < 0 or label > 4 or begin == after:
            record(view, _BAD, 0, 0, 0, totals)
        elif end == begin or not (text[end] == _SPACE or text[end] == _TAB or rest_is_blank(text, end)):
            totals[NO_ADDRESS] += 1
        else:
            kind = _OTHER if label > 2 else label
            record(view, kind, address, item_bytes, instructions, totals)
        at = line_end(text, min(end, text.size - 1))


def _xdin(text, item_bytes, instructions, state, totals):
    # <r|w|i|m|c|v> <address> <size>, both hexadecimal: m is other, c and v copy back and invalidate
    view, at = open_state(state), 0
    while at < text.size:
        at = skip_blanks(text, at)
        if text[at] == _NEWLINE or text[at] == _RETURN:
            at = line_end(text, at)
            continue
        label, after = text[at] | 32, at + 1
        begin = skip_blanks(text, after)
        address, end = hex_at(text, begin)
        size_at = skip_blanks(text, end)
        size, last = hex_at(text, size_at)
        kind = _BAD
        if label == 114:
            kind = _READ
        elif label == 119:
            kind = _WRITE
        elif label == 105:
            kind = _FETCH
        elif label in (109, 99, 118):
            kind = _OTHER
        if begin == after or last == size_at or not rest_is_blank(text, last):
            kind = _BAD
        if kind != _BAD and end == begin:
            totals[NO_ADDRESS] += 1
        else:
            record(view, kind, address, size, instructions, totals)
        at = line_end(text, min(max(end, last), text.size - 1))


def _lackey(text, item_bytes, instructions, state, totals):
    # "I  04001000,3", " L 1fff000758,8", " S …", " M …" (a load, then a store); "==pid==" is valgrind talking
    view, at = open_state(state), 0
    while at < text.size:
        at = skip_blanks(text, at)
        first = text[at]
        if first in (_NEWLINE, _RETURN):
            at = line_end(text, at)
            continue
        kind = _BAD
        if first == 73:
            kind = _FETCH
        elif first == 76:
            kind = _READ
        elif first == 83:
            kind = _WRITE
        elif first == 77:
            kind = _MODIFY
        elif first == 61:
            totals[SKIPPED] += 1
            at = line_end(text, at)
            continue
        begin = skip_blanks(text, at + 1)
        address, end = hex_at(text, begin)
        size = 0
        if text[end] == _COMMA and kind != _BAD and begin > at + 1:
            size, end = decimal_at(text, end + 1)
            if not rest_is_blank(text, end):
                kind = _BAD
            record(view, kind, address, size, instructions, totals)
        elif kind != _BAD and end == begin:
            totals[NO_ADDRESS] += 1
        else:
            record(view, _BAD, 0, 0, 0, totals)
        at = line_end(text, min(end, text.size - 1))


def _drmemtrace(text, item_bytes, instructions, state, totals):
    # "  25  16:  1234 write  8 byte(s) @ 0x00007ffd… by PC 0x…": words before "byte(s)" say what and how much
    view, at = open_state(state), 0
    while at < text.size:
        word, size, kind, found = 0, 0, _OTHER, False
        end = at
        while text[end] != _NEWLINE:
            char = text[end]
            if char == 64 and end > at:  # @
                found = True
                break
            if 97 <= char <= 122 and not (97 <= text[end - 1] <= 122 and end > at):
                # the first letter of a word: read, write, ifetch, byte(s)
                if char == 114 and text[end + 1] == 101:
                    kind = _READ
                elif char == 119 and text[end + 1] == 114:
                    kind = _WRITE
                elif char == 105 and text[end + 1] == 102:
                    kind = _FETCH
                elif char == 98 and text[end + 1] == 121:
                    size = word
            if 48 <= char <= 57:
                word, end = decimal_at(text, end)
            else:
                end += 1
        if found:
            begin = skip_blanks(text, end + 1)
            address, end = hex_at(text, begin)
            if end == begin:
                totals[NO_ADDRESS] += 1
            else:
                record(view, kind, address, size, instructions, totals)
        elif end > at:
            # thread markers, headings, the tool's own summary
            totals[SKIPPED] += 1
        at = line_end(text, min(end, text.size - 1))


def _champsim(records, item_bytes, instructions, state, totals):
    # input_instr of ChampSim: ip, then 8 bytes of flags and registers, 2 destinations, 4 sources; 0 is none
    view = open_state(state)
    for at in range(0, records.size, 8):
        pc = records[at]
        record(view, _FETCH, pc & _KEPT, 4, instructions, totals)
        for slot in range(4):
            address = records[at + 4 + slot]
            if address != 0:
                record(view, _READ, address & _KEPT, item_bytes, instructions, totals)
        for slot in range(2):
            address = records[at + 2 + slot]
            if address != 0:
                record(view, _WRITE, address & _KEPT, item_bytes, instructions, totals)


PARSERS: dict[str, Any] = {
    "din": kernel(_din),
    "xdin": kernel(_xdin),
    "lackey": kernel(_lackey),
    "drmemtrace": kernel(_drmemtrace),
}
champsim = kernel(_champsim)
