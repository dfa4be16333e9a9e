"""What no run of a whole program can beat: theoretical rates, and the bytes that an ideal cache cannot keep.

The last cache is taken as ideally managed: it knows the future and keeps what is needed soonest (Belady, "A study
of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966). No real one moves less.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np

from rooflab.model.device.device import Device
from rooflab.model.program.op_times import OpTimes, PreparedRows
from rooflab.types.work import Graph, Op
from rooflab.units import iec


class Touch(NamedTuple):
    """One access of a row to one piece of memory.

    Attributes:
        place: the memory, the same for views of it.
        nbytes: that are read or written.
        written: whether it is written, as a whole, rather than read.
        passing: whether nothing may ever need what is written: its memory may be given to the next operation,
            which writes over it while it is still in the cache.
    """

    place: int
    nbytes: float
    written: bool
    passing: bool = False


def program_floor_s(work: PreparedRows, times: OpTimes, device: Device, counts: np.ndarray) -> np.ndarray:
    """Seconds that the program takes at least on `device`, at its first setting.

    The largest of: its kernels one after the other, each at its own floor; its collectives at theoretical rates of
    the links, which may run beside them; the bytes that its kernels cannot have found in the last cache, or left
    there, at the theoretical bandwidth of the memory.
    """
    floors = times.floor_s[:, 0] * counts
    sends = np.array([row.op.kind == "collective" for row in work.rows], bool)
    nbytes = _least_bytes(work, _first(device.kept_bytes), device.warm)
    rate: Any = device.memory_bytes_per_s
    rate = rate[0] if np.ndim(rate) else rate
    return np.maximum(np.maximum(floors[~sends].sum(), floors[sends].sum()), nbytes / rate)


def _least_bytes(work: PreparedRows, cache_bytes: float, repeated: bool) -> float:
    """`least_memory_bytes` of those rows, found once for each cache."""
    asked, spans = ("least bytes", cache_bytes, repeated), ("spans", repeated)
    if asked not in work.remembered:
        if spans not in work.remembered:
            if "touches" not in work.remembered:
                work.remembered["touches"] = touches(work)
            work.remembered[spans] = spans_of(work.remembered["touches"], repeated)
        work.remembered[asked] = least_bytes(work.remembered[spans], cache_bytes)
    return work.remembered[asked]


def note(device: Device, convolves: bool = False) -> str:
    """What the floor is, in one sentence; with `convolves`, of what its convolutions are counted by."""
    size = f"caches of at most {iec(_first(device.kept_bytes), 3)}"
    filled = "as the last run left it" if device.warm else "empty at the start"
    rates = (
        "theoretical rates"
        if device.memory_basis == "theoretical"
        else "the memory's attained rate, which a run may beat a little"
    )
    return (
        f"floor: no run is faster: kernels in turn, memory traffic that ideal {size}, {filled}, cannot save, "
        f"and links, at {rates}{_DIRECT if convolves else ''}"
    )


# Winograd's and Fourier's methods multiply less (Lavin and Gray, CVPR 2016).
_DIRECT = "; convolutions with the arithmetic of the direct method"


def _first(number: float | np.ndarray) -> float:
    return float(np.ravel(number)[0])


def touches(work: PreparedRows) -> list[Touch]:
    """What each row reads and writes, in order, in bytes of its cost: a gather touches a part of its table."""
    found: list[Touch] = []
    for row, demand in zip(work.rows, work.demands.tolist(), strict=True):
        read_bytes, write_bytes = demand[:2]
        found += _within(work.graph, row.op, False, read_bytes)
        found += _within(work.graph, row.op, True, write_bytes)
    return _with_passing(found, work)


def _with_passing(found: list[Touch], work: PreparedRows) -> list[Touch]:
    """Says which writes may be of no use: of activations that nothing reads, but for what the last row leaves.

    A graph does not say what its program returns.
    """
    roles = {_place(work.graph, index): one.role for index, one in enumerate(work.graph.tensors)}
    wanted = {one.place for one in found if not one.written}
    last = work.rows[-1].op.outputs if work.rows else ()
    wanted |= {_place(work.graph, index) for index in last}
    return [
        one._replace(passing=True)
        if one.written and one.place not in wanted and roles[one.place] == "activation"
        else one
        for one in found
    ]


def _place(graph: Graph, index: int) -> int:
    storage = graph.tensors[index].storage
    return storage if storage >= 0 else -1 - index


def _within(graph: Graph, op: Op, written: bool, nbytes: float) -> list[Touch]:
    """The operands of `op`, the largest cut down where they hold more than the `nbytes` that it moves."""
    places: dict[int, float] = {}
    for index in op.outputs if written else op.inputs:
        place = _place(graph, index)
        places[place] = max(places.get(place, 0.0), graph.tensors[index].nbytes)
    beyond = sum(places.values()) - nbytes
    if beyond <= 0:
        return [Touch(place, size, written) for place, size in places.items() if size > 0]
    for place in sorted(places, key=lambda one: -places[one]):
        if beyond <= 0:
            break
        cut = min(beyond, places[place])
        places[place] -= cut
        beyond -= cut
    return [Touch(place, size, written) for place, size in places.items() if size > 0]


def least_memory_bytes(program: list[Touch], cache_bytes: float, repeated: bool) -> float:
    """Bytes that must cross between memory and a cache of `cache_bytes`, however it is managed.

    A read costs its bytes unless they were kept since their last touch. A write costs its bytes unless they are
    kept
    until their next touch: later they may be overwritten, or dead. Both kept sets are bounded apart, so that the
    result is never above what a real cache moves.

    Args:
        program: accesses in order.
        cache_bytes: of the last cache.
        repeated: whether the program runs again and again, and finds what its last run left; else the cache is
        empty
            at the start, and what it holds at the end need not be written back.
    """
    return least_bytes(spans_of(program, repeated), cache_bytes)


def least_bytes(spans: Spans, cache_bytes: float) -> float:
    """`least_memory_bytes` of the program that `spans` are of."""
    rounds, reads, writes = spans.rounds, spans.read_bytes, spans.write_bytes
    saved_reads = most_kept(spans.reading, cache_bytes) / rounds
    saved_writes = most_kept(spans.writing, cache_bytes) / rounds
    apart = max(reads - saved_reads, 0.0) + max(writes - saved_writes, 0.0)
    # What is not handed from one operation to another, inputs and results, shares the cache.
    moved = reads + writes - 2 * spans.handed_bytes / rounds
    together = moved - most_kept(spans.lasting, cache_bytes) / rounds
    return max(apart, together)


Interval = tuple[int, int, float]  # from, to, bytes


class Spans(NamedTuple):
    """The times from one touch of a piece of memory to its next, each list by its beginnings.

    Attributes:
        rounds: of the program, that they are of.
        read_bytes, write_bytes: of one round.
        reading: those that end with a read.
        writing: those that begin with a write.
        lasting: from read to read, and from write to write.
        handed_bytes: of those from write to read.
    """

    rounds: int
    read_bytes: float
    write_bytes: float
    reading: list[Interval]
    writing: list[Interval]
    lasting: list[Interval]
    handed_bytes: float


def spans_of(program: list[Touch], repeated: bool) -> Spans:
    """From touch to touch: of a repeated program over some rounds after an earlier one, else of one alone."""
    rounds = _ROUNDS if repeated else 1
    reads = sum(one.nbytes for one in program if not one.written)
    writes = sum(one.nbytes for one in program if one.written)
    reading: list[Interval] = []
    writing: list[Interval] = []
    lasting: list[Interval] = []
    handed_bytes = 0.0
    last: dict[int, tuple[int, float, bool]] = {}
    end = len(program)
    if repeated:
        for number, (place, nbytes, written, passing) in enumerate(program):
            if not passing:
                last[place] = number - end, nbytes, written
    for number, (place, nbytes, written, passing) in enumerate(program * rounds):
        before = last.get(place)
        if before is not None:
            begun, earlier, was_written = before
            interval = begun, number, min(nbytes, earlier)
            if not written:
                reading.append(interval)
            if was_written:
                writing.append(interval)
            if written == was_written:
                lasting.append(interval)
            elif was_written:
                handed_bytes += interval[2]
        if passing:
            writing.append((number, number + 1, nbytes))
            lasting.append((number, number + 1, nbytes))
        else:
            last[place] = number, nbytes, written
    if not repeated:
        # What is left in the cache at the end is of no run's time.
        left = [(begun, end, nbytes) for begun, nbytes, written in last.values() if written]
        writing += left
        lasting += left
    return Spans(rounds, reads, writes, sorted(reading), sorted(writing), sorted(lasting), handed_bytes)


_ROUNDS = 2  # of a program that repeats: the first finds a cache filled as it would like, which no later one does


def most_kept(intervals: list[Interval], cache_bytes: float) -> float:
    """The most bytes of `intervals` (from, to, bytes) that can be kept throughout in `cache_bytes`.

    What does not fit is taken from the intervals that end last: no other choice keeps more.
    """
    kept = 0.0
    held: list[list[float]] = []  # by end, the last first: -end, bytes that are still kept
    leaving: list[tuple[int, list[float]]] = []  # by end, the first first
    total = 0.0
    for number, (begin, finish, nbytes) in enumerate(sorted(intervals)):
        while leaving and leaving[0][0] <= begin:
            one = heapq.heappop(leaving)[-1]
            kept, total = kept + one[-1], total - one[-1]
            one[-1] = 0.0
        entry = [float(-finish), float(number), nbytes]
        heapq.heappush(held, entry)
        heapq.heappush(leaving, (finish, entry))
        total += nbytes
        while total > cache_bytes and held:
            longest = held[0]
            if not longest[-1]:
                heapq.heappop(held)
                continue
            cut = min(total - cache_bytes, longest[-1])
            longest[-1] -= cut
            total -= cut
    return kept + sum(entry[-1] for _, entry in leaving)
