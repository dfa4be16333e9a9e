"""What would help the accesses of one core: loops in another order or in tiles, other layouts; simulated again."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from rooflab.cachesim.run.times import time_on
from rooflab.cachesim.streams.stream import Stream
from rooflab.remedies import PAGE, WORTH
from rooflab.remedies.caches import nests, pages
from rooflab.types.advice import Advice, Advices, Effort
from rooflab.types.machine import Machine
from rooflab.types.simulation import Cache, LevelCounts, Simulation
from rooflab.units import duration, iec, percent, si

Simulate = Callable[[Stream], Simulation]
PATIENCE_S = 4.0
_TILES = (16, 32, 64, 128)
_MORE = 1.5  # times the bytes that are there: from then on something is moved again
_USED = 0.75  # share of each line that is used, below which it is worth a word
_SETS = 8  # lines: rows that are a multiple of so many may meet in few sets


class Case(NamedTuple):
    """What rules look at: a stream, what came of it, and the caches that it ran on."""

    simulation: Simulation
    stream: Stream

    @property
    def first(self) -> LevelCounts:
        """The nearest level."""
        return self.simulation.levels[0]

    @property
    def line_bytes(self) -> int:
        """Of the nearest level: what one of its misses reads."""
        return self.first.cache.unit_bytes

    @property
    def accessed_bytes(self) -> int:
        """Bytes that its accesses name."""
        return self.stream.accessed_bytes


class Change(NamedTuple):
    """One change: the stream with it, and what it says."""

    rule: str
    text: str
    evidence: tuple[str, ...]
    stream: Stream
    effort: Effort = "line"
    code: str = ""


class Unasked(NamedTuple):
    """Why a rule cannot say anything."""

    rule: str
    reason: str


Found = Iterator[Change | Unasked]


def interchange(case: Case) -> Found:
    """Loops in another order, where the innermost one steps over lines."""
    for order, changed in nests.exchanged(case.stream, case.line_bytes)[:3]:
        yield Change(
            rule="interchange",
            text=f"Exchange the loops, so that the innermost one goes along rows: {order}",
            evidence=_use(case.first, case.accessed_bytes),
            stream=changed,
            effort="rewrite",
        )


def tile(case: Case) -> Found:
    """Loops in tiles, where levels read the same bytes more than once."""
    again = _read_again(case)
    if not again:
        return
    for size in _TILES:
        changed = nests.tiled(case.stream, size)
        if changed is not None:
            yield Change(
                rule="tile",
                text=f"Cut the loops into tiles of {size}, so that what is used again is still in a cache",
                evidence=(*again, "counted are bytes: that short loops take their time to enter is not"),
                stream=changed,
                effort="rewrite",
            )


def pad_rows(case: Case) -> Found:
    """Rows a line longer, and arrays begun at other places, where lines meet in few sets of a cache."""
    line = case.first.cache.line_bytes
    shapes = nests.shapes(case.stream)
    rows = {one.name: one.row for one in shapes if one.row is not None and one.row % (_SETS * line) == 0}
    if rows:
        names = ", ".join(rows)
        name, row = next(iter(rows.items()))
        yield Change(
            rule="pad-rows",
            text=f"Make the rows of {names} one line of {line} bytes longer than they need be",
            evidence=(f"a row of {name} is {iec(row or 0)}, a multiple of what the sets repeat after",),
            stream=nests.laid_out(case.stream, wider=dict.fromkeys(rows, line)),
            code=f"room = np.zeros((rows, columns + {line} // {name}.itemsize), {name}.dtype)\n"
            f"{name} = room[:, :columns]",
        )
    if len(shapes) > 1:
        shifts = {one.name: 2 * number * line for number, one in enumerate(shapes) if number}
        yield Change(
            rule="pad-rows",
            text=f"Begin the arrays {2 * line} bytes further apart than whole pages",
            evidence=("arrays that begin on pages have their first lines in the same set of every cache",),
            stream=nests.laid_out(case.stream, shifts=shifts),
            code=f"room = np.empty(size + {2 * line}, np.uint8)[{2 * line} * number:]   # number of the array",
        )


def by_columns(case: Case) -> Found:
    """Columns of an array side by side, where its misses are of a loop that goes down them."""
    for shape in nests.shapes(case.stream):
        if shape.row is None or not _misses_much(case, shape.name):
            continue
        changed = nests.by_columns(case.stream, shape)
        if changed is not None:
            yield Change(
                rule="by-columns",
                text=f"Store {shape.name} by columns, as the innermost loop goes through it",
                evidence=(f"steps of {iec(shape.row)} through {shape.name}: a line for each item",),
                stream=changed,
                effort="rewrite",
                code=f"{shape.name} = np.asfortranarray({shape.name})   # once, where it is made",
            )


def side_by_side(case: Case) -> Found:
    """Items that are used next to each other, where others lie between that are not."""
    for shape in nests.shapes(case.stream):
        changed = nests.side_by_side(case.stream, shape)
        if changed is not None:
            size = max(each.nbytes for each in shape.accesses)
            yield Change(
                rule="structure-of-arrays",
                text=f"Store what is used of {shape.name} side by side (structure of arrays, or a packed copy)",
                evidence=(
                    f"of every {shape.item} bytes of {shape.name} {size} are used; "
                    f"a line of {case.line_bytes} bytes brings the rest along",
                ),
                stream=changed,
                effort="rewrite",
                code=f"{shape.name} = np.ascontiguousarray({shape.name}[::{shape.item // size}])   # used often",
            )


def past_caches(case: Case) -> Found:
    """Stores past the caches, where what is written is larger than the last one and nothing reads it."""
    last = case.simulation.levels[-1]
    names = [
        shape.name
        for shape in nests.shapes(case.stream)
        if all(each.request for each in shape.accesses)
        and shape.nbytes > last.cache.capacity_bytes
        and nests.along_lines(case.stream, shape)
    ]
    changed = nests.past_caches(case.stream, names) if names else None
    if changed is not None:
        yield Change(
            rule="non-temporal",
            text=f"Write {', '.join(names)} past the caches (non-temporal stores)",
            evidence=(f"each line of {', '.join(names)} is read before it is overwritten, and never read again",),
            stream=changed,
            effort="rewrite",
            code="// C: _mm256_stream_pd(&a[i], v);   or icx -qopt-streaming-stores=always",
        )


def _misses_much(case: Case, array: str) -> bool:
    """Whether a quarter of the nearest level's misses are of that array, and over a fifth of its accesses miss."""
    own = next((each for each in case.first.arrays if each.name == array), None)
    return own is not None and 4 * own.misses >= case.first.misses and own.misses > own.hits / 4


