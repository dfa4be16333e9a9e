"""The graph while it is being read: tensors, operations, and what could not be followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import onnx

from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work.branches import costliest
from rooflab.work.capture.onnx.node import Node, NodeOp, Operand
from rooflab.work.capture.onnx.values import Value


class Scope(NamedTuple):
    """Where in the model a list of nodes stands.

    Attributes:
        opsets: version by domain.
        declared: types that the file states, by name of value.
        module: path of the functions and subgraphs around it.
        trips: of the loops around it.
        branch: the branch of an If that it lies in.
    """

    opsets: Mapping[str, int]
    declared: Mapping[str, onnx.TypeProto]
    module: str = ""
    trips: int = 1
    branch: str | None = None


Env = dict[str, Value]


@dataclass
class Record:
    """What has been read so far.

    Attributes:
        sizes: of symbolic dimensions, as given or worked out.
        functions: the model's own, by (domain, name).
        choices: of each `If` whose condition is unknown, the places of its branches' operations; inner ones first.
        folded: nodes that are worked out when the model is loaded.
    """

    sizes: Mapping[str, int]
    functions: Mapping[tuple[str, str], onnx.FunctionProto]
    tensors: list[TensorSpec] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    choices: list[list[range]] = field(default_factory=list)
    folded: int = 0
    storages: int = 0

    def add(self, value: Value, storage: int = -1) -> Value:
        """The value with its tensor in the graph: of a new storage, or of one that exists."""
        if value.spec is None:
            return value
        if storage < 0:
            storage, self.storages = self.storages, self.storages + 1
        spec = msgspec.structs.replace(value.spec, storage=storage)
        self.tensors.append(spec)
        return value._replace(spec=spec, number=len(self.tensors) - 1)

    def emit(self, node: Node, op: NodeOp, name: str, scope: Scope, module: str) -> None:
        """An operation more."""
        inputs, outputs = self._indices(op.inputs), self._indices(op.outputs)
        self.ops.append(
            Op(
                name=f"{name}.{op.suffix}" if op.suffix else name,
                kind=op.kind,
                inputs=inputs,
                outputs=outputs,
                attrs=dict(op.attrs),
                module=module,
                where=node.name,
                count=scope.trips,
                branch=scope.branch,
            )
        )
        if op.suffix == "cache":
            self.notes["KV caches: new rows are appended in place (past and present share their buffer)"] = None
        if node.op == "DequantizeLinear":
            self.notes["DequantizeLinear runs as written; a runtime may fuse it into products of integers"] = None
        if op.note:
            self.unknown[f"{node.op} {node.name!r}: {op.note}"] = None

    def graph(self, conventions: tuple[str, ...]) -> Graph:
        """What was read, as a graph; tensors that no operation touches (folded away, unused) are left out."""
        touched = sorted({index for op in self.ops for index in (*op.inputs, *op.outputs)})
        place = {index: number for number, index in enumerate(touched)}
        ops = costliest(self.ops, self.tensors, self.choices, "onnx") if self.choices else self.ops
        return Graph(
            framework="onnx",
            tensors=tuple(self.tensors[index] for index in touched),
            ops=tuple(
                msgspec.structs.replace(
                    op,
                    inputs=tuple(place[index] for index in op.inputs),
                    outputs=tuple(place[index] for index in op.outputs),
                )
                for op in ops
            ),
            unknown=tuple(self.unknown),
            conventions=conventions + tuple(self.notes),
        )

    def mark(self) -> tuple[Any, ...]:
        """Where the record stands, to come back to."""
        lists = (len(self.tensors), len(self.ops), len(self.choices))
        return (*lists, dict(self.unknown), self.folded, self.storages)

    def back_to(self, mark: tuple[Any, ...]) -> None:
        """Forget what was read since."""
        tensors, ops, choices, self.unknown, self.folded, self.storages = mark
        del self.tensors[tensors:], self.ops[ops:], self.choices[choices:]

    def _indices(self, operands: tuple[Operand, ...]) -> tuple[int, ...]:
        numbers: dict[int, int] = {}  # a tensor that only this operation sees, given twice as one object
        indices = []
        for one in operands:
            if isinstance(one, Value):
                indices.append(one.number)
                continue
            if id(one) not in numbers or one.storage < 0:
                numbers[id(one)] = self.add(Value(onnx.TypeProto(), one), one.storage).number
            indices.append(numbers[id(one)])
        return tuple(indices)


class Visit(NamedTuple):
    """One node as the walk comes to it.

    Attributes:
        record: what has been read so far; its operations go there.
        inputs: the node's, None where an optional one is left out.
        env: values by name; its outputs go there.
        scope: where in the model the node stands.
        walk: reads the nodes of a subgraph.
    """

    record: Record
    node: onnx.NodeProto
    inputs: Sequence[Value | None]
    attrs: Mapping[str, Any]
    env: Env
    scope: Scope
    walk: Walk


Walk = Callable[[Record, Sequence[onnx.NodeProto], Env, Scope], None]
