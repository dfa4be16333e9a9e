"""Further files of C that a function is compiled with: each by itself, as in its own build, then linked as IR."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from llvmlite import binding

from rooflab.loops.c import compilers
from rooflab.loops.c.compilers import Compiler
from rooflab.loops.c.flags import Flags


def begun(
    compiler: Compiler, flags: Flags, words: Mapping[str, Sequence[str]], folder: Path
) -> dict[Path, subprocess.Popen[str]]:
    """The compiler at work on each of `flags.files`, for each module of `words`: by the file that it writes."""
    return {
        place: compilers.run(compiler, [*each, file, "-o", str(place)], flags.folder)
        for out, each in words.items()
        for file, place in zip(flags.files, _places(flags, folder, out), strict=True)
    }


def join(flags: Flags, folder: Path, out: str) -> None:
    """Link the modules that were made beside `out` into it."""
    module = binding.parse_bitcode((folder / out).read_bytes())
    for each in _places(flags, folder, out):
        module.link_in(binding.parse_bitcode(each.read_bytes()))
    (folder / out).write_bytes(module.as_bitcode())


def _places(flags: Flags, folder: Path, out: str) -> list[Path]:
    return [folder / f"{number}-{out}" for number in range(len(flags.files))]
