"""What is shown of hotspots: the largest function and loop in sentences, tables, what takes them apart."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

from rooflab.types.hotspots import Hotspots, Spot
from rooflab.units import duration, percent
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table

_MOST = 15  # rows of a table
_LEAST = 0.01  # of all samples, below which a row is left to the files
_LONGEST = 60  # letters of a line of source
_PATH = 40  # letters of a file's path, beyond which its last two parts are shown
_FEW = 100  # samples, below which shares are rough


def sheet_of(found: Hotspots) -> Sheet:
    """What is shown of `found`."""
    return Sheet(
        f"{found.name[:70]}: {duration(found.usage.wall_s)}, {found.samples:,} samples",
        "hotspots",
        sentences=tuple(_sentences(found)),
        tables=(
            _table(found, "Functions, by their own time", sorted(found.functions, key=lambda one: -one.own)),
            _table(found, "Loops, with what they call", found.loops),
            _table(found, "Lines, by their own time", found.lines),
            _libraries(found),
            _commands(found),
        ),
        warnings=tuple(_warnings(found)),
        notes=(*found.notes, *_conventions(found)),
    )


def seconds(found: Hotspots, samples: int) -> float:
    """Seconds of threads that so many samples stand for."""
    return samples / found.hz


def place(spot: Spot) -> str:
    """File and lines, from here where that is shorter."""
    if spot.first_line is None:
        return _short(spot.file)
    if spot.kind == "line" or spot.last_line in (None, spot.first_line):
        return f"{_short(spot.file)}:{spot.first_line}"
    return f"{_short(spot.file)}:{spot.first_line}-{spot.last_line}"


def _short(file: str) -> str:
    if file.startswith("<") or not os.path.isabs(file):
        return file
    near = min(os.path.relpath(file), file, key=len)
    parts = near.split(os.sep)
    return near if len(near) <= _PATH else os.sep.join(["…", *parts[-2:]])


def _sentences(found: Hotspots) -> Iterator[str]:
    if not found.samples:
        return
    own = max(found.functions, key=lambda one: one.own, default=None)
    if own is not None:
        yield f"Most time in itself: {own.name} ({place(own)}), {percent(found.share(own.own))}."
    loop = next((one for one in found.loops if one.takes_apart or one.why), None) or next(iter(found.loops), None)
    if loop is not None and found.share(loop.samples) >= _LEAST:
        share = found.share(loop.samples)
        yield f"The longest loop: {place(loop)} in {loop.name}, {percent(share)}: {loop.text[:_LONGEST]}"
    apart = next((one for one in _apart(found)), None)
    if apart is not None:
        yield f"Take it apart: {apart.takes_apart}{f' ({apart.why})' if apart.why else ''}"


def _apart(found: Hotspots) -> list[Spot]:
    """Spots that a command takes apart, one for each command, most samples first."""
    first: dict[str, Spot] = {}
    spots = [*found.loops, *found.functions, *(one for one in found.lines if found.share(one.own) >= _LEAST)]
    for spot in sorted(spots, key=lambda one: -one.samples):
        if spot.takes_apart and found.share(spot.samples) >= _LEAST:
            first.setdefault(spot.takes_apart, spot)
    return list(first.values())


def _warnings(found: Hotspots) -> Iterator[str]:
    if found.signal is not None:
        yield f"Killed by {found.signal}: the samples are those until then (exit code {found.exit_code})."
    elif found.exit_code:
        yield f"It failed with exit code {found.exit_code}: the samples are those until then."
    if 0 < found.samples < _FEW:
        yield f"{found.samples} samples: shares are rough; sample more often (--rate) or run it longer."


def _table(found: Hotspots, title: str, spots: Sequence[Spot]) -> Table:
    native = any(one.native is not None for one in spots)
    columns = ("where", "in", "time", "with calls", "in itself", *(("native",) if native else ()), "source")
    rows = []
    for spot in spots:
        by = spot.samples if title.startswith("Loops") else spot.own
        if found.share(by) < _LEAST or len(rows) == _MOST:
            continue
        more = (UNKNOWN if spot.native is None else percent(found.share(spot.native), 1),) if native else ()
        rows.append(
            (
                place(spot),
                spot.name,
                duration(seconds(found, by)),
                percent(found.share(spot.samples), 1),
                percent(found.share(spot.own), 1),
                *more,
                _cut(spot.text),
            )
        )
    return Table(title, columns, tuple(rows))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _libraries(found: Hotspots) -> Table:
    rows = [
        (one.name, duration(seconds(found, one.own)), percent(found.share(one.own), 1))
        for one in found.libraries[:_MOST]
        if found.share(one.own) >= _LEAST
    ]
    return Table("Native code, by library", ("library", "time", "share"), tuple(rows))


def _commands(found: Hotspots) -> Table:
    rows = [
        (one.takes_apart or "", place(one), percent(found.share(one.samples)), one.why) for one in _apart(found)
    ]
    rows += [
        (UNKNOWN, place(one), percent(found.share(one.samples)), one.why)
        for one in found.loops
        if one.takes_apart is None and one.why and found.share(one.samples) >= _LEAST
    ]
    return Table("What takes them apart", ("command", "what", "share", "what it needs"), tuple(rows[:_MOST]))


def _conventions(found: Hotspots) -> Iterator[str]:
    yield (
        f"py-spy looked {found.hz:g} times a second at every thread that was not idle: time is that of threads, "
        "and native code counts for the line that called it"
    )
    if found.samples:
        points = 196 * math.sqrt(0.25 / found.samples)  # 1.96 standard deviations of a binomial share
        yield f"of {found.samples:,} samples a share of 50 % is known to ± {points:.2g} points (95 %)"
        yield "it attaches while the program starts: the first tenths of a second may be missing"


def lines(found: Hotspots) -> Lines:
    """A line for each function, loop and line."""
    columns = (
        "kind",
        "name",
        "file",
        "first_line",
        "last_line",
        "samples",
        "own",
        "native",
        "share",
        "own_share",
        "text",
        "takes_apart",
    )
    rows = [
        (
            one.kind,
            one.name,
            one.file,
            one.first_line,
            one.last_line,
            one.samples,
            one.own,
            one.native,
            found.share(one.samples),
            found.share(one.own),
            one.text,
            one.takes_apart,
        )
        for one in (*found.functions, *found.loops, *found.lines)
    ]
    return Lines(columns, rows)
