"""Which files are of C, and with which flags they are compiled: those given, or of a compile_commands.json."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from rooflab.errors import FileError, RooflabError

CXX = (".cpp", ".cc", ".cxx", ".c++", ".C")
C = (".c",)
IR = (".ll", ".bc")
DEFAULT = ("-O3", "-march=native")
# The language where no flags are given, as GCC from 11 and Clang from 16 take it; older ones took that of 2014.
_CXX_DEFAULT = (*DEFAULT, "-std=gnu++17")
DATABASE = "compile_commands.json"
# With another word behind them: what is made and where, which is ours to say.
_DROPPED_WITH_VALUE = ("-o", "-MF", "-MT", "-MQ", "-MJ")
_BEFORE_A_FILE = ("-include", "-imacros", "-I", "-D", "-U", "-Xclang", "-isystem", "-iquote", "-idirafter")
_DROPPED = ("-c", "-S", "-E", "-MD", "-MMD", "-MP", "-M", "-MM", "-MG", "-Werror", "-pipe")
_OPENMP, SIMD = ("-fopenmp", "-qopenmp"), "-fopenmp-simd"
# Not for the twin: it is not optimised, and looks at each access itself.
_NOT_COUNTED = ("-O", "-flto", "-fsanitize", "-fprofile", "-fcoverage", "-g", "-fvectorize", "-funroll", "-Rpass",
                SIMD)  # fmt: skip


class Flags(NamedTuple):
    """Flags.

    Attributes:
        given: the user's, without those that say what is made; of OpenMP's what is for vectors.
        folder: in which they hold.
        compiler: what the database names, "" where none does.
        said: in words, where they come from.
        openmp: whether OpenMP's threads were asked for.
        files: further files of C or C++ among them, which are compiled too and linked with it.
    """

    given: tuple[str, ...]
    folder: str
    compiler: str
    said: str
    openmp: bool
    files: tuple[str, ...] = ()

    @property
    def counted(self) -> tuple[str, ...]:
        """Those that the twin is compiled with: of optimisation, debugging and sanitizers none."""
        return tuple(each for each in self.given if not each.startswith(_NOT_COUNTED))

    def with_more(self, more: tuple[str, ...]) -> Flags:
        """These with others behind them."""
        return self._replace(given=(*self.given, *more), said=f"{self.said} {' '.join(more)}") if more else self


def is_ours(path: str) -> bool:
    """Whether a file is of C, C++ or LLVM IR by its name."""
    return path.endswith((*C, *CXX, *IR))


def named(text: str) -> tuple[str, str]:
    """The file and the function of "FILE:NAME", of C++ "FILE:SPACE::NAME" too; as rpartition(":") has others."""
    ends = (at for at, letter in enumerate(text) if letter == ":" and is_ours(text[:at]))
    at = next(ends, text.rfind(":"))
    return text[: max(at, 0)], text[at + 1 :]


def of(path: Path, cflags: str | None) -> Flags:
    """The flags of the file at `path`: `cflags`, else its entry in a compile_commands.json, else `DEFAULT`.

    Raises:
        FileError: a database that cannot be read.
        RooflabError: flags with an open quotation mark.
    """
    folder = str(path.parent.resolve())
    if cflags is not None:
        try:
            words = shlex.split(cflags)
        except ValueError as error:
            raise RooflabError(f"--cflags {cflags!r}: {error}") from None
        words, files = _apart(words, path.resolve())
        return _made(words, folder, "", f"flags as given: {cflags}")._replace(files=files)
    for above in (path.resolve().parent, *path.resolve().parent.parents):
        for place in (above / DATABASE, above / "build" / DATABASE):
            if place.is_file():
                entry = _entry(place, path.resolve())
                if entry is not None:
                    words, where = entry
                    return _made(words[1:], where, words[0], f"flags of {place}")
    words: list[str] = [*(_CXX_DEFAULT if path.suffix in CXX else DEFAULT)]
    return _made(words, folder, "", f"flags: none were given, so {' '.join(words)}")


def _apart(words: list[str], path: Path) -> tuple[list[str], tuple[str, ...]]:
    """`words` without the files of C or C++ in them, and these: in the folder of `path`, else in the current one.

    Raises:
        FileError: no such file.
    """
    kept: list[str] = []
    files: list[str] = []
    for word in words:
        if word.startswith("-") or not word.endswith((*C, *CXX)) or (kept and kept[-1] in _BEFORE_A_FILE):
            kept.append(word)
            continue
        found = next((each for each in (path.parent / word, Path(word)) if each.is_file()), None)
        if found is None:
            raise FileError(f"{word}: no such file, neither beside {path.name} nor here (in --cflags)")
        if found.resolve() != path:
            files.append(str(found.resolve()))
    return kept, tuple(dict.fromkeys(files))


def _entry(place: Path, path: Path) -> tuple[list[str], str] | None:
    """The command for `path` in the database at `place`, and its folder; None where it has none."""
    try:
        entries: Any = json.loads(place.read_text("utf-8"))
        for each in entries:
            folder = str((place.parent / each.get("directory", ".")).resolve())
            if Path(os.path.join(folder, each["file"])).resolve() == path:
                words = list(each["arguments"]) if "arguments" in each else shlex.split(each["command"])
                dropped = {each["file"], str(path)}
                return [word for n, word in enumerate(words) if not n or word not in dropped], folder
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(
            f"{place}: cannot be read as a compilation database ({type(error).__name__}: {error}): expected a list"
            " of entries with directory, file and command; or give --cflags"
        ) from None
    return None


def _made(words: list[str], folder: str, compiler: str, said: str) -> Flags:
    kept: list[str] = []
    openmp = skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _DROPPED_WITH_VALUE:
            skip = True
        elif word.startswith(_OPENMP) and word != SIMD:
            openmp = True
        elif word not in _DROPPED and not word.startswith(("-Werror=", "-MF", "-o/")):
            kept.append(word)
    if openmp and SIMD not in kept:
        kept.append(SIMD)
    return Flags(tuple(kept), folder, compiler, said, openmp)
