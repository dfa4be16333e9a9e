"""Parsers of address traces, compiled: from bytes to accesses without a Python object a line.

Each reads records from one place up to another and notes their accesses as `replay_words` takes them, while there
is room for one more record's. It returns the place it came to and how many accesses it noted. What a record's
letter says, a table of `kinds` knows. Text is as `text` wants it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rooflab.cachesim.native.compile import INLINED, kernel
from rooflab.cachesim.native.words import add, load, load_byte, store
from rooflab.cachesim.run.replay import BYTES_SHIFT, INSTRUCTIONS, LOADS, STORES
from rooflab.cachesim.traces.text import (
    decimal_at,
    decimal_before,
    eight_before,
    ends,
    first_in_line,
    hex_at,
    is_blank,
    line_end,
    skip_back,
    skip_blanks,
)

# Totals: records that are no data access, then dropped ones by reason.
SKIPPED, DROPPED = range(2)
NOT_A_LINE, NO_ADDRESS, BAD_SIZE, UNFINISHED = range(DROPPED, DROPPED + 4)
TOTALS = DROPPED + 4
LARGEST = 4096  # bytes of one access
MOST_OF_A_RECORD = 7  # accesses: ChampSim's instruction, 4 loads, 2 stores
# Address bits that are kept: the simulator counts lines in 62 bits, no machine has that many.
_KEPT = (1 << 61) - 1
# Kinds of records beside the accesses of `replay_words`: a load and a store, none at all, and what cannot be.
_MODIFY, _OTHER, _BAD = 8, 9, 10
_COMMA, _AT, _EQUALS = ord(","), ord("@"), ord("=")
_LETTERS = {
    "din": {"0": LOADS, "1": STORES, "2": INSTRUCTIONS, "3": _OTHER, "4": _OTHER},  # 3: escape, 4: flush
    # Miscellaneous, copy back and invalidate are no accesses.
    "xdin": {"r": LOADS, "w": STORES, "i": INSTRUCTIONS, "m": _OTHER, "c": _OTHER, "v": _OTHER},
    "lackey": {"L": LOADS, "S": STORES, "I": INSTRUCTIONS, "M": _MODIFY},
    "drmemtrace": {"r": LOADS, "w": STORES, "i": INSTRUCTIONS, "o": _OTHER},
    "champsim": {"i": INSTRUCTIONS},
}
_LOAD_WORD, _STORE_WORD, _FETCH_WORD, _OTHER_WORD = (ord(char) for char in "rwio")


def kinds(name: str, instructions: bool) -> np.ndarray:
    """What the letter of a record of format `name` says, by its character; `instructions` are loads or skipped."""
    table = np.full(256, _BAD, np.uint8)
    for letter, kind in _LETTERS[name].items():
        taken = _OTHER if kind == INSTRUCTIONS and not instructions else kind
        table[ord(letter)] = taken
        if name == "xdin":
            table[ord(letter.upper())] = taken
    return table


class Batch(NamedTuple):
    """Where a parser notes accesses, and how it takes records.

    Attributes:
        kinds: address: what the letter of a record says (see `kinds`).
        item_bytes: of an access where the format does not say.
        addresses: address: the address of each access, and
        words: address: its word (see `replay_words`).
        room: for so many.
        totals: address: the records of each kind that are no access.
    """

    kinds: int
    item_bytes: int
    addresses: int
    words: int
    room: int
    totals: int


@njit(**INLINED)
def note(batch, count, kind, address, nbytes):
    """Note the accesses of one record after `count` others, or why there are none; how many there are then."""
    addresses, words, totals = batch.addresses, batch.words, batch.totals
    if kind >= _OTHER:
        add(totals, NOT_A_LINE if kind == _BAD else SKIPPED, 1)
        return count
    if nbytes <= 0 or nbytes > LARGEST:
        add(totals, BAD_SIZE, 1)
        return count
    store(addresses, count, address & _KEPT)
    if kind == _MODIFY:
        store(words, count, nbytes << BYTES_SHIFT | LOADS)
        count += 1
        store(addresses, count, address & _KEPT)
        kind = STORES
    store(words, count, nbytes << BYTES_SHIFT | kind)
    return count + 1


def _din(at, end, batch):
    # <label> <address>: 0 read, 1 write, 2 instruction, 3 and 4 others; what follows is a comment
    count = 0
    while at < end and count <= batch.room - MOST_OF_A_RECORD:
        at = skip_blanks(at)
        if not ends(at):
            kind, begin = load_byte(batch.kinds + load_byte(at)), skip_blanks(at + 1)
            address, last = hex_at(begin)
            if kind == _BAD or begin == at + 1:
                add(batch.totals, NOT_A_LINE, 1)
            elif last == begin or not (is_blank(load_byte(last)) or ends(last)):
                add(batch.totals, NO_ADDRESS, 1)
            else:
                count = note(batch, count, kind, address, batch.item_bytes)
            at = last
        at = line_end(at)
    return at, count


def _xdin(at, end, batch):
    # <r|w|i|m|c|v> <address> <size>, both hexadecimal
    count = 0
    while at < end and count <= batch.room - MOST_OF_A_RECORD:
        at = skip_blanks(at)
        if not ends(at):
            kind, begin = load_byte(batch.kinds + load_byte(at)), skip_blanks(at + 1)
            address, last = hex_at(begin)
            if kind != _BAD and begin > at + 1 and last == begin:
                add(batch.totals, NO_ADDRESS, 1)
            else:
                second = skip_blanks(last)
                size, last = hex_at(second)
                if begin == at + 1 or last == second or not ends(skip_blanks(last)):
                    kind = _BAD
                count = note(batch, count, kind, address, size)
            at = last
        at = line_end(at)
    return at, count


def _lackey(at, end, batch):
    # "I  04001000,3", " L 1fff000758,8", " S …", " M …" (a load, then a store); "==pid==" is valgrind talking
    count = 0
    while at < end and count <= batch.room - MOST_OF_A_RECORD:
        at = skip_blanks(at)
        if load_byte(at) == _EQUALS:
            add(batch.totals, SKIPPED, 1)
        elif not ends(at):
            kind, begin = load_byte(batch.kinds + load_byte(at)), skip_blanks(at + 1)
            address, last = hex_at(begin)
            if kind != _BAD and last == begin:
                add(batch.totals, NO_ADDRESS, 1)
            else:
                size = 0
                if load_byte(last) != _COMMA or begin == at + 1:
                    kind = _BAD
                else:
                    size, last = decimal_at(last + 1)
                    if not ends(skip_blanks(last)):
                        kind = _BAD
                count = note(batch, count, kind, address, size)
            at = last
        at = line_end(at)
    return at, count


def _characters(text: str) -> int:
    """What `eight_before` gives of the end of these characters, other bytes zero."""
    return int.from_bytes(text.rjust(8, "\0").encode(), "little", signed=True)


_BYTES, _READ, _WRITE, _IFETCH = (_characters(word) for word in ("byte(s)", " read", " write", " ifetch"))


@njit(**INLINED)
def word_before(at):
    """The letter that the record's kind goes by, of the word that ends before `at`."""
    eight = eight_before(at)
    letter = _OTHER_WORD
    if eight & -1 << 24 == _READ:
        letter = _LOAD_WORD
    if eight & -1 << 16 == _WRITE:
        letter = _STORE_WORD
    if eight & -1 << 8 == _IFETCH:
        letter = _FETCH_WORD
    return letter


