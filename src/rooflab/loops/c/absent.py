"""Names that a file of C uses and nobody brings: stand-ins, so that its other functions can be run all the same.

Which they are, the linker or the system's loader says when it refuses the library. What reaches one of them is
refused where it is counted; a stand-in ends the process should it be called nevertheless.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding

from rooflab.loops.compiled.target import target_machine

_UNDEFINED = re.compile(r"undefined symbol: ([^\s,;:]+)|undefined reference to [`']([^']+)'")
_DATA = re.compile(r"^@(?P<name>[\w.$]+) = external (?:\w+ )*(?:global|constant) ", re.MULTILINE)
_DATA_BYTES = 1 << 16  # of a stand-in for data, which nothing that is counted reads


class Library(NamedTuple):
    """A library that is loaded, and the names in it that are stand-ins."""

    handle: ctypes.CDLL
    absent: frozenset[str] = frozenset()

    def find(self, name: str) -> Any:
        """What the library, or one that it is linked with, has of that name.

        Raises:
            AttributeError: nothing, or a stand-in.
        """
        if name in self.absent:
            raise AttributeError(name)
        return getattr(self.handle, name)


def opened(
    library: Path, names: tuple[str, ...], errors: str, link: Callable[[tuple[str, ...]], str]
) -> Library | str:
    """A library loaded, with stand-ins for whatever it misses; else what linker or loader say.

    Args:
        library: its file.
        names: stand-ins that are in it.
        errors: of the linker that was to make it; "" where it did.
        link: makes it anew with stand-ins for names, and returns the linker's errors.
    """
    while True:
        if not errors:
            try:
                return Library(ctypes.CDLL(str(library)), frozenset(names))
            except OSError as error:
                errors = str(error)
        more = [each for each in named_in(errors) if each not in names]
        if not more:
            return errors
        names = (*names, *more)
        errors = link(names)


def named_in(errors: str) -> list[str]:
    """The names that a linker or a loader misses, by what it says."""
    return list(dict.fromkeys(one or other for one, other in _UNDEFINED.findall(errors)))


def stand_ins(names: Iterable[str], ir: str, out: Path) -> None:
    """Write an object file that has all of `names`: those that the module `ir` declares as data as such."""
    data = set(_DATA.findall(ir))
    lines = ["declare void @llvm.trap()"]
    for each in names:
        if each in data:
            lines.append(f'@"{each}" = global [{_DATA_BYTES} x i8] zeroinitializer, align 64')
        else:
            lines.append(f'define void @"{each}"() {{\n  call void @llvm.trap()\n  unreachable\n}}')
    machine = target_machine()
    module = binding.parse_assembly("\n".join(lines))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    out.write_bytes(machine.emit_object(module))


def said(name: str) -> str:
    """That a function calls `name`, a name of linkers, in words."""
    return (
        f"calls {_in_source(name)}, which is neither in its file nor in a library that it is linked with (give the"
        ' library or the file that has it, as --cflags "-O3 -march=native -lNAME FILE.c")'
    )


def _in_source(name: str) -> str:
    """`name` as a source of C++ has it: a function's with the spaces that it lies in; else as it is."""
    rest, parts = re.sub(r"^_ZNK?|^_Z", "", name), list[str]()
    while name.startswith("_Z") and (length := re.match(r"\d+", rest)):
        end = length.end() + int(length[0])
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    return "::".join(parts) or name
