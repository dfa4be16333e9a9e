"""A node of the graph as it is read, and the operations that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rooflab.types.work import TensorSpec
from rooflab.work.capture.onnx.values import Value

Operand = Value | TensorSpec


class Node(NamedTuple):
    """One node with what is known of its inputs and outputs.

    Attributes:
        op: its type ("Conv").
        inputs, outputs: None where an optional one is left out.
        row: its row of the vocabulary without kind and reader: fixed attributes.
        opset: version of its domain.
    """

    op: str
    name: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attrs: Mapping[str, Any]
    row: Mapping[str, Any]
    opset: int

    def input(self, index: int) -> Value | None:
        """The input, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def output(self, index: int) -> Value | None:
        """The output, or None where it is left out."""
        return self.outputs[index] if index < len(self.outputs) else None

    def spec(self, index: int) -> TensorSpec:
        """The tensor of an input that must be there."""
        value = self.input(index)
        if value is None or value.spec is None:
            raise MissingInputError(f"{self.op} {self.name!r}: input {index} is missing")
        return value.spec

    def x(self, index: int) -> Value:
        """An input that must be there."""
        self.spec(index)
        return self.inputs[index]  # type: ignore[return-value]

    def y(self) -> TensorSpec:
        """The tensor of the first output."""
        value = self.output(0)
        if value is None or value.spec is None:
            raise MissingInputError(f"{self.op} {self.name!r}: its first output is missing")
        return value.spec

    def present(self, start: int = 0, stop: int | None = None) -> tuple[Value, ...]:
        """The tensors among the inputs from `start` to `stop`."""
        return tuple(value for value in self.inputs[start:stop] if value is not None and value.spec is not None)

    def results(self) -> tuple[Value, ...]:
        """The tensors among the outputs."""
        return tuple(value for value in self.outputs if value is not None and value.spec is not None)


class NodeOp(NamedTuple):
    """One operation that a node asks for; most nodes are one.

    Attributes:
        kind: None where no formula is known.
        inputs, outputs: values of the graph, or tensors that only this operation sees.
        suffix: told apart by it where a node is several ("Attention.project").
        note: what is not counted, for `Graph.unknown`.
    """

    kind: str | None
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attrs: Mapping[str, Any] = {}
    suffix: str = ""
    note: str = ""


class MissingInputError(Exception):
    """A node without an input that its type demands; the walk adds the file."""


def reshaped(spec: TensorSpec, shape: tuple[int, ...], **changes: Any) -> TensorSpec:
    """The same memory seen with another shape."""
    return msgspec.structs.replace(spec, shape=shape, **changes)


def on_chip(spec: TensorSpec) -> TensorSpec:
    """A result that a fused kernel keeps: it crosses no memory."""
    return msgspec.structs.replace(spec, nbytes=0.0, storage=-1, role="activation")


def slice_of(spec: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    """A slice of a tensor, of size `shape`: the same storage, its share of the bytes."""
    taken = msgspec.structs.replace(spec, shape=shape)
    share = taken.elements / spec.elements if spec.elements else 0.0
    return msgspec.structs.replace(taken, nbytes=spec.nbytes * share)
