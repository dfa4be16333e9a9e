"""Address traces in files: Dinero din and xdin, valgrind's lackey, drmemtrace's view, ChampSim; gz and xz too.

Compiled code notes the accesses of some thousand lines, and makes them: in turns, so that memory stays bounded
whatever a file's size. Lines that cannot be read are counted by reason and skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from rooflab.cachesim.level import hierarchy, seen_units
from rooflab.cachesim.native.compile import ready
from rooflab.cachesim.run import final_write_back, stack_distance
from rooflab.cachesim.run.replay import AHEAD, BYTES_SHIFT, replay_words
from rooflab.cachesim.traces import files, parsers
from rooflab.cachesim.traces.files import BUFFERS, CHAMPSIM_BYTES, FORMATS, Buffers, TraceFile
from rooflab.errors import FileError, UnknownNameError
from rooflab.types.simulation import Cache, MissCurve, Simulation

Instructions = Literal["skip", "load"]
REASONS = (
    "not a line of this format",
    "no hexadecimal address",
    "a size of 0 or over 4096 bytes",
    "an unfinished record at the end",
)
_REFERENCES = ("loads", "stores", "instructions")
# How each text format looks, for the message about a file of another.
_LOOKS = {
    "din": "'0 1fff0'",
    "xdin": "'r 1fff0 8'",
    "lackey": "' L 1fff000758,8'",
    "drmemtrace": "'… write 8 byte(s) @ 0x7ffd… by PC 0x…'",
    "champsim": "64-byte binary records",
}


def simulate_trace(
    path: Path,
    levels: Sequence[Cache],
    *,
    format: str | None = None,
    tlbs: Sequence[Cache] = (),
    instructions: Instructions = "skip",
    item_bytes: int = 4,
    classify: bool = False,
    flush: bool = False,
    time_limit_s: float | None = None,
    assumptions: tuple[str, ...] = (),
    buffers: Buffers = BUFFERS,
) -> Simulation:
    """What `levels` do with the accesses of the trace at `path`.

    Args:
        path: of the file; .gz and .xz are unpacked as they are read.
        levels: near to far.
        format: of the file; found by its first lines where None.
        tlbs: translation look-aside buffers.
        instructions: whether instruction fetches are skipped, or are loads of the (unified) first level.
        item_bytes: bytes of an access where the format does not say (din: 4, ChampSim: 8 is usual).
        classify: tell compulsory, capacity and conflict misses apart; memory grows with what is touched.
        flush: count what is left dirty as written back.
        time_limit_s: stop reading after so long; counts are then partial, and marked.
        assumptions: of the levels, to be shown.
        buffers: how much is held at once.

    Raises:
        FileError: no such file, a format that cannot be told, a file with no readable line.
        UnknownNameError: no such format.
    """
    # With `classify` the sets of units seen grow on the way: the first ones are small.
    built = hierarchy.build(
        levels, tlbs=tlbs, references=_REFERENCES, units=buffers.first_units if classify else None
    )
    room = seen_units.Seen(built, buffers.most_units) if classify else None
    read = _through(path, built.address, Settings(format, instructions, item_bytes, buffers, time_limit_s), room)
    return final_write_back.result_of(
        built,
        path.name,
        flush=flush,
        accesses=read.accesses,
        accessed_bytes=read.accessed_bytes,
        dropped=read.dropped,
        assumptions=(*assumptions, *read.notes),
        seconds=read.seconds,
        complete=read.complete,
    )


def curve_of_trace(
    path: Path,
    line_bytes: int = 64,
    *,
    format: str | None = None,
    instructions: Instructions = "skip",
    item_bytes: int = 4,
    buffers: Buffers = BUFFERS,
) -> MissCurve:
    """The misses of the trace at `path` in fully associative LRU caches of every capacity.

    Memory grows with the lines that the trace touches, not with its length: up to 280 bytes a line.

    Raises:
        RooflabError: a line that is not a power of two, more lines than are kept.
        FileError: as `simulate_trace`.
    """
    stack_distance.check_line(line_bytes)
    counted = stack_distance.Distances(buffers.first_units, len(_REFERENCES), line_bytes, buffers.most_units)
    read = _through(path, counted.address, Settings(format, instructions, item_bytes, buffers), counted)
    return counted.curve(path.name, read.accesses, line_bytes)


class Settings(NamedTuple):
    """How a trace is read (see `simulate_trace`)."""

    format: str | None
    instructions: Instructions
    item_bytes: int
    buffers: Buffers = BUFFERS
    time_limit_s: float | None = None


class _Read(NamedTuple):
    accesses: int
    accessed_bytes: int
    dropped: dict[str, int]
    notes: tuple[str, ...]
    complete: bool
    seconds: float


def _through(path: Path, address: int, settings: Settings, room: seen_units.Growing | None) -> _Read:
    """Make every access of the trace at `path` on the state at `address`."""
    if settings.format is not None and settings.format not in FORMATS:
        raise UnknownNameError("trace format", str(settings.format), FORMATS)
    accesses, nbytes, complete = 0, 0, True
    with files.opened(path, settings.buffers) as file:
        chosen = settings.format or files.sniff(file.head, str(path))
        parsed = ParsedBatches(chosen, settings)
        ready(replay_words, address, *parsed.columns, 0)
        begun = time.perf_counter()
        for count in parsed.batches(file):
            if room is not None:
                room.make_room(count, parsed.longest(count))
            accesses += count
            nbytes += replay_words(address, *parsed.columns, count)
            if settings.time_limit_s is not None and time.perf_counter() - begun > settings.time_limit_s:
                complete = False
                break
        seconds = time.perf_counter() - begun
    parsed.totals[parsers.NOT_A_LINE] += file.endless
    parsed.totals[parsers.UNFINISHED] += file.unfinished
    skipped, *dropped = parsed.totals.tolist()
    if not accesses and not skipped:
        looks = f"no line reads as {chosen} ({_LOOKS[chosen]})"
        raise FileError(f"{path}: {looks}; {files.what(file.head)}")
    by_reason = {why: number for why, number in zip(REASONS, dropped, strict=True) if number}
    notes = _notes(chosen, settings.instructions, settings.item_bytes, skipped)
    return _Read(accesses, nbytes, by_reason, notes, complete, seconds)


class ParsedBatches:
    """Accesses of a trace, a batch at a time, where compiled code puts them and takes them from."""

    def __init__(self, chosen: str, settings: Settings) -> None:
        room = settings.buffers.accesses
        self.totals = np.zeros(parsers.TOTALS, np.int64)
        self._addresses, self._words = np.zeros(room + AHEAD, np.int64), np.zeros(room, np.int64)
        self.columns = self._addresses.ctypes.data, self._words.ctypes.data
        self._parse = parsers.PARSERS[chosen]
        self._kinds = parsers.kinds(chosen, settings.instructions == "load")
        self._batch = parsers.Batch(
            kinds=self._kinds.ctypes.data,
            item_bytes=settings.item_bytes,
            addresses=self.columns[0],
            words=self.columns[1],
            room=room,
            totals=self.totals.ctypes.data,
        )
        self._record_bytes = CHAMPSIM_BYTES if chosen == "champsim" else None
        ready(self._parse, 0, 0, self._batch)

    def batches(self, file: TraceFile) -> Iterator[int]:
        """How many accesses are noted, again and again until the end of `file`."""
        for at, end in file.pieces(self._record_bytes):
            while at < end:
                at, count = self._parse(at, end, self._batch)
                yield count

    def longest(self, count: int) -> int:
        """The most bytes that one of `count` noted accesses names."""
        return int(self._words[:count].max(initial=0)) >> BYTES_SHIFT


def _notes(chosen: str, instructions: str, item_bytes: int, skipped: int) -> tuple[str, ...]:
    notes = [f"read as {chosen}"]
    if chosen in ("din", "champsim"):
        notes.append(f"every access taken as {item_bytes} bytes: {chosen} does not say")
    if skipped:
        notes.append(f"{skipped:,} records that are not data accesses (instructions, markers) left out")
    if instructions == "load":
        notes.append("instruction fetches taken as loads of the first level")
    return tuple(notes)