def _use(level: LevelCounts, accessed_bytes: int) -> tuple[str, ...]:
    """How much of what the nearest level reads is used."""
    read = level.misses * level.cache.unit_bytes
    if not read or accessed_bytes >= _USED * read:
        return (f"{level.misses:,} of {level.requests:,} requests miss {level.name}",)
    return (
        f"of each line that {level.name} misses {percent(accessed_bytes / read)} is used before it is displaced",
    )


def _read_again(case: Case) -> tuple[str, ...]:
    """Levels that read more than the arrays hold."""
    held = case.stream.footprint_bytes
    return tuple(
        f"{level.name} reads {si(level.read_bytes, 'B')} for arrays of {si(held, 'B')}"
        for level in case.simulation.levels
        if level.read_bytes > _MORE * held
    )


class Rule(NamedTuple):
    """A rule: its name (`Advice.rule`), the regime that it is a remedy for, what asks."""

    name: str
    regime: str
    ask: Callable[[Case], Found]
    price: bool = False


RULES: tuple[Rule, ...] = (
    Rule("interchange", "lines hardly used", interchange),
    Rule("structure-of-arrays", "lines hardly used", side_by_side),
    Rule("by-columns", "lines hardly used", by_columns),
    Rule("pad-rows", "conflict misses", pad_rows),
    Rule("non-temporal", "memory traffic", past_caches),
    Rule("tile", "capacity misses", tile),
)
# Changes that mend the same: of these the best is advice.
_SAME_CAUSE = ("interchange", "tile", "pad-rows", "by-columns", "structure-of-arrays")


