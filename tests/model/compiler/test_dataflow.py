"""Who reads what whom wrote: views looked through, memory followed."""

from __future__ import annotations

from rooflab.model.compiler import dataflow
from rooflab.types.work import Op, TensorSpec


def spec(elements: int, storage: int) -> TensorSpec:
    return TensorSpec((elements,), "fp32", 4.0 * elements, storage=storage)


def op(kind: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Op:
    return Op(name=kind, kind=kind, inputs=inputs, outputs=outputs)


def test_a_view_is_looked_through() -> None:
    """0 → 1 by an add, 2 is a reshape of 1: who reads 2 reads all that the add wrote."""
    tensors = [spec(8, 0), spec(8, 1), spec(8, 1), spec(8, 3)]
    found = dataflow.flow(tensors, [op("add", (0,), (1,)), op("view", (1,), (2,)), op("exp", (2,), (3,))])
    (read,) = found.reads[2]
    assert read == dataflow.Read(tensor=2, whole=1, writer=0, covered=True)
    assert found.after == [set(), set(), {0}]
    assert dataflow.read_by(found, 0) == {2}


def test_a_slice_of_a_result_comes_from_its_writer() -> None:
    """A half is another tensor, but all of it was written there."""
    tensors = [spec(8, 0), spec(8, 1), spec(4, 1), spec(4, 3)]
    found = dataflow.flow(tensors, [op("add", (0,), (1,)), op("view", (1,), (2,)), op("exp", (2,), (3,))])
    (read,) = found.reads[2]
    assert (read.whole, read.writer, read.covered) == (2, 0, True)


def test_a_buffer_filled_in_part_is_not_covered() -> None:
    """1 is a slice of the buffer 0; who reads the buffer reads more than was written, and comes after."""
    tensors = [spec(8, 0), spec(4, 0), spec(4, 2), spec(8, 3)]
    found = dataflow.flow(tensors, [op("view", (0,), (1,)), op("copy", (2,), (1,)), op("exp", (0,), (3,))])
    (read,) = found.reads[2]
    assert (read.writer, read.covered) == (1, False)
    assert found.after[2] == {1}


def test_overwriting_waits_for_readers() -> None:
    """1 reads 0, then 0 is written anew, then read: write after read, read after write."""
    tensors = [spec(8, 0), spec(8, 1), spec(8, 2), spec(8, 3)]
    ops = [op("exp", (0,), (1,)), op("copy", (2,), (0,)), op("exp", (0,), (3,))]
    assert dataflow.flow(tensors, ops).after == [set(), {0}, {1}]


def test_storages_below_zero_are_not_shared() -> None:
    """Two tensors of unknown storage are two memories."""
    tensors = [spec(8, -1), spec(8, -1), spec(8, -1)]
    found = dataflow.flow(tensors, [op("exp", (0,), (1,)), op("exp", (0,), (2,))])
    assert found.after == [set(), set()]
    assert len(set(found.storage)) == 3


def test_what_is_scattered_into_lies_in_memory() -> None:
    """A fill before an accumulation cannot be computed where it is read."""
    tensors = [spec(8, 0), spec(2, 1), spec(2, 2)]
    found = dataflow.flow(tensors, [op("create", (), (0,)), op("scatter", (0, 1, 2), (0,))])
    assert [read.covered for read in found.reads[1]] == [False, False, False]
    assert found.after[1] == {0}
