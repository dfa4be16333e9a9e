"""One file a format: is it mine (`sniff`), and what does it hold (`load`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from rooflab.errors import FileError
from rooflab.observe.opened import head_of
from rooflab.types.counted import Counters
from rooflab.types.trace import Trace

# Asked in this order: what a format demands most certainly comes first. Each module has `sniff` and `load`.
FORMATS = ("nsight_compute", "kineto")

_LOOKS_LIKE = (
    (b"\x7fELF", "a program"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"<!DOCTYPE html", "a web page"),
    (b"<html", "a web page"),
    (b"SQLite format 3", "an SQLite database"),
)


def knows(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of one of `FORMATS`."""
    return any(import_module(f"rooflab.observe.importers.{name}").sniff(head) for name in FORMATS)


def load(path: Path) -> Trace | Counters:
    """What the file at `path` holds, whatever its name.

    Raises:
        FileError: a file that cannot be read, of no known format, or with nothing usable in it.
    """
    head = head_of(path)
    for name in FORMATS:
        module = import_module(f"rooflab.observe.importers.{name}")
        if module.sniff(head):
            return module.load(path)
    if not head.strip():
        raise FileError(f"{path}: empty, expected a profile")
    looks = next((what for start, what in _LOOKS_LIKE if head.lstrip().startswith(start)), None)
    if path.suffix.lower() == ".onnx":
        looks = "an ONNX model (`rooflab analyze` counts it)"
    seen = f"looks like {looks}" if looks else f"begins with {head[:40]!r}"
    raise FileError(f"{path}: no profile that rooflab reads: it {seen}; expected {_expected()}")


def _expected() -> str:
    sources = [import_module(f"rooflab.observe.importers.{name}").SOURCE for name in FORMATS]
    return f"a file of {', '.join(sources)}, or one that rooflab saved"
