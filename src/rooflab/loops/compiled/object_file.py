"""An object file of ELF, as LLVM makes them on Linux: which symbols from outside each of its functions needs."""

from __future__ import annotations

import struct
from typing import NamedTuple

_MAGIC = b"\x7fELF\x02\x01"  # of 64 bits, lowest byte first
_RELOCATABLE = 1
_SYMBOLS, _RELOCATIONS = 2, 4  # kinds of sections
_FUNCTION, _SECTION = 2, 3  # kinds of symbols
_ALLOCATED, _EXECUTABLE = 2, 4  # flags of sections
_BEFORE = 4  # bytes that an address which counts from behind itself lacks


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    offset: int
    nbytes: int
    link: int
    of: int


class _Symbol(NamedTuple):
    name: str
    kind: int
    section: int
    value: int
    nbytes: int


class _Reference(NamedTuple):
    """A place in a section that needs a symbol."""

    offset: int
    symbol: int
    addend: int


class ObjectFile(NamedTuple):
    """Its symbols, its references by section, and which sections are code."""

    symbols: tuple[_Symbol, ...]
    references: dict[int, tuple[_Reference, ...]]
    code: frozenset[int]

    @property
    def undefined(self) -> frozenset[str]:
        """The symbols that it takes from outside."""
        return frozenset(each.name for each in self.symbols if not each.section and each.name)

    def reached(self, name: str) -> frozenset[str]:
        """The symbols, own ones and from outside, that the function `name` may refer to, itself or through others.

        Where a reference leads to no function of known length, all of its section is taken as reached. None at all
        where there is no such function.
        """
        found: set[str] = set()
        seen: set[tuple[int, int, int]] = set()
        todo = [self._piece(each) for each in self.symbols if each.name == name and each.section]
        found |= {name} if todo else set()
        while todo:
            piece = todo.pop()
            if piece in seen:
                continue
            seen.add(piece)
            section, start, end = piece
            for each in self.references.get(section, ()):
                if not start <= each.offset < end:
                    continue
                symbol = self.symbols[each.symbol]
                found.add(symbol.name)
                if not symbol.section:
                    continue
                if symbol.kind == _SECTION:
                    todo += self._at(symbol.section, each.addend)
                else:
                    todo.append(self._piece(symbol))
        return frozenset(found - {""})

    def _piece(self, symbol: _Symbol) -> tuple[int, int, int]:
        """The section of a symbol, and from where to where in it."""
        if symbol.kind == _FUNCTION and symbol.nbytes:
            return symbol.section, symbol.value, symbol.value + symbol.nbytes
        return symbol.section, 0, 1 << 62

    def _at(self, section: int, addend: int) -> list[tuple[int, int, int]]:
        """What an address in a section may be part of."""
        if section in self.code:
            for place in (addend, addend + _BEFORE):
                found = [
                    each
                    for each in self.symbols
                    if each.section == section and each.kind == _FUNCTION and each.value == place
                ]
                if found:
                    return [self._piece(each) for each in found]
        return [(section, 0, 1 << 62)]


def read(content: bytes) -> ObjectFile | None:
    """The object file with that content; None where it is none of ELF for 64 bits."""
    if content[:6] != _MAGIC or len(content) < 64 or struct.unpack_from("<H", content, 16)[0] != _RELOCATABLE:
        return None
    start = struct.unpack_from("<Q", content, 0x28)[0]
    nbytes, count = struct.unpack_from("<HH", content, 0x3A)
    sections = []
    for n in range(count):
        at = start + n * nbytes
        name, kind, flags = struct.unpack_from("<IIQ", content, at)
        offset, size, link, of = struct.unpack_from("<QQII", content, at + 24)
        sections.append(_Section(name, kind, flags, offset, size, link, of))
    symbols: tuple[_Symbol, ...] = ()
    for each in sections:
        if each.kind == _SYMBOLS:
            symbols = tuple(_symbols(content, each, sections[each.link]))
    references = {
        each.of: tuple(_references(content, each))
        for each in sections
        if each.kind == _RELOCATIONS and sections[each.of].flags & _ALLOCATED
    }
    code = frozenset(n for n, each in enumerate(sections) if each.flags & _EXECUTABLE)
    return ObjectFile(symbols, references, code)


def _symbols(content: bytes, section: _Section, names: _Section) -> list[_Symbol]:
    found = []
    for at in range(section.offset, section.offset + section.nbytes, 24):
        name, info, _, place, value, size = struct.unpack_from("<IBBHQQ", content, at)
        begun = names.offset + name
        text = content[begun : content.index(b"\0", begun)].decode()
        found.append(_Symbol(text, info & 15, place, value, size))
    return found


def _references(content: bytes, section: _Section) -> list[_Reference]:
    found = []
    for at in range(section.offset, section.offset + section.nbytes, 24):
        offset, info, addend = struct.unpack_from("<QQq", content, at)
        found.append(_Reference(offset, info >> 32, addend))
    return found
