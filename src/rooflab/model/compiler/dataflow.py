"""Who reads what whom wrote: the operations of a graph with views looked through and memory followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rooflab.types.work import Op, TensorSpec


class Read(NamedTuple):
    """One operand of one operation.

    Attributes:
        tensor: as the operation names it.
        whole: the tensor that this one is another shape of: views that lose nothing looked through.
        writer: the operation that wrote it last, None for what the program starts with.
        covered: whether it can be computed where it is read: all of it comes from that writer (a slice of a
            result does; a cache of which the writer filled a part does not).
    """

    tensor: int
    whole: int
    writer: int | None
    covered: bool


class Flow(NamedTuple):
    """A graph's operations by number, those that are views left out of everything.

    Attributes:
        reads: operands of each.
        after: operations that each must come after: those it reads from, and those whose operands or
            results it overwrites.
        readers: by operation and storage that it wrote, those that read it before it was written again.
        storage: of each tensor; below zero where it is not shared.
        whole: of each tensor, see `Read`.
        writers: by storage, the operations that write to it, in order.
    """

    reads: list[tuple[Read, ...]]
    after: list[set[int]]
    readers: list[dict[int, set[int]]]
    storage: list[int]
    whole: list[int]
    writers: dict[int, list[int]]


def flow(tensors: Sequence[TensorSpec], ops: Sequence[Op]) -> Flow:
    """How data flows through `ops`."""
    storage = [spec.storage if spec.storage >= 0 else -1 - i for i, spec in enumerate(tensors)]
    whole = list(range(len(tensors)))
    source: dict[int, int] = {}
    writers: dict[int, list[int]] = {}
    readers_since: dict[int, set[int]] = {}
    reads: list[tuple[Read, ...]] = []
    after: list[set[int]] = []
    readers: list[dict[int, set[int]]] = [{} for _ in ops]
    for number, op in enumerate(ops):
        if op.kind == "view":
            _look_through(op, tensors, storage, whole, source)
            reads.append(())
            after.append(set())
            continue
        needs: set[int] = set()
        operands = []
        for index in dict.fromkeys(op.inputs):
            place = storage[index]
            writer = writers[place][-1] if writers.get(place) else None
            covered = writer is not None and _comes_from(index, ops[writer].outputs, whole, source)
            if op.kind == "scatter" and index == op.inputs[0]:
                covered = False  # it must lie in memory, all of it, before anything is added to it
            operands.append(Read(index, whole[index], writer, covered))
            if writer is not None:
                needs.update(writers[place])
                readers[writer].setdefault(place, set()).add(number)
            readers_since.setdefault(place, set()).add(number)
        for index in op.outputs:
            place = storage[index]
            needs |= readers_since.get(place, set()) | set(writers.get(place, ()))
        for index in dict.fromkeys(op.outputs):
            writers.setdefault(storage[index], []).append(number)
            readers_since[storage[index]] = set()
        needs.discard(number)
        reads.append(tuple(operands))
        after.append(needs)
    return Flow(reads, after, readers, storage, whole, writers)


def _look_through(
    op: Op, tensors: Sequence[TensorSpec], storage: list[int], whole: list[int], source: dict[int, int]
) -> None:
    for base in op.inputs[:1]:
        for index in op.outputs:
            if index == base or storage[index] != storage[base] or index in source:
                continue
            source[index] = base
            if tensors[index].nbytes == tensors[base].nbytes:
                whole[index] = whole[base]


def _comes_from(index: int, outputs: Sequence[int], whole: list[int], source: dict[int, int]) -> bool:
    """Whether a tensor is one of `outputs`, or a view of one."""
    written = [whole[each] for each in outputs]
    return whole[index] in written or any(whole[each] in written for each in _chain(index, source))


def _chain(index: int, source: dict[int, int]) -> Iterator[int]:
    seen: set[int] = set()
    while index not in seen:
        yield index
        seen.add(index)
        if index not in source:
            return
        index = source[index]


def read_by(data_flow: Flow, number: int) -> set[int]:
    """The operations that read something that operation `number` wrote."""
    return set().union(*data_flow.readers[number].values())