def _drmemtrace(at, end, batch):
    # "  25  16:  1234 write  8 byte(s) @ 0x00007ffd… by PC 0x…"; others are markers, headings, the tool's summary
    count = 0
    while at < end and count <= batch.room - MOST_OF_A_RECORD:
        last = first_in_line(at, _AT)
        if load_byte(last) != _AT:
            add(batch.totals, SKIPPED, 0 if ends(skip_blanks(at)) else 1)
        else:
            kind, size, word = _OTHER, 0, skip_back(last)
            if eight_before(word) & -1 << 8 == _BYTES:
                size, word = decimal_before(skip_back(word - 7))
                kind = load_byte(batch.kinds + word_before(skip_back(word)))
            begin = skip_blanks(last + 1)
            address, last = hex_at(begin)
            if last == begin:
                add(batch.totals, NO_ADDRESS, 1)
            else:
                count = note(batch, count, kind, address, size)
        at = line_end(last)
    return at, count


def _champsim(at, end, batch):
    # input_instr of ChampSim: ip, then 8 bytes of flags and registers, 2 destinations, 4 sources; 0 is none
    count, fetch = 0, load_byte(batch.kinds + _FETCH_WORD)
    while at < end and count <= batch.room - MOST_OF_A_RECORD:
        count = note(batch, count, fetch, load(at, 0), 4)
        for word in range(4, 8):
            if load(at, word) != 0:
                count = note(batch, count, LOADS, load(at, word), batch.item_bytes)
        for word in range(2, 4):
            if load(at, word) != 0:
                count = note(batch, count, STORES, load(at, word), batch.item_bytes)
        at += 64
    return at, count


PARSERS: dict[str, Any] = {
    "din": kernel(_din),
    "xdin": kernel(_xdin),
    "lackey": kernel(_lackey),
    "drmemtrace": kernel(_drmemtrace),
    "champsim": kernel(_champsim),
}
