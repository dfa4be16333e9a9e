"""The answer to "where does the time of my program go?": functions, loops and lines that samples were taken in."""

from __future__ import annotations

import shlex
from typing import Any, Literal

import msgspec

from rooflab.types.result import Result, convert
from rooflab.types.usage import Usage

SCHEMA = 1

Kind = Literal["function", "loop", "line"]


class Spot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A function, a loop or a line that samples were taken in.

    Attributes:
        kind: which of them.
        name: of the function that it is, or is in.
        file: path of its source; a library's name for native code without.
        first_line, last_line: of it in the file; None for native code.
        samples: that were taken while it ran, in what it called too.
        own: of these, those in itself: in its own lines and in native code that they called.
        native: of `own`, those in native code; None where native frames were not recorded.
        text: the line, or the head of the loop or function, as the source has it; "" where it is not readable.
        takes_apart: the command that takes it apart; None where none does.
        why: what that command needs, or why there is none; "" where there is nothing to say.
    """

    kind: Kind
    name: str
    file: str
    first_line: int | None = None
    last_line: int | None = None
    samples: int
    own: int
    native: int | None = None
    text: str = ""
    takes_apart: str | None = None
    why: str = ""


class Hotspots(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that was sampled while it ran.

    Attributes:
        command: the words of it.
        usage: what the system says of its execution.
        exit_code: of the command; 128 + n where signal n killed it.
        signal: that killed it ("SIGKILL"); None where none did.
        samples: that were taken of it, threads and processes added.
        hz: at which each thread was sampled.
        functions, loops, lines: most samples first.
        libraries: samples in native code by library, most first; () where native frames were not recorded.
        notes: conventions and doubts.
    """

    NEWEST = SCHEMA
    WHAT = "hotspots"
    DERIVED = ("name",)

    command: tuple[str, ...]
    usage: Usage
    exit_code: int
    signal: str | None = None
    samples: int
    hz: float
    functions: tuple[Spot, ...] = ()
    loops: tuple[Spot, ...] = ()
    lines: tuple[Spot, ...] = ()
    libraries: tuple[Spot, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def name(self) -> str:
        """The command as it would be typed."""
        return shlex.join(self.command)

    def share(self, samples: int) -> float:
        """Which share of all samples that many are."""
        return samples / self.samples if self.samples else 0.0

    def _summary(self) -> str:
        first = self.functions[0].name if self.functions else "nothing"
        return f"{self.name[:60]}: {self.samples} samples, most in {first}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers; the command as it would be typed is said too."""
        return {**super().to_dict(), "name": self.name}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Hotspots:
        """The hotspots that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
