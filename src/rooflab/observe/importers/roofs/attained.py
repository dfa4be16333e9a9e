"""What all outputs of benchmarks become: attained rates, levels told by size, doubts as checks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from rooflab.errors import FileError, RooflabError
from rooflab.machines import catalog
from rooflab.observe.reading.numerals import numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text
from rooflab.types.machine import (
    Check,
    Level,
    Machine,
    Rate,
    Source,
    is_main_memory,
    whole_capacity_bytes,
)
from rooflab.units import iec, percent, si

CACHE = "cache"  # the level of what certainly lies in one, where it is not known in which
# The last-level caches of the catalogue's processors reach from 2 MiB (Raspberry Pi 5) to hundreds; STREAM's rule
# is that a working set is main memory's from four times the last-level cache.
SURELY_CACHED_BYTES = 2 * 2**20
FOUR_TIMES = 4
COMMON_CACHE_BYTES = 32 * 2**20
TOLERANCE = 0.03  # of what is said twice, beyond what printing rounds
_MOST = 1e21  # per second or bytes: beyond is no number that a machine attains
_LEAST = 1e6  # of a rate that is printed in MB/s or more: no machine of today is below
_MOST_LINES = 2_000_000

# Bytes an element that each stream names, without write-allocate, in elements of the arrays; and what a core that
# reads a line before it stores to it moves for one byte named: (read + written + allocated) / (read + written).
ELEMENTS = {"copy": 2, "scale": 2, "add": 3, "triad": 3, "dot": 2, "nstream": 4}
WITH_ALLOCATE = {"copy": 3 / 2, "scale": 3 / 2, "add": 4 / 3, "triad": 4 / 3}


class Place(NamedTuple):
    """Where a working set lies: the level's name, and what makes that doubtful."""

    level: str
    check: Check | None = None


def lines_of(path: Path) -> list[str]:
    """The lines of the text at `path`, without marks that job launchers put before each.

    Raises:
        FileError: a file that cannot be read.
    """
    text = plain_text(content(path, 2**28)).replace("\0", "")
    return [unmarked(line) for line in text.splitlines()[:_MOST_LINES]]


def text_of(head: bytes) -> str:
    """`head`, the first of a file, as text without the marks of job launchers."""
    return "\n".join(unmarked(line) for line in head.decode("latin-1").splitlines())


def unmarked(line: str) -> str:
    """`line` without the mark of a rank that a job launcher put before it."""
    return _LAUNCHER.sub("", line)


_LAUNCHER = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+: )\s?")


def positive(text: str | float | None, factor: float = 1.0) -> float | None:
    """The number above nothing that `text` is, times `factor`; None for what is none, or none that can be.

    A rate (a factor of a million or more) below a million a second is none that can be.
    """
    found = numeral(text) if isinstance(text, str) else text
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    value = float(found * factor)
    return value if (_LEAST if factor >= _LEAST else 0) <= value < _MOST and value > 0 else None


def source(tool: str, path: Path) -> Source:
    """The source of numbers that `tool` printed to the file at `path`."""
    return Source("reported", f"{tool}: {path.name}")


def byte_rate(what: str, value: float, origin: Source, **more: object) -> Rate:
    """A bandwidth that was attained."""
    return Rate(value=value, per_s="byte", what=what, basis="attained", source=origin, **more)  # pyright: ignore


def flop_rate(what: str, value: float, dtype: str, origin: Source, **more: object) -> Rate:
    """A speed of arithmetic that was attained; operations on integers are no FLOP."""
    per_s = "op" if dtype.startswith("int") else "flop"
    return Rate(value=value, per_s=per_s, what=what, dtype=dtype, basis="attained", source=origin, **more)  # pyright: ignore


def known_device(name: str | None) -> Machine | None:
    """The catalogue's machine of that name; None where it has none, or the name is of several."""
    if not name or not name.strip():
        return None
    try:
        return catalog.named(name.strip()[:200])
    except RooflabError:
        return None


def main_memory_of(known: Machine | None) -> str:
    """What the main memory is called: as the catalogue does, else "DRAM"."""
    levels = () if known is None else known.levels
    return next((level.name for level in levels if is_main_memory(level)), "DRAM")


