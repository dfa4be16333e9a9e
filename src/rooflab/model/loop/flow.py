"""The passes of a loop run on a core: each operation begins when its operands, a unit and the core's room let it.

Operations enter in order, so many a cycle, as far as the window, the queues of loads and stores, the registers
and the scheduler have room; they begin out of order; they leave in order. Each is looked at once, in order: it
takes the earliest free cycle of its unit, so that the oldest goes first, as schedulers prefer it. Such simulations
by tables of latencies and units of machine code are llvm-mca and uiCA (Abel and Reineke, ICS 2022).
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rooflab.model.loop import in_flight, known_flows
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import CoreLoop, FlowStep
from rooflab.types.loop_code import TURNS

_MOST = 9000  # operations that are run
_FAR_PASSES = 200  # that differ in what is served by which level
_WINDOWS = 4.0  # windows of instructions until what a pass takes is steady
_LEAST_PASSES = 12
_ROUNDS = 6
_PIPES = 100  # more than there are units: pipes of a unit are numbered in steps of it
_FULL = 1.05  # of a cycle of a pipe: times are measured
_NEARLY = 0.15  # of a pipe, by which a measured number of them is less
_STRETCH = 40.0  # cycles, of a unit that takes several for each operation
_CROSSES = " split"  # the end of a kind's name: across two lines
_NOT_HANDED = 1.5  # times what a store hands on within a line takes: so much longer, it does not hand on
_APART = 0.618  # of a turn: multiples of it are spread evenly
_CALLED_SHARE = 0.5  # of the instructions that could enter, those of a function that is called
_CALLED_RESULTS = (
    0.55  # of those of a mathematical one, that leave a number in a vector register: glibc's pow, exp
)


class Flow(NamedTuple):
    """Cycles of one pass among many, and of one entry that nothing goes on beside."""

    each: float
    alone: float


class _Room(NamedTuple):
    """What a core holds at most: instructions, loads, stores, vector registers' values, waiting arithmetic.

    `queue` is arithmetic that waits, in order, to be looked at by the scheduler; `integers` and `multiplies` those
    on whole numbers that wait in schedulers of their own (0: in the same one); `buffers` misses under way.
    """

    window: float
    scheduler: int
    queue: int
    integers: int
    multiplies: int
    loads: int
    stores: int
    registers: int
    missed_branch: float = 0.0
    buffers: int = 0


class _Timed(NamedTuple):
    """A step with what it takes: cycles to its result, unit (0: none), cycles of it; what it holds, a bit each.

    `late`: what a load finds in a store it is not handed: it waits until that is written to the cache. `missed`:
    branches in it that are foretold wrongly. `turn`: kinds that are given the pipes of a unit in turn; those that
    fewer of them do, in one of their own. `moved`: cycles of a unit for whole numbers by which its operand goes.
    `far`: of passes in turn, how much longer than in L1 each of its numbers takes; `first`: of the first of an
    entry; `turns`: the passes that run it, a bit each, 0 for all; `entries`: of the scheduler; `finds`: share of
    passes in which it is handed anything.
    """

    latency: float
    unit: int
    busy: float
    holds: int
    after: tuple[tuple[int, int], ...]
    handed: tuple[int, int] | None
    forward: float
    late: bool
    missed: float = 0.0
    turn: int = 0
    moved: float = 0.0
    far: tuple[tuple[float, ...], ...] = ()
    first: tuple[tuple[float, ...], ...] = ()
    turns: int = 0
    entries: int = 1
    finds: float = 1.0

    def runs_in(self, number: int) -> bool:
        """Whether the pass of that number runs it."""
        return not self.turns or bool(self.turns >> number % TURNS & 1)


class Far(NamedTuple):
    """Accesses of a loop at places that data decide, beyond L1.

    Attributes:
        steps: the places in the flow of what makes them.
        served: (share of them, cycles beyond those of L1), by what serves them.
        buffers: misses under way, at most.
        first: `served` of the first pass of each entry, where a row begins; as of others where empty.
    """

    steps: tuple[int, ...]
    served: tuple[tuple[float, float], ...]
    buffers: int
    first: tuple[tuple[float, float], ...] = ()


_LOADS, _STORES, _REGISTERS, _WAITS, _WHOLE, _MULTIPLIED = 1, 2, 4, 8, 16, 32


def run(
    loop: CoreLoop,
    timing: CoreTiming,
    latency: Callable[[str], float],
    each: Callable[[str], float],
    between: float,
    missed: Callable[[str], float] = lambda _: 0.0,
    far: Far | None = None,
) -> Flow | None:
    """Cycles of a pass of `loop`; None where its operations are not known one by one.

    Args:
        loop: it.
        timing: of the core.
        latency: cycles of a kind from operands to result.
        each: cycles of a kind in its unit.
        between: instructions between one entry and the next, of what is around the loop.
        missed: branches that a call of a kind foretells wrongly, in the mean, beyond what `each` says.
        far: what of it is served beyond L1; nothing by default.
    """
    if not loop.flow or not loop.passes:
        return None
    every = sum(step.count * step.share for step in loop.flow)
    slots = (loop.operations.get("slot") or every * loop.passes) / loop.passes
    restarts = max(1, loop.restarts or loop.entries)
    trips = loop.passes / restarts
    if restarts < loop.entries:
        # entered anew while the chain goes on: what is around runs among its passes
        slots, between = slots + between * loop.entries / loop.passes, 0.0
    made = _made(loop)
    steps = tuple(_timed(step, latency, each, missed) for step in loop.flow)
    steps = tuple(
        step._replace(busy=step.busy * made[each.kind]) if each.kind in made else step
        for step, each in zip(steps, loop.flow, strict=True)
    )
    if far is not None:
        steps = _with_far(steps, loop.flow, far)
    room = _Room(
        timing.window,
        round(timing.scheduler),
        round(timing.queue),
        round(timing.integers or 0),
        round(timing.multiplies or 0),
        round(timing.loads or 1e9),
        round(timing.stores or 1e9),
        round(timing.registers or 1e9),
        timing.missed_branch,
        0 if far is None else far.buffers,
    )
    return _run(
        steps,
        room,
        slots / sum(step.share for step in loop.flow),
        timing.throughput.get("slot", 1 / 6),
        round(trips, 3),
        round(between),
    )


def _made(loop: CoreLoop) -> dict[str, float]:
    """Of work on whole numbers, by kind: the share that the machine code has; addresses take in the rest."""
    if "slot" not in loop.operations:
        return {}
    counts: dict[str, float] = {}
    for step in loop.flow:
        if step.kind in ("integer", "integer shift"):
            counts[step.kind] = counts.get(step.kind, 0.0) + step.count
    return {
        kind: min(1.0, loop.operations.get(kind, 0.0) / loop.passes / count)
        for kind, count in counts.items()
        if count
    }


def _with_far(steps: tuple[_Timed, ...], flow: Sequence[FlowStep], far: Far) -> tuple[_Timed, ...]:
    """`steps` with what those of `far` take longer in each pass: as many numbers as a step loads."""
    counts = {at: max(1, round(flow[at].count)) for at in far.steps}

    def longer(served: tuple[tuple[float, float], ...]) -> dict[int, tuple[tuple[float, ...], ...]]:
        drawn = iter(in_flight.drawn(served, _FAR_PASSES * sum(counts.values())))
        found: dict[int, list[tuple[float, ...]]] = {at: [] for at in counts}
        for _ in range(_FAR_PASSES):
            for at, count in counts.items():
                found[at].append(tuple(next(drawn) for _ in range(count)))
        return {at: tuple(each) for at, each in found.items()}

    far_of = longer(far.served)
    first_of = longer(far.first) if far.first else {}
    return tuple(
        step._replace(far=far_of[at], first=first_of.get(at, ())) if at in far_of else step
        for at, step in enumerate(steps)
    )


def _timed(
    step: FlowStep,
    latency: Callable[[str], float],
    each: Callable[[str], float],
    missed: Callable[[str], float] = lambda _: 0.0,
) -> _Timed:
    kind = step.kind
    plain = kind.removesuffix(" vector").removesuffix(" wide")
    unit = _UNITS.get(plain, 0)
    if plain.startswith(("divide", "sqrt")):
        unit = _DIVISION
    elif plain == "integer divide":
        unit = _WHOLE_DIVISION
    elif kind.startswith("call "):
        unit = _CALLED
    arithmetic = unit in (_ADD, _MULTIPLY, _OTHER, _LANES, _DIVISION)
    maths = unit == _CALLED and kind.endswith((" fp64", " fp32"))
    holds = _LOADS if plain in ("load", "load integer") else _STORES if plain in ("store", "scatter") else 0
    if arithmetic or maths or plain == "load":
        holds |= _REGISTERS
    if arithmetic:
        holds |= _WAITS
    elif plain in ("integer", "integer shift", "integer divide", "branch"):
        holds |= _WHOLE
    elif plain in ("integer multiply", "integer divide constant", "integer remainder constant"):
        holds |= _WHOLE | _MULTIPLIED
    wide = " wide" if kind.endswith(" wide") else ""
    crossed = step.crossed * each(f"{plain}{_CROSSES}{wide}") if step.crossed else 0.0
    return _Timed(
        0.0 if plain in ("store", "scatter", "branch") else latency(kind),
        unit,
        each(kind) * step.count + crossed if unit else 0.0,
        holds,
        step.after,
        step.handed,
        latency(step.how) if step.how else 0.0,
        step.how.endswith(_CROSSES) and latency(step.how) > _NOT_HANDED * latency(step.how.removesuffix(_CROSSES)),
        step.count * missed(kind) if unit == _CALLED else 0.0,
        _SHIFT if plain == "integer shift" else unit,
        each("integer") * step.count if plain == "convert from whole" else 0.0,
        turns=step.turns,
        entries=2 if kind in _TWO else 1,
        finds=step.finds,
    )


_ADD, _MULTIPLY, _OTHER, _DIVISION, _LOAD, _STORE, _WHOLE_DIVISION, _CALLED, _LOCKED = range(1, 10)
_ALU, _SHIFT, _LANES = range(10, 13)
# Between vector registers and whole numbers, or to flags: two operations, which wait in the scheduler one each.
_TWO = ("fp compare apart", "convert to whole", "convert from whole")
_UNITS = {
    "fp add": _ADD, "fp compare": _ADD, "fp multiply": _MULTIPLY, "fp multiply-add": _MULTIPLY, "convert": _ADD,
    "convert from whole": _ADD, "convert to whole": _ADD, "fp compare apart": _ADD,
    "shuffle": _OTHER, "vector integer": _LANES, "vector shift": _OTHER,
    "vector multiply": _OTHER, "load": _LOAD, "load integer": _LOAD, "gather": _LOAD,
    "store": _STORE, "scatter": _STORE, "locked": _LOCKED, "integer": _ALU, "integer shift": _ALU,
}  # fmt: skip


@functools.lru_cache(256)
def _run(
    steps: tuple[_Timed, ...], room: _Room, slots: float, slot_cycles: float, trips: float, between: int
) -> Flow:
    """As `_simulated`; found where it was simulated before."""
    asked = steps, room, slots, slot_cycles, trips, between
    return Flow(*known_flows.known(asked, lambda: _simulated(*asked)))


def _simulated(
    steps: tuple[_Timed, ...], room: _Room, slots: float, slot_cycles: float, trips: float, between: int
) -> Flow:
    """The same of timed steps: `slots` instructions stand for each, `trips` passes are an entry."""
    many = sum(step.turns.bit_count() / TURNS if step.turns else 1.0 for step in steps)
    differ = any(step.turns for step in steps)
    enough = max(_LEAST_PASSES, round(_WINDOWS * room.window / (slots * many)) + 1)
    if room.buffers:
        enough = max(enough, 2 * _FAR_PASSES)
    whole = max(1, round(trips))
    # some rounds of as many entries as are under way at once
    passes = max(_ROUNDS * (whole + round(room.window / (slots * many))), 3 * whole)
    if differ:
        # all of their turns, once those before have filled the core
        enough = TURNS * (1 + math.ceil(enough / TURNS))
        passes = max(passes, math.ceil(2 * TURNS / whole) * whole)
    if passes * many <= _MOST:
        ends = _retired(steps, room, slots, slot_cycles, whole, between, passes)
        # from the end of an entry to that of another, so that each is whole
        first = max(1, passes // whole // _ROUNDS) * whole - 1
        last = (passes // whole) * whole - 1
        return Flow((ends[last] - ends[first]) / (last - first), ends[whole - 1])
    # of longer ones the last passes: how much sooner an entry ends for beginning beside the one before
    part = max(2, min(whole, enough, max(_MOST // round(3 * many), 2 * TURNS if differ else 0)))
    ends = _retired(steps, room, slots, slot_cycles, part, between, 3 * part)
    half = part - part // 2 // TURNS * TURNS if differ and part >= 2 * TURNS else part // 2
    steady = (ends[part - 1] - ends[half - 1]) / (part - half)
    sooner = max(0.0, steady * part - (ends[3 * part - 1] - ends[2 * part - 1]))
    return Flow(steady - min(sooner / trips, steady), steady * trips)


def _retired(
    steps: Sequence[_Timed], room: _Room, slots: float, slot_cycles: float, whole: int, between: int, passes: int
) -> list[float]:
    """When each pass has left the core."""
    many = len(steps)
    behind = max((back for step in steps for _, back in step.after), default=0)
    behind = max(behind, *(step.handed[1] for step in steps if step.handed), 1) if steps else 1
    done: list[list[float]] = []  # results of the passes, the newest last
    wrote: list[list[float]] = []  # of the same passes: when a store begins to be written to the cache, in order
    to_write = 0.0
    left: list[tuple[float, float]] = []  # place of each instruction among all, and when it left
    oldest = 0
    entered = retired = 0.0
    place = 0.0
    used: dict[tuple[int, int], float] = {}
    turns: dict[int, int] = {}  # of each unit: which of its pipes is next
    held = {_LOADS: [], _STORES: [], _REGISTERS: []}  # type: dict[int, list[float]]
    limits = {_LOADS: room.loads, _STORES: room.stores, _REGISTERS: room.registers}
    # the latest beginnings of arithmetic, as many as a scheduler holds: the first of them is when it had room
    seen: list[float] = []
    # branches to be foretold wrongly, of each step: not all in the same passes
    due = [at * _APART % 1.0 for at in range(many)]
    waiting: tuple[tuple[int, list[float], int], ...] = ((_WAITS, [], room.scheduler + room.queue),)
    if room.integers:
        waiting += ((_WHOLE, [], room.integers), (_MULTIPLIED, [], room.multiplies))
    under_way: list[float] = []  # misses, until when
    ends = []
    for number in range(passes):
        trip = number % whole
        if trip == 0 and number:
            place += between
            entered += between * slot_cycles
        results, written = [0.0] * many, [0.0] * many
        done.append(results)
        wrote.append(written)
        if len(done) > behind + 1:
            done.pop(0)
            wrote.pop(0)
        for at, step in enumerate(steps):
            if not step.runs_in(number):
                continue
            place += slots
            entered += slots * slot_cycles
            called = 1
            if step.unit == _CALLED:
                # timed beside others of its kind: so long the core is busy with it
                entered += step.busy
                inside = _CALLED_SHARE * step.busy / slot_cycles
                place += inside
                called = round(_CALLED_RESULTS * inside) if step.holds & _REGISTERS else 0
            while oldest < len(left) and left[oldest][0] <= place - room.window:
                entered = max(entered, left[oldest][1])
                oldest += 1
            for what, times in held.items():
                if step.holds & what and len(times) >= limits[what]:
                    entered = max(entered, times[-limits[what]])
            if step.holds & _WHOLE and not room.integers:
                waits = _WAITS
            else:
                waits = step.holds
            for what, times, most in waiting:
                if waits & what and len(times) >= most:
                    entered = max(entered, times[0])
            ready = entered + 1.0
            if waits & _WAITS and len(seen) >= room.scheduler:
                ready = max(ready, seen[0])
            for other, back in step.after:
                if back == 0:
                    ready = max(ready, results[other])
                elif back <= trip and back < len(done):
                    ready = max(ready, done[-1 - back][other])
            if step.moved:
                ready = _free(step._replace(unit=_ALU, turn=_ALU, busy=step.moved), ready, used, turns)
            begins = _free(step, ready, used, turns)
            result = begins + step.latency
            if step.handed is not None and (step.finds >= 1 or number * _APART % 1.0 < step.finds):
                other, back = step.handed
                # through memory from an entry to the next as well
                if back < len(done):
                    result = max(result, (wrote if step.late else done)[-1 - back][other] + step.forward)
            there = 0.0
            each_far = step.first if step.first and trip == 0 else step.far
            for more in each_far[(number // whole if trip == 0 else number) % len(each_far)] if each_far else ():
                if more > 0:
                    at_buffer = begins if len(under_way) < room.buffers else heapq.heappop(under_way)
                    heapq.heappush(under_way, max(begins, at_buffer) + more)
                    there = max(there, max(begins, at_buffer) + more)
            if there:
                result = max(result, there + step.latency)
            if step.missed:
                # what its branch tests is known when the function begins; nothing behind is begun before
                due[at] += step.missed
                wrong = int(due[at])
                due[at] -= wrong
                if wrong:
                    entered = max(entered, begins) + wrong * room.missed_branch
                    result += wrong * room.missed_branch
            results[at] = max(result, begins)
            for _ in range(step.entries):
                if waits & _WAITS:
                    _keep(seen, begins, room.scheduler)
                for what, times, most in waiting:
                    if waits & what:
                        _keep(times, begins, most)
            before, retired = retired, max(retired, results[at])
            if step.holds & _STORES:
                written[at] = max(to_write, retired)
                to_write = written[at] + step.busy
            left.append((place, retired))
            for what, times in held.items():
                if step.holds & what:
                    # those of a function leave one after the other
                    times += [before + (retired - before) * (n + 1) / called for n in range(called)]
        ends.append(retired)
    return ends


def _free(step: _Timed, ready: float, used: dict[tuple[int, int], float], turns: dict[int, int]) -> float:
    """The first time from `ready` on when the step's unit has room for it, which it takes."""
    if not step.busy or step.unit in (0, _CALLED):
        return ready
    if step.busy >= 1.0:
        # by stretches of cycles: the unit takes what is ready, and never stands still for what is not yet
        number = int(ready / _STRETCH)
        while (taken := used.get((step.unit, number), 0.0)) >= _STRETCH:
            number += 1
        used[step.unit, number] = taken + step.busy
        begins = max(ready, number * _STRETCH)
        over = taken + step.busy - _STRETCH
        while over > 0:
            # what a stretch has no room for is taken of the next one
            used[step.unit, number] = _STRETCH
            number += 1
            taken = used.get((step.unit, number), 0.0) + over
            used[step.unit, number], over = taken, taken - _STRETCH
        return begins
    # which of several alike it is was settled when it entered, in turn: what is ready waits for its own
    count = max(1, int(1 / step.busy + _NEARLY))
    pipe = turns.get(step.turn, 0) % count
    turns[step.turn] = pipe + 1
    cycle = int(ready)
    while used.get((step.unit + _PIPES * pipe, cycle), 0.0) + step.busy * count > _FULL:
        cycle += 1
    place = step.unit + _PIPES * pipe, cycle
    used[place] = used.get(place, 0.0) + step.busy * count
    return max(ready, float(cycle))


def _keep(latest: list[float], time: float, count: int) -> None:
    """Among the `count` latest times."""
    if len(latest) < count:
        heapq.heappush(latest, time)
    elif time > latest[0]:
        heapq.heapreplace(latest, time)
