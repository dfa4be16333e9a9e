"""Running an affine nest in fewer steps than it has: what repeats itself is counted, not run.

When the caches after some steps of the outermost loop hold what they held before, every line moved along by
what the loop moves its array by, then the same will happen again, as long as all sets turn by the
same number: the counts of those steps are multiplied, and the caches moved to where they will be at the end
(warping: Morelli and Reineke, PLDI 2022). Checked line by line, so the counts are exact. Levels that hold all that
the stream touches need not turn (see `roomy_levels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rooflab.cachesim.level.hierarchy import Hierarchy
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.compile import kernel, ready
from rooflab.cachesim.run import roomy_levels
from rooflab.cachesim.run.nest_interpreter import AT_ONCE, PLAIN, SETTLE, run, scratch, table_of
from rooflab.cachesim.run.repeats import Watched, can_repeat
from rooflab.cachesim.sets.set_vectors import EMPTY
from rooflab.cachesim.streams import nests
from rooflab.types.simulation import Cache

_LONGEST_PERIOD = 512  # steps; a longer one repeats too seldom to be worth looking for
_PATIENCE = 1.3  # the next look is this much further than the last: looking costs little in all


def run_program(built: Hierarchy, program: nests.Program, arrays: np.ndarray, exact: bool = False) -> None:
    """Run all of `program` on `built`.

    Args:
        built: the caches.
        program: the loops.
        arrays: a row for each array: first address and the one after its last; sorted, on pages of their own.
        exact: make every single access: no collapse, no warping. The counts are the same.
    """
    first = built.levels[0].unit_bytes
    watched = Watched(built, () if exact or nests.streams(program) else nests.may_repeat(program, first))
    scratch_words = scratch(watched.address)
    for loop in program.loops:
        table = table_of(loop, built.levels[0].unit_bytes, built.queued)
        mode = PLAIN if exact else _mode(built, loop)
        call = (built.address, table.ctypes.data, scratch_words.ctypes.data)
        shifts = None if mode == PLAIN else _shifts(built, loop, arrays)
        if shifts is None:
            run(*call, 0, loop.extent, mode)
        else:
            _warp(built, call, loop.extent, mode, shifts, arrays)
    _count_hits(built, program)


def _count_hits(built: Hierarchy, program: nests.Program) -> None:
    """Write the hits of the first level, which the kernel leaves out: what was asked for and was no miss."""
    rows = built.counts(0)
    requests = np.zeros(len(rows), np.int64)
    for loop in program.loops:
        for reference, request, number in nests.totals(loop):
            requests[reference] += number if request != layout.STREAM else 0
    hits = requests + rows[:, layout.EXTRA] - rows[:, layout.MISSES]
    rows[:, layout.HITS] = np.where(requests == 0, 0, hits)


def prepare(built: Hierarchy, program: nests.Program) -> None:
    """Compile what `run_program` calls for `program` on `built`, or find it on disk."""
    for loop in program.loops:
        table_of(loop, built.levels[0].unit_bytes, built.queued)
    tags = built.tags(0)
    ready(run, 0, 0, 0, 0, 0, 0)
    arrays = np.zeros((1, 2), np.int64)
    ready(_moved_equal, tags, tags, arrays, arrays[0], 0, 0)


def _mode(built: Hierarchy, loop: nests.Loop) -> int:
    """How an innermost loop of `loop` may be run (see `nest_interpreter`)."""
    first, accesses = built.levels[0], nests.accesses(loop)
    streams = any(each.request == layout.STREAM for each in accesses)
    if streams or built.tlbs or first.policy.startswith("qlru") or "stride" in first.prefetch:
        return PLAIN
    invalidates = any(level.inclusion == "inclusive" for level in built.levels)
    kept = first.write_back and first.write_allocate and first.policy == "lru" and not first.prefetch
    if kept and not invalidates and len(accesses) <= first.set_ways:
        return AT_ONCE
    # A tiny cache may not even hold the lines of one iteration in the shadow that classifies misses.
    return SETTLE if len(accesses) <= first.lines else PLAIN


class _Shifts(NamedTuple):
    """What moves in a loop.

    Attributes:
        period: steps after which
        moved: each array has moved by so many bytes, and
        turns: each level that is not roomy has turned by so many sets.
        touched: what the first step touches; None where that is not known.
    """

    period: int
    moved: np.ndarray
    turns: list[int]
    touched: roomy_levels.Touched | None


def _shifts(built: Hierarchy, loop: nests.Loop, arrays: np.ndarray) -> _Shifts | None:
    """The period of `loop`, and what moves in it; None where nothing repeats."""
    if built.units is not None or not all(can_repeat(level) for level in built.levels):
        return None
    if any(each.clip and each.clip[0] == loop.name for each in nests.inner(loop)):
        return None
    strides = np.zeros(len(arrays), np.int64)
    has_stride = np.zeros(len(arrays), bool)
    for access in nests.accesses(loop):
        which = int(np.searchsorted(arrays[:, 0], access.base, side="right")) - 1
        stride = access.strides.get(loop.name, 0)
        if which < 0 or (has_stride[which] and strides[which] != stride):
            return None
        strides[which], has_stride[which] = stride, True
    touched = roomy_levels.touched_by(loop, arrays)
    turning = built.levels[: roomy_levels.first_roomy(built.levels, arrays)] if touched else built.levels
    line = max(level.line_bytes for level in built.levels)
    for period in range(1, min(_LONGEST_PERIOD, loop.extent // 3) + 1):
        moved = strides * period
        turns = [_turn(level, moved[has_stride]) for level in turning]
        if not (moved % line).any() and None not in turns:
            return _Shifts(period, moved, [int(turn) for turn in turns if turn is not None], touched)
    return None


def _turn(level: Cache, moved: np.ndarray) -> int | None:
    """How many sets further all lines lie after arrays moved by `moved`; None where they do not agree."""
    turns = set((moved // level.line_bytes % level.sets).tolist())
    if len(turns) != 1 or (level.index == "xor" and turns != {0}):
        return None
    # A folded index moves with the line number only where nothing moves.
    return None if level.index == "xor" and moved.any() else turns.pop()


class _Level:
    """The tags and the policy's words of one level, as arrays."""

    def __init__(self, built: Hierarchy, number: int, turn: int) -> None:
        cache = built.levels[number]
        self.turn, self.shift = turn, cache.line_bytes.bit_length() - 1
        self.tags = built.tags(number)
        self.meta = built.meta(number)
        self.counts, self.capacity_bytes = built.counts(number), cache.capacity_bytes

    def copy(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.tags.copy(), self.meta.copy(), self.counts.copy()


class _Roomy:
    """The roomy levels of a hierarchy, between two looks."""

    def __init__(self, built: Hierarchy, shifts: _Shifts, arrays: np.ndarray, turning: Sequence[_Level]) -> None:
        numbers = range(len(turning), len(built.levels))
        self.levels = [roomy_levels.RoomyLevel(built, number, arrays) for number in numbers]
        self._shifts, self._turning, self._arrays = shifts, turning, arrays

    def look(self, done: int) -> None:
        """Keep what there is after `done` steps."""
        touched = self._shifts.touched
        if touched is None or not self.levels:
            return
        moved = self._shifts.moved
        bounds = np.where(moved > 0, touched.low, touched.high) + touched.strides * done
        for level in self._turning:
            bounds = roomy_levels.widened(bounds, moved, level.tags, level.shift, self._arrays)
        self._bounds = bounds
        self._before = [(level.entries(), level.counts.copy()) for level in self.levels]

    def repeats(self) -> bool:
        """Whether the levels hold what they held at the look, moved, of all that is still to be asked for."""
        moved = self._shifts.moved
        self._now = [level.entries() for level in self.levels]
        return all(
            level.is_same(was[0], now, self._bounds, moved)
            for level, was, now in zip(self.levels, self._before if self.levels else (), self._now, strict=True)
        )

    def go_on(self, times: int) -> None:
        """Count `times` more periods like the one since the look, and leave the levels as after them."""
        for level, was, now in zip(self.levels, self._before if self.levels else (), self._now, strict=True):
            level.counts[:] += (level.counts - was[1]) * times
            level.go_on(now, self._bounds, self._shifts.moved, times)


def _warp(
    built: Hierarchy,
    call: tuple[Any, ...],
    extent: int,
    mode: int,
    shifts: _Shifts,
    arrays: np.ndarray,
) -> None:
    period, moved, turns = shifts.period, shifts.moved, shifts.turns
    levels = [_Level(built, number, turn) for number, turn in enumerate(turns)]
    roomy = _Roomy(built, shifts, arrays, levels)
    done, look = 0, _first_look(levels, shifts)
    while done < extent:
        if extent - done < 3 * period:
            run(*call, done, extent, mode)
            return
        step = min(look, extent - 2 * period)
        if step > done:
            run(*call, done, step, mode)
            done = step
        before = [level.copy() for level in levels]
        roomy.look(done)
        run(*call, done, done + period, mode)
        done += period
        same = all(_same(was, level, arrays, moved) for was, level in zip(before, levels, strict=True))
        if same and roomy.repeats():
            times = (extent - done) // period
            for was, level in zip(before, levels, strict=True):
                level.counts[:] += (level.counts - was[2]) * times
                _move(level, arrays, moved * times, level.turn * times)
            roomy.go_on(times)
            built.forget_last_lines()
            done += times * period
            look = extent
        else:
            look = max(done, int(done * _PATIENCE))


def _first_look(levels: Sequence[_Level], shifts: _Shifts) -> int:
    """Steps after which what was touched fills the largest level that turns: before that nothing repeats."""
    moving = int(np.abs(shifts.moved).sum())
    capacity = max((level.capacity_bytes for level in levels), default=0)
    if shifts.touched is not None:
        capacity -= shifts.touched.nbytes
    if moving == 0 or capacity <= 0:
        return shifts.period
    return max(shifts.period, capacity * shifts.period // moving)


def _same(was: tuple[np.ndarray, ...], level: _Level, arrays: np.ndarray, moved: np.ndarray) -> bool:
    if was[1].size and not np.array_equal(np.roll(was[1], level.turn), level.meta):
        return False
    return bool(_moved_equal(was[0], level.tags, arrays, moved, level.shift, level.turn))


def _moved_line(entry, arrays, moved, shift):
    address = (entry >> 1) << shift
    for each in range(arrays.shape[0]):
        if arrays[each, 0] <= address < arrays[each, 1]:
            return entry + (moved[each] >> shift) * 2
    return entry


moved_line = kernel(_moved_line)


def _equal_when_moved(was, tags, arrays, moved, shift, turn):
    # Whether each set of `was`, moved, is the set `turn` further of `tags`.
    sets, lanes = was.shape
    for index in range(sets):
        other = (index + turn) % sets
        for way in range(lanes):
            entry = was[index, way]
            wanted = entry if entry == EMPTY else moved_line(entry, arrays, moved, shift)
            if tags[other, way] != wanted:
                return False
    return True


_moved_equal = kernel(_equal_when_moved)


def _move(level: _Level, arrays: np.ndarray, moved: np.ndarray, turn: int) -> None:
    """Put every line of `level` where it will be after all arrays moved by `moved`."""
    turned = np.roll(level.tags, turn % len(level.tags), axis=0)
    address = (turned >> 1) << level.shift
    for (first, end), by in zip(arrays, moved, strict=True):
        inside = (turned != EMPTY) & (address >= first) & (address < end)
        turned[inside] += int(by >> level.shift) * 2
    level.tags[:] = turned
    if level.meta.size:
        level.meta[:] = np.roll(level.meta, turn % len(level.tags))