def place(working_set_bytes: float | None, known: Machine | None) -> Place:
    """The level that `working_set_bytes` lie in: by the caches of `known`, else where the size alone tells."""
    memory = main_memory_of(known)
    if working_set_bytes is None:
        return Place(memory)
    name, size = "size against caches", f"a working set of {iec(working_set_bytes)}"
    caches = _caches(known)
    for level, capacity_bytes in caches:
        if working_set_bytes <= capacity_bytes:
            whose = f"the {level} of {known.name if known else ''} ({iec(capacity_bytes)})"
            message = f"{size} fits in {whose}: its rates are the {level}'s, not those of {memory}"
            return Place(level, Check(name=name, ok=False, message=message))
    if working_set_bytes <= SURELY_CACHED_BYTES and not caches:
        message = f"{size} fits in any processor's caches: its rates are a cache's, not those of {memory}"
        return Place(CACHE, Check(name=name, ok=False, message=message))
    last_bytes = caches[-1][1] if caches else COMMON_CACHE_BYTES
    if working_set_bytes < FOUR_TIMES * last_bytes:
        last = f"the {iec(last_bytes)} of its {caches[-1][0]}" if caches else f"a cache of {iec(last_bytes)}"
        message = (
            f"{size} is less than four times {last}, which may have served part of it: make the arrays larger"
        )
        return Place(memory, Check(name=name, ok=False, message=message))
    message = f"{size} is main memory's where the last-level cache is under {iec(working_set_bytes / FOUR_TIMES)}"
    return Place(memory, Check(name=name, ok=True, message=message))


def _caches(known: Machine | None) -> list[tuple[str, float]]:
    """The caches before main memory, by the capacity of all instances, near to far."""
    found = []
    for level in () if known is None else known.levels:
        if is_main_memory(level):
            break
        whole = whole_capacity_bytes(level, known) if known is not None else None
        if whole is not None and level.name != "registers":
            found.append((level.name, whole))
    return found


def agree(name: str, stated: float, expected: float, sentence: str, tolerance: float = TOLERANCE) -> Check:
    """A check that `stated` is `expected`; `sentence` says what both are, and 2^30 for 1e9 is recognised."""
    ratio = stated / expected if expected else 0.0
    if abs(ratio - 1) <= tolerance:
        return Check(name=name, ok=True, message=sentence)
    for power, unit, wrong in ((3, "GiB", "GB"), (2, "MiB", "MB")):
        factor = 1.024**power
        if abs(ratio * factor - 1) <= tolerance / 3:
            return Check(name=name, ok=False, message=f"{sentence}: {unit} were printed as {wrong}")
    return Check(name=name, ok=False, message=f"{sentence}: they differ by a factor of {ratio:.3g}")


def above_theory(rate: Rate, level: str, known: Machine | None) -> Check | None:
    """A failed check where `rate` is more than the catalogue's theory for `level`; None where it is not."""
    if known is None or level not in [one.name for one in known.levels]:
        return None
    theory = known.level(level).rate("any", basis="theoretical") or known.level(level).rate(basis="theoretical")
    if theory is None or rate.value <= theory.value * (1 + TOLERANCE):
        return None
    message = (
        f"{rate.what} {si(rate.value, 'B/s')} is {percent(rate.value / theory.value)} of the "
        f"{si(theory.value, 'B/s')} that {level} of {known.name} can do: bytes that a formula counts, not those "
        "that crossed the bus, data from a cache, or another card"
    )
    return Check(name=f"{rate.what} against theory", ok=False, message=message)


def levels(rates: Iterable[tuple[str, Rate]], known: Machine | None, origin: Source) -> tuple[Level, ...]:
    """A level for each name, near to far, with its rates."""
    by_name: dict[str, list[Rate]] = {}
    for name, rate in rates:
        by_name.setdefault(name, []).append(rate)
    order = ["registers", "L1", CACHE, "L2", "L3", "L4"]
    found = [
        Level(name=name, source=origin, rates=with_any(several))
        for name, several in sorted(
            by_name.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)
        )
    ]
    return tuple(found)


def with_any(rates: Iterable[Rate]) -> tuple[Rate, ...]:
    """`rates` of one level and, where none is of reads or of any mix, the fastest of them as that of any mix.

    Predictions and roofs ask for one bandwidth of a level.
    """
    found = tuple(rates)
    added = []
    for scope in dict.fromkeys(rate.scope for rate in found):
        streams = [rate for rate in found if rate.scope == scope and rate.basis == "attained"]
        if streams and not any(rate.what in ("read", "any") for rate in streams):
            best = max(streams, key=lambda rate: rate.value)
            ref = f"the fastest of {', '.join(dict.fromkeys(rate.what for rate in streams))}; {best.source.ref}"
            added.append(msgspec.structs.replace(best, what="any", source=Source("derived", ref)))
    return (*found, *added)


def nothing(path: Path, tool: str, got: str, expected: str) -> FileError:
    """The error of a file of `tool` without a usable number."""
    return FileError(f"{path}: {tool}'s output has no rate: {got}; expected {expected}; run the benchmark again")


def dropped_sentence(count: int) -> str:
    """What is said of `count` lines or numbers that could not be used; empty for none."""
    if not count:
        return ""
    return f"{count} line{'s' if count != 1 else ''} could not be used."


def note(*sentences: str) -> str:
    """`sentences` as a machine's note, the empty ones left out."""
    return " ".join(sentence for sentence in sentences if sentence)
