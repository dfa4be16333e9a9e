"""Which bytes an operation finds in the last cache: by how much traffic passed since they were last touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.types.work import Graph, Op


class OperandAccesses(NamedTuple):
    """Every operand of every row, one after the other.

    Attributes:
        row: the row that it belongs to.
        nbytes: its bytes.
        distance_bytes: traffic from its last touch to this one, its own bytes included, when the whole
            graph runs again and again.
        written: whether it is a result.
    """

    row: np.ndarray
    nbytes: np.ndarray
    distance_bytes: np.ndarray
    written: np.ndarray


def operand_accesses(graph: Graph, ops: Sequence[Op]) -> OperandAccesses:
    """The operands of `ops` (a graph's, in order) with their reuse distances, the graph repeated for ever."""
    touches: list[tuple[int, int, float, bool]] = []
    for number, op in enumerate(ops):
        if op.kind == "view":
            continue
        # An operand that is read twice, or overwritten in place, is touched once.
        for index in dict.fromkeys(op.inputs):
            touches.append((number, _place(graph, index), graph.tensors[index].nbytes, False))
        for index in dict.fromkeys(op.outputs):
            touches.append((number, _place(graph, index), graph.tensors[index].nbytes, True))
    if not touches:
        empty = np.zeros(0)
        return OperandAccesses(empty.astype(int), empty, empty, empty.astype(bool))
    total = sum(nbytes for _, _, nbytes, _ in touches)
    last: dict[int, float] = {}
    before = []
    position = 0.0
    for _, place, nbytes, _ in touches:
        before.append(last.get(place))
        position += nbytes
        last[place] = position
    distances = []
    position = 0.0
    for (_, place, nbytes, _), earlier in zip(touches, before, strict=True):
        position += nbytes
        # First touched in this round: the last touch was in the round before.
        distances.append(position - earlier if earlier is not None else position + total - last[place])
    rows, _, sizes, written = zip(*touches, strict=True)
    return OperandAccesses(np.array(rows), np.array(sizes, float), np.array(distances, float), np.array(written))


class ProgramSwitches(NamedTuple):
    """How far back the program of each row last ran, in a graph that runs again and again.

    Attributes:
        switched: 1 where another program ran just before, 0 where the same one did.
        distance_bytes: traffic since it last ran, its own included.
    """

    switched: np.ndarray
    distance_bytes: np.ndarray


def program_switches(graph: Graph, ops: Sequence[Op]) -> ProgramSwitches:
    """Whether the instructions of each of `ops` are still near: an operation's name stands for its program."""
    names = [op.name for op in ops]
    moved = [sum(graph.tensors[index].nbytes for index in (*op.inputs, *op.outputs)) for op in ops]
    ends = np.cumsum(np.array(moved, float))
    total = float(ends[-1]) if len(ends) else 0.0
    last = {name: float(end) - total for name, end in zip(names, ends, strict=True)}  # of the round before
    distances = np.zeros(len(ops))
    for number, name in enumerate(names):
        distances[number] = ends[number] - last[name]
        last[name] = float(ends[number])
    switched = [float(name != before) for name, before in zip(names, names[-1:] + names[:-1], strict=True)]
    return ProgramSwitches(np.array(switched), distances)


def program_fetch_s(switches: ProgramSwitches, device: Device) -> np.ndarray:
    """Seconds that starting each row's kernels takes because of what ran before, (rows, settings).

    A unit fetches another program's instructions and arguments from the last cache; from memory where
    traffic has pushed them out of it, and always when caches are cold. A kernel that follows itself has
    its program at hand, cold data or not.
    """
    near, far = device.constants("residency.switch_s"), device.constants("residency.cold_start_s")
    missing = np.ones((len(switches.switched), np.size(device.cache_bytes)))
    if device.warm:
        missing = 1.0 - cached_share(switches.distance_bytes[:, None], device)
    return switches.switched[:, None] * (near + far * missing)


def _place(graph: Graph, index: int) -> int:
    storage = graph.tensors[index].storage
    return storage if storage >= 0 else -1 - index


def cached_bytes(accesses: OperandAccesses, rows: int, device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Bytes read and bytes written, by row and setting, that the last cache holds; none where it is cold."""
    settings = np.size(device.cache_bytes)
    read, write = np.zeros((rows, settings)), np.zeros((rows, settings))
    if device.warm and accesses.row.size:
        held = accesses.nbytes[:, None] * cached_share(accesses.distance_bytes[:, None], device)
        np.add.at(read, accesses.row[~accesses.written], held[~accesses.written])
        np.add.at(write, accesses.row[accesses.written], held[accesses.written])
    return read, write


def cached_share(distance_bytes: Number, device: Device) -> np.ndarray:
    """Share of an operand that is still held after `distance_bytes` of traffic: 1 well within, 0 well beyond."""
    full, empty = device.constants("residency.full"), device.constants("residency.empty")
    return np.clip((empty - distance_bytes / device.cache_bytes) / (empty - full), 0.0, 1.0)


def displaced_dirty_bytes(read_bytes: Number, write_bytes: Number, device: Device) -> np.ndarray:
    """Bytes written back to memory to make room in a cold cache, less those that the kernel leaves unwritten.

    A cold cache is full of what others wrote. A kernel that only reads pushes it out and pays for it; one
    that writes leaves as much of its own behind for the next.
    """
    if device.warm:
        return np.zeros(np.broadcast_shapes(np.shape(read_bytes), np.shape(device.cache_bytes)))
    dirty = device.constants("residency.dirty_share") * device.cache_bytes
    return np.maximum(np.minimum(read_bytes + write_bytes, dirty) - np.minimum(write_bytes, dirty), 0.0)


def random_miss_share(random_bytes: Number, table_bytes: Number, device: Device) -> np.ndarray:
    """Share of the bursts fetched at random from a table that come from memory.

    A table that the cache holds comes from memory once, where it was not there before: the distinct bursts
    of n tries over t are t·(1 − exp(−n/t)).
    """
    table = np.maximum(table_bytes, 1.0)
    distinct = table * -np.expm1(-random_bytes / table) / np.maximum(random_bytes, 1.0)
    held = cached_share(table_bytes, device)
    return held * (0.0 if device.warm else distinct) + (1.0 - held)
