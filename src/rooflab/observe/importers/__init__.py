"""One file a format: is it mine (`sniff`), and what does it hold (`load`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rooflab.errors import FileError
from rooflab.observe.importers import counters, roofs, traces
from rooflab.observe.reading.opened import head_of
from rooflab.types.counted import Counters
from rooflab.types.machine import Machine
from rooflab.types.trace import Trace

_ROOMS = (counters, traces, roofs)

_LOOKS_LIKE = (
    (b"\x7fELF", "a program"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"<!DOCTYPE html", "a web page"),
    (b"<html", "a web page"),
)


def formats() -> Iterator[ModuleType]:
    """The modules of all formats, in the order in which they are asked."""
    for room in _ROOMS:
        for name in room.FORMATS:
            yield import_module(f"{room.__name__}.{name}")


def format_of(head: bytes) -> ModuleType | None:
    """The module of the format that `head`, the first of a file, is of; None for none that is known."""
    return next((module for module in formats() if module.sniff(head)), None)


def load(path: Path) -> Trace | Counters | Machine:
    """What the file at `path` holds, whatever its name.

    Raises:
        FileError: a file that cannot be read, of no known format, or with nothing usable in it.
    """
    head = head_of(path)
    module = format_of(head)
    if module is None:
        raise unknown(path, head)
    return module.load(path)


def unknown(path: Path, head: bytes) -> FileError:
    """What is said of the file at `path`, which begins with `head` and is of no known format."""
    if not head.strip():
        return FileError(f"{path}: empty, expected a profile")
    looks = next((what for start, what in _LOOKS_LIKE if head.lstrip().startswith(start)), None)
    if path.suffix.lower() == ".onnx":
        looks = "an ONNX model (`rooflab analyze` counts it)"
    seen = f"looks like {looks}" if looks else f"begins with {head[:40]!r}"
    return FileError(
        f"{path}: no profile that rooflab reads: it {seen}; expected a file of one of {len(sources())} tools "
        "(`rooflab load --formats` lists them), or one that rooflab saved"
    )


def sources() -> list[str]:
    """The tools whose files are read, in alphabetical order."""
    return sorted({module.SOURCE for module in formats()}, key=str.casefold)
