"""Which compiler reads C here: a clang of the system's, or the one that comes with ziglang."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

from llvmlite import binding

from rooflab.errors import RooflabError

NEWEST_NAMED = 30  # clang-30 is the newest that is looked for by its number
_VERSION = re.compile(r"clang version (\d+)(\.[\d.]+)?")


class Compiler(NamedTuple):
    """A clang: what to call, the name that a report gives it, the version of its LLVM."""

    command: tuple[str, ...]
    name: str
    major: int


def find(cxx: bool, wanted: str = "") -> Compiler:
    """The compiler for C, or for C++: `wanted` where that is a clang, that of CC or CXX, the system's, ziglang's.

    Raises:
        RooflabError: there is none, or none whose LLVM is old enough to be read; the two ways to get one.
    """
    too_new = None
    for command in _candidates(cxx, wanted):
        found = _clang(command)
        if found is not None and found.major <= binding.llvm_version_info[0]:
            return found
        too_new = too_new or found
    word = "C++" if cxx else "C"
    ways = "python -m pip install 'rooflab[c]' (it brings ziglang), or install clang"
    newest = binding.llvm_version_info[0]
    if too_new is not None:
        raise RooflabError(
            f"{too_new.name} is newer than LLVM {newest} of llvmlite, which could not read what it makes:"
            f" {ways} {newest} or older and name it by CC"
        )
    raise RooflabError(
        f"no compiler for {word}: found neither clang nor ziglang: {ways} (it need not be the newest)"
    )


def _candidates(cxx: bool, wanted: str) -> list[tuple[str, ...]]:
    name = "clang++" if cxx else "clang"
    named = [wanted, os.environ.get("CXX" if cxx else "CC", ""), name]
    named += [f"{name}-{n}" for n in range(NEWEST_NAMED, 10, -1)]
    found: list[tuple[str, ...]] = []
    for each in named:
        path = shutil.which(each) if each else None
        if path is not None:
            found.append((path,))
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "c++" if cxx else "cc"))
    return found


@functools.cache
def _clang(command: tuple[str, ...]) -> Compiler | None:
    """The compiler behind `command`; None where it is no clang."""
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout)
    if match is None or "Apple" in done.stdout:
        return None
    zig = "ziglang" in command
    return Compiler(command, f"clang {match[1]}{match[2] or ''}{' of ziglang' if zig else ''}", int(match[1]))


def run(compiler: Compiler, arguments: list[str], folder: str, read: bool = False) -> subprocess.Popen[str]:
    """The compiler at work in `folder`; `read`: what it prints is wanted, beside its errors."""
    environment = dict(os.environ, LC_ALL="C")
    return subprocess.Popen(
        [*compiler.command, *arguments],
        stdout=subprocess.PIPE if read else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=folder or None,
        env=environment,
    )
