"""Reading the kernel's small text files: what is missing is None, what is unreadable or malformed is a note."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_MISSING = (FileNotFoundError, NotADirectoryError)
_PIECE_BYTES = 1 << 16
_PIECES_MAX = 256  # /proc/cpuinfo is the longest: 3 kB a CPU, so 16 MiB are plenty
_CPU_MAX = 1 << 16  # Linux: CONFIG_NR_CPUS is at most 8192
_SIZE = re.compile(r"(\d+)\s*([KMG]?)B?$", re.IGNORECASE)
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Tree:
    """A file system tree that starts at `root`; `notes` gathers what could not be read, in order."""

    root: str
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def at(root: Path) -> Tree:
        """The tree at `root`."""
        return Tree(os.fspath(root))

    @property
    def is_live(self) -> bool:
        """Whether this is the running machine's own tree, not a snapshot."""
        return self.root == "/"

    def note(self, sentence: str) -> None:
        """Remember `sentence` once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def text(self, path: str) -> str | None:
        """The stripped text of the file at `path` (relative to the root); None where there is none."""
        try:
            with open(os.path.join(self.root, path), "rb", buffering=0) as file:
                # In pieces: a read of megabytes from /proc/sys fails, as the kernel allocates what is asked for.
                pieces = iter(lambda: file.read(_PIECE_BYTES), b"")
                return b"".join(islice(pieces, _PIECES_MAX)).decode("utf-8", "replace").strip(" \t\r\n\0")
        except _MISSING:
            return None
        except OSError as error:
            self.note(f"/{path} cannot be read ({error.strerror or error}); what it says is left unknown")
            return None

    def parsed(self, path: str, parse: Callable[[str], T], expected: str) -> T | None:
        """`parse` of the file at `path`; None where it is missing, empty, or malformed (which is noted)."""
        text = self.text(path)
        if not text:
            return None
        try:
            return parse(text)
        except ValueError:
            shown = text if len(text) <= 40 else text[:37] + "..."
            self.note(f"/{path}: got {shown!r}, expected {expected}; left unknown")
            return None

    def integer(self, path: str) -> int | None:
        """The whole number in the file at `path`."""
        return self.parsed(path, int, "a whole number")

    def cpu_list(self, path: str) -> tuple[int, ...] | None:
        """The CPU (or node) numbers listed in the file at `path`, ascending."""
        return self.parsed(path, parse_cpu_list, "a list such as '0-3,8'")

    def size_bytes(self, path: str) -> int | None:
        """The size in the file at `path`, such as "32K"."""
        return self.parsed(path, parse_size_bytes, "a size such as '32K'")

    def names(self, path: str) -> tuple[str, ...]:
        """The names in the directory at `path`, sorted; none where it is missing."""
        try:
            return tuple(sorted(os.listdir(os.path.join(self.root, path))))
        except _MISSING:
            return ()
        except OSError as error:
            self.note(f"/{path} cannot be listed ({error.strerror or error})")
            return ()

    def numbered(self, path: str, prefix: str) -> tuple[int, ...]:
        """The numbers n of the entries `prefix`n in the directory at `path`, ascending."""
        endings = (name.removeprefix(prefix) for name in self.names(path) if name.startswith(prefix))
        return tuple(sorted(int(rest) for rest in endings if rest.isascii() and rest.isdigit()))


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The numbers of a kernel list ("0-3,8"), ascending; none for an empty list.

    Raises:
        ValueError: not such a list.

    >>> parse_cpu_list("0-3,8")
    (0, 1, 2, 3, 8)
    """
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < _CPU_MAX:
            raise ValueError(f"{part!r} is not a range of CPU numbers")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def parse_size_bytes(text: str) -> int:
    """The bytes of a kernel size ("32K", "24576 kB"): K, M and G are powers of 1024.

    Raises:
        ValueError: not such a size.

    >>> parse_size_bytes("32K")
    32768
    """
    match = _SIZE.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    return int(match[1]) * _SCALE[match[2].upper()]