def advise(
    simulation: Simulation,
    stream: Stream,
    simulate: Simulate,
    machine: Machine | None,
    caches: tuple[Cache, ...] = (),
    patience_s: float = PATIENCE_S,
) -> Advices:
    """What would help `simulation`.

    Args:
        simulation: of `stream`.
        stream: what was simulated.
        simulate: simulates other streams on the same caches.
        machine: whose bandwidths make times of the counts; without one there are bytes alone.
        caches: the same, for translations of addresses.
        patience_s: after so many seconds no further change is tried.
    """
    if not simulation.complete:
        return Advices(unasked=("all: it was stopped early, so that no changed one can be held against it",))
    until = clock.perf_counter() + patience_s
    case = Case(simulation, stream)
    best: dict[str, Advice] = {}
    unasked: list[str] = []
    if stream.program is None:
        unasked.append("interchange, tile, layouts: its addresses follow from data, not from loops")
    for rule in RULES if stream.program is not None else ():
        for change in rule.ask(case):
            if isinstance(change, Unasked):
                unasked.append(f"{change.rule}: {change.reason}")
                continue
            if clock.perf_counter() + (simulation.seconds or 0.0) > until:
                unasked.append(f"{change.rule}: the time for simulating changes is over")
                break
            after = simulate(change.stream)
            advice = _advice(change, simulation, after if machine is None else time_on(after, machine))
            held = best.get(rule.name)
            if advice is not None and (held is None or _saves(advice) > _saves(held)):
                best[rule.name] = advice
    found = _apart(sorted(best.values(), key=lambda one: -_saves(one)))
    far = pages.advise(simulation, stream, machine, caches)
    if isinstance(far, Advice):
        found = sorted([*found, far], key=lambda one: -_saves(one))
    elif far:
        unasked.append(far)
    return Advices(each=tuple(found), unasked=tuple(dict.fromkeys(unasked)))


def _saves(one: Advice) -> float:
    """What ranks: the share of the time, else of the bytes."""
    if one.gain_share is not None:
        return one.gain_share
    return (one.saved_bytes or 0.0) / one.before_bytes if one.before_bytes else 0.0


def _apart(ranked: list[Advice]) -> list[Advice]:
    """`ranked` without those that mend what a better one mends, which says them as alternatives."""
    same = [one for one in ranked if one.rule in _SAME_CAUSE]
    others = tuple(f"or: {one.change}: {_left(one)}" for one in same[1:])
    return [
        msgspec.structs.replace(one, evidence=(*one.evidence, *others)) if one in same else one
        for one in ranked
        if one not in same[1:]
    ]


def _left(one: Advice) -> str:
    """What is left with a change, in the number that ranks it."""
    if one.after_s is not None:
        return duration(one.after_s)
    return f"{si(one.after_bytes or 0.0, 'B')} {one.moved}"


def _advice(change: Change, before: Simulation, after: Simulation) -> Advice | None:
    """`change`, simulated as `after`; None where it saves too little to be worth a word."""
    crossing = [(_crossing(b), _crossing(a)) for b, a in zip(before.levels, after.levels, strict=True)]
    names = [level.name for level in before.levels[1:]] + ["memory"]
    seconds = _seconds(before), _seconds(after)
    if sum(a for _, a in crossing) > (1 - WORTH) * sum(b for b, _ in crossing):
        return None
    times: dict[str, Any] = {}
    now, then = seconds
    if now is not None and then is not None:
        (side, turn), (side_after, turn_after) = now, then
        if side - side_after < WORTH * side:
            return None
        saved = side - side_after, side * (1 - turn_after / turn)
        times = {
            "before_s": side,
            "after_s": side_after,
            "gain_low_s": min(saved),
            "gain_high_s": max(saved),
            "bounds": True,
        }
    elif crossing[-1][1] > crossing[-1][0] * (1 + WORTH):
        return None  # without times more bytes of memory are not weighed against fewer of a cache
    # The level furthest out at which it is seen.
    place = max(n for n, (b, a) in enumerate(crossing) if b and a < (1 - WORTH) * b)
    told = ", ".join(f"{names[n]} {si(b, 'B')} → {si(a, 'B')}" for n, (b, a) in enumerate(crossing))
    return Advice(
        rule=change.rule,
        change=change.text,
        evidence=(*change.evidence, f"simulated again, bytes to and from {told}"),
        before_bytes=crossing[place][0],
        after_bytes=crossing[place][1],
        moved=f"between {before.levels[place].name} and {names[place]}",
        effort=change.effort,
        code=change.code,
        page=PAGE + change.rule,
        **times,
    )


def _crossing(level: LevelCounts) -> int:
    """Bytes between `level` and what is behind it."""
    return level.read_bytes + level.write_bytes


def _seconds(simulation: Simulation) -> tuple[float, float] | None:
    """Seconds of its traffic with levels side by side, and one after the other; None where a rate is not known.

    What the program names itself stands for the nearest level and goes on beside the others.
    """
    if not simulation.times or any(each.time_s is None for each in simulation.times):
        return None
    if len(simulation.times) <= len(simulation.levels):
        return None
    seconds = [each.time_s or 0.0 for each in simulation.times]
    return max(seconds), sum(seconds)
