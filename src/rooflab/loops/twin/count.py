"""What the runs of a twin counted: one from empty caches, and one more on what that run left in them."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rooflab.loops.read.access_patterns import AccessPattern
from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.source import Source, SourceLines
from rooflab.loops.read.twin_text import LEAST_POWER, Ref, Text
from rooflab.loops.twin import run
from rooflab.types.loop import LineCounts, Trips, Walk
from rooflab.types.simulation import Simulation
from rooflab.types.work import Flop

_KINDS = ("compulsory", "capacity", "conflict")
_TOTALS = ("hits", "misses", "evictions", "writebacks", "read_bytes", "write_bytes", "invalidations", "prefetches")
_MOSTLY = 0.1  # of its runs: a store that misses as seldom comes after a load of its line
_MOST_BEGINNINGS = 0.5  # of the lines that an access misses: more are no beginnings of rows
_NEARLY_ALL = 0.9  # of a walk's steps, that are multiples of the same power of two; of the lines that it spans
_PAGE_BYTES = 4096  # within which a prefetcher follows
_LINES_TO_FORESEE = 2  # misses of consecutive lines before a prefetcher runs ahead of them, on Zen 4


class Counted(NamedTuple):
    """What the runs of a twin counted.

    Attributes:
        twin: that ran; `passes` of its blocks.
        simulation: from empty caches, what is left dirty written back.
        warm: of a second run; None where the first was cut short, or took too long to be run again.
        outcome: of the first run.
        held_bytes: of the memory that the run worked in: its arguments, and what it made.
        side_by_side: places of an array that the loop which misses most goes through at once; 0: not known.
    """

    twin: run.Twin
    simulation: Simulation
    warm: Simulation | None
    outcome: run.Outcome
    held_bytes: int = 0
    side_by_side: int = 0

    @property
    def footprint_bytes(self) -> int:
        """Bytes of the lines that the first run touched, at most: it missed each, and they lie in its memory."""
        last = self.simulation.levels[-1]
        return min(last.misses * last.cache.line_bytes, self.held_bytes)

    @property
    def passes(self) -> np.ndarray:
        """How often each block ran."""
        return self.outcome.passes


def difference(both: Simulation, first: Simulation) -> Simulation:
    """The counts of a second run alone, of the counts after `both` and after the `first`."""
    levels = [
        msgspec.structs.replace(
            after,
            **_less(after, before),
            references=tuple(
                msgspec.structs.replace(a, **_less(a, b))
                for a, b in zip(after.references, before.references, strict=True)
            ),
        )
        for after, before in zip(both.levels, first.levels, strict=True)
    ]
    return msgspec.structs.replace(both, levels=tuple(levels))


def _less(after: Any, before: Any) -> dict[str, int]:
    fields = _TOTALS if after.compulsory is None else (*_TOTALS, *_KINDS)
    return {name: getattr(after, name) - getattr(before, name) for name in fields}


def written_back(first: Simulation, left: tuple[int, ...]) -> Simulation:
    """`first` with the bytes that are `left` dirty in each level written back."""
    levels = [
        msgspec.structs.replace(
            level,
            write_bytes=level.write_bytes + nbytes,
            writebacks=level.writebacks + nbytes // level.cache.line_bytes,
        )
        for level, nbytes in zip(first.levels, left, strict=True)
    ]
    assumption = "lines that are dirty when the loop ends are written back then, and counted"
    return msgspec.structs.replace(first, levels=tuple(levels), assumptions=(*first.assumptions, assumption))


def flop(counted: Counted) -> tuple[Flop, ...]:
    """All FLOP by engine and number format, most first."""
    totals: Counter[tuple[str, str]] = Counter()
    for held in run.by_line(counted.twin.text, counted.passes).values():
        totals.update(held)
    return tuple(Flop(engine, dtype, n) for (engine, dtype), n in totals.most_common() if n)  # type: ignore[arg-type]


def stored_bytes(counted: Counted) -> int:
    """Bytes of all stores of the source."""
    return sum(int(counted.passes[ref.block]) * ref.itemsize for ref in counted.twin.text.refs if ref.write)


def lines(counted: Counted, source: SourceLines) -> tuple[LineCounts, ...]:
    """The counts of each line that computes or accesses anything, in order."""
    by_line = run.by_line(counted.twin.text, counted.passes)
    refs = counted.twin.text.refs
    numbers = sorted({*by_line, *(ref.line for ref in refs)})
    classified = counted.simulation.levels[0].compulsory is not None
    return tuple(
        LineCounts(
            line=number,
            text=source.lines.get(number, "").strip(),
            flop=sum(by_line.get(number, {}).values()),
            accesses=sum(int(counted.passes[ref.block]) for ref in refs if ref.line == number),
            misses=_by_kind(counted, number, "misses"),
            compulsory=_by_kind(counted, number, "compulsory") if classified else None,
            capacity=_by_kind(counted, number, "capacity") if classified else None,
            conflict=_by_kind(counted, number, "conflict") if classified else None,
            decided=_by_kind(counted, number, "misses", decided=True),
            gathered=irregular(counted, "gather", number),
            chased=irregular(counted, "chase", number),
            scattered=irregular(counted, "gather", number, stores=True),
            begun=_begun(counted, number),
        )
        for number in numbers
    )


def _by_kind(counted: Counted, line: int, kind: str, *, decided: bool = False) -> dict[str, int]:
    """Misses of a line ("misses"), or one kind of them, by cache level; `decided`: only of such accesses."""
    refs = [ref for ref in counted.twin.text.refs if ref.line == line]
    if decided:
        # the first step of a chase, by an index, is one of it: none begins before the end of the last is known
        chased = {ref.array for ref in refs if ref.decided}
        refs = [ref for ref in refs if ref.decided or (ref.array in chased and ref.pattern == "gather")]
    numbers = [ref.number for ref in refs]
    return {
        level.name: sum(getattr(level.references[number], kind) for number in numbers)
        for level in counted.simulation.levels
    }


def _begun(counted: Counted, line: int) -> float:
    """Of the lines that data pick in a line of the source and that miss, the share that lay beside none before."""
    missed = alone = 0.0
    for ref in counted.twin.text.refs:
        if ref.line == line and ref.pattern == "gather":
            mine = counted.simulation.levels[0].references[ref.number].misses
            missed += mine
            alone += min(mine, ref.alone)
    return alone / missed if missed else 1.0


def irregular(
    counted: Counted, pattern: AccessPattern, line: int | None = None, *, stores: bool = False
) -> dict[str, int]:
    """Misses of a warm run (else of the first) by the accesses of that pattern, by level.

    Args:
        counted: by the twin.
        pattern: of the accesses.
        line: of the source, of those of which they are; of all by default.
        stores: those of stores alone.
    """
    text = counted.twin.text
    whole = _whole(counted) if pattern == "stride" else set()
    chosen = [
        ref
        for ref in text.refs
        if ref.pattern == pattern
        and line in (None, ref.line)
        and (ref.write or not stores)
        and _place(ref, text) not in whole
    ]
    return _by_level(counted, {ref.number: 1.0 for ref in chosen})


def strided(counted: Counted, source: Source) -> dict[str, int]:
    """Misses of accesses that step over lines, and of the starts of rows that end before they are foreseen.

    A row of a tile goes on elsewhere after a few lines; the first ones of each are asked for too late.
    """
    text = counted.twin.text
    within, whole = _within_tiles(source), _whole(counted)
    shares = {ref.number: 1.0 for ref in text.refs if ref.pattern == "stride" and _place(ref, text) not in whole}
    for loop in text.innermost:
        if loop.line not in within:
            continue
        around = 0 if loop.parent is None else text.loops[loop.parent].block
        trips = int(counted.passes[loop.block]) / max(1, int(counted.passes[around]))
        for ref in text.refs:
            if ref.pattern == "stream" and text.owners[ref.block] == loop.number:
                lines = trips * ref.itemsize / counted.simulation.levels[0].cache.line_bytes
                shares[ref.number] = min(1.0, _LINES_TO_FORESEE / max(lines, 1.0))
    return _by_level(counted, shares)


def jumps(counted: Counted) -> dict[str, int]:
    """Misses of a warm run (else of the first), by level, of accesses in order that go on elsewhere.

    Where a row ends and the next does not follow it, nobody has foreseen its first lines. Those of one loop that
    begin a row do so at the same time: of them those that miss most count.
    """
    levels, text = (counted.warm or counted.simulation).levels, counted.twin.text
    most: dict[tuple[int | None, str], float] = {}
    missed_by: Counter[tuple[str, int | None]] = Counter()
    for ref in text.refs:
        missed_by[_place(ref, text)] += levels[0].references[ref.number].misses
    for ref in text.refs:
        lines = int(counted.passes[ref.block]) * ref.itemsize / levels[0].cache.line_bytes
        if ref.pattern != "stream" or not ref.far or not lines:
            continue
        if ref.far > _MOST_BEGINNINGS * levels[0].references[ref.number].misses:
            continue  # among a few rows in turn, each of which goes on
        place = _place(ref, text)
        others = missed_by[place] - levels[0].references[ref.number].misses
        between = ref.step_bytes // levels[0].cache.line_bytes - 1  # whole lines
        if ref.step_bytes < _PAGE_BYTES and others >= _NEARLY_ALL * ref.far * between:
            continue  # what it passes over the others go through: fields of records, whose lines they take in turn
        for level in levels:
            beginning = text.owners[ref.block], level.name
            missed = ref.far * min(1.0, level.references[ref.number].misses / lines)
            most[beginning] = max(most.get(beginning, 0.0), missed)
    return {
        level.name: round(sum(count for (_, name), count in most.items() if name == level.name))
        for level in levels
    }


def _whole(counted: Counted) -> set[tuple[str, int | None]]:
    """Arrays, with the loop, of which the accesses that step over lines take in all lines between them.

    So do those to the fields of records: each steps over lines, and together they go through memory in order.
    """
    text, references = counted.twin.text, (counted.warm or counted.simulation).levels[0].references
    missed: Counter[tuple[str, int | None]] = Counter()
    spanned: dict[tuple[str, int | None], int] = {}
    for ref in text.refs:
        place, misses = _place(ref, text), references[ref.number].misses
        missed[place] += misses
        if ref.pattern == "stride":
            spanned[place] = max(spanned.get(place, 0), misses * ref.step_bytes)
    nbytes = counted.simulation.levels[0].cache.line_bytes
    return {place for place, span in spanned.items() if span and missed[place] * nbytes >= _NEARLY_ALL * span}


def _place(ref: Ref, text: Text) -> tuple[str, int | None]:
    """The array of an access, and its innermost loop."""
    return ref.array, text.owners[ref.block]


def side_by_side(text: Text, simulation: Simulation, last: Sequence[int], near_bytes: int) -> int:
    """Places of an array that the loop with most misses of the last cache goes through; 0 where none misses it.

    Of several arrays, that with the most: each alone is a stream, however many there are.

    Args:
        text: the accesses, and which loop each lies in.
        simulation: with their misses.
        last: the address that each access came to last; 0 where it made none.
        near_bytes: apart, within which two are one place.
    """
    far: Counter[int] = Counter()
    for ref in text.refs:
        owner = text.owners[ref.block]
        if owner is not None:
            far[owner] += simulation.levels[-1].references[ref.number].misses
    loop, most = max(far.items(), key=lambda each: each[1], default=(0, 0))
    if not most:
        return 0
    places: dict[str, list[int]] = defaultdict(list)
    for ref in text.refs:
        if text.owners[ref.block] == loop and last[ref.number]:
            places[ref.array].append(last[ref.number])
    return max((_apart(sorted(each), near_bytes) for each in places.values()), default=0)


def _apart(places: Sequence[int], near_bytes: int) -> int:
    """How many of ascending addresses are further from the one before."""
    return sum(after - before > near_bytes for before, after in zip([-near_bytes, *places], places, strict=False))


def walks(counted: Counted) -> tuple[Walk, ...]:
    """The accesses that step over lines and miss in the first level of a warm run (else of the first)."""
    first, text = (counted.warm or counted.simulation).levels[0], counted.twin.text
    stepping = [ref for ref in text.refs if ref.pattern == "stride" and ref.step_bytes]
    missed = {ref.number: first.references[ref.number].misses for ref in stepping}
    # a store behind a load of the same place finds its line there
    stored = {
        (ref.text, text.owners[ref.block])
        for ref in stepping
        if ref.write and missed[ref.number] < _MOSTLY * int(counted.passes[ref.block])
    }
    return tuple(
        Walk(
            line=ref.line,
            text=ref.text,
            loop=text.owners[ref.block],
            stride_bytes=stride,
            misses=round(share * missed[ref.number]),
            kind="stored" if ref.write else "changed" if (ref.text, text.owners[ref.block]) in stored else "read",
            stage=stage,
        )
        for ref in stepping
        for stage, stride, share in _stages(ref)
        if round(share * missed[ref.number])
    )


def _stages(ref: Ref) -> Iterator[tuple[int, int, float]]:
    """(number, stride in bytes, share) of the stages of a walk whose steps change in a run, as an FFT's do.

    By the power of two that steps are multiples of, which decides how many sets of a cache they go through; one
    alone where nearly all are multiples of the same.
    """
    total = sum(ref.multiples)
    if not total or max(ref.multiples) >= _NEARLY_ALL * total:
        yield 0, ref.step_bytes, 1.0
        return
    for number, count in enumerate(ref.multiples):
        if count:
            yield number + 1, LEAST_POWER << number, count / total


def _within_tiles(source: Source) -> set[int]:
    """Lines of the loops that begin where a loop of larger steps around them stands: for i in range(ii, …)."""
    inside = set()
    for tile in ast.walk(source.tree):
        if isinstance(tile, ast.For) and isinstance(tile.iter, ast.Call) and len(tile.iter.args) == 3:
            start = ast.unparse(tile.target)
            inside |= {
                each.lineno
                for each in ast.walk(tile)
                if isinstance(each, ast.For)
                and isinstance(each.iter, ast.Call)
                and len(each.iter.args) > 1
                and ast.unparse(each.iter.args[0]) == start
            }
    return inside


def _by_level(counted: Counted, shares: Mapping[int, float]) -> dict[str, int]:
    levels = (counted.warm or counted.simulation).levels
    return {
        level.name: round(sum(share * level.references[number].misses for number, share in shares.items()))
        for level in levels
    }


def scattered_bytes(counted: Counted, arguments: Arguments) -> int:
    """Bytes of the arrays whose elements are picked by data: what random accesses lie within."""
    names = {ref.array for ref in counted.twin.text.refs if ref.pattern in ("gather", "chase")}
    return sum(each.nbytes for each in arguments.placed if each.name in names)


def loops(counted: Counted) -> tuple[Trips, ...]:
    """The loops of the source and their trips."""
    loops_of_text = counted.twin.text.loops

    def depth(number: int | None) -> int:
        return 0 if number is None else 1 + depth(loops_of_text[number].parent)

    return tuple(
        Trips(
            line=each.line,
            variable=each.variable,
            trips=int(counted.passes[each.block]),
            depth=depth(each.parent),
        )
        for each in loops_of_text
    )
