"""Compiled programs of XLA as its profiles hold them: instructions with their shapes, and what was fused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from rooflab.observe.reading.protobuf import BrokenMessage, Value, fields, packed, text
from rooflab.types.trace import Signature

# Numbers of fields in the messages of xla's hlo.proto and xla_data.proto.
_HLO_MODULE = 1
_MODULE_NAME, _MODULE_COMPUTATIONS = 1, 3
_COMPUTATION_INSTRUCTIONS, _COMPUTATION_ID, _COMPUTATION_ROOT = 2, 5, 6
_NAME, _OPCODE, _SHAPE, _METADATA, _DIMENSIONS, _WINDOW, _CONVOLUTION = 1, 2, 3, 7, 14, 15, 16
_PARAMETER = 9
_DOT, _ID, _OPERANDS, _CALLED, _GROUPS = 30, 35, 36, 38, 50
_ELEMENT, _SIZES, _PARTS = 2, 3, 4
_OP_NAME = 2
_WINDOW_DIMENSIONS, _WINDOW_SIZE, _WINDOW_BASE_DILATION = 1, 1, 6
_KERNEL_INPUT, _OUTPUT_FEATURE = 3, 10
_LEFT_CONTRACTED = 1
# Names of the enumeration PrimitiveType.
_ELEMENTS = {
    1: "pred",
    2: "s8",
    3: "s16",
    4: "s32",
    5: "s64",
    6: "u8",
    7: "u16",
    8: "u32",
    9: "u64",
    10: "f16",
    11: "f32",
    12: "f64",
    15: "c64",
    16: "bf16",
    18: "c128",
    19: "f8e5m2",
    20: "f8e4m3fn",
    21: "s4",
    22: "u4",
    28: "f8e4m3fn",
}
_DEEP = 8  # tuples within tuples
_INSTRUCTIONS = 2_000_000  # of one program
# What moves or names values without a kernel of its own.
_FREE = frozenset(
    ("parameter", "constant", "bitcast", "reshape", "tuple", "get-tuple-element", "broadcast", "iota")
)

Leaf = tuple[str, tuple[int, ...]]


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        leaves: number format and shape of each array that it gives.
        operands, called: numbers of instructions and computations.
        attrs: what its count needs beside shapes.
    """

    name: str
    opcode: str
    leaves: tuple[Leaf, ...]
    operands: tuple[int, ...]
    called: tuple[int, ...]
    op_name: str
    attrs: tuple[tuple[str, object], ...]


class Computation(NamedTuple):
    """Instructions by number, in their order, and which of them is the result."""

    instructions: Mapping[int, Instruction]
    root: int

    @property
    def result(self) -> Instruction | None:
        """The instruction that is the result."""
        return self.instructions.get(self.root)


def program(data: bytes) -> tuple[str, dict[str, Signature]]:
    """The name of the module in `data`, an HloProto, and what each of its instructions is.

    Raises:
        BrokenMessage: it is damaged.
    """
    name, computations = "", {}
    count = 0
    for number, value in fields(data):
        if number != _HLO_MODULE or not isinstance(value, tuple):
            continue
        for field, inner in fields(data, *value):
            if field == _MODULE_NAME:
                name = text(data, inner)
            elif field == _MODULE_COMPUTATIONS and isinstance(inner, tuple):
                key, one = _computation(data, inner)
                computations[key] = one
                count += len(one.instructions)
                if count > _INSTRUCTIONS:
                    raise BrokenMessage
    fused = {
        called
        for one in computations.values()
        for each in one.instructions.values()
        if each.opcode == "fusion"
        for called in each.called
    }
    return name, {
        each.name: _signature(each, one, computations)
        for key, one in computations.items()
        if key not in fused
        for each in one.instructions.values()
        if each.opcode not in _FREE
    }


def _signature(
    one: Instruction, around: Computation, computations: Mapping[int, Computation], deep: bool = False
) -> Signature:
    """An instruction with the shapes of its operands; a fusion with the signatures of its members."""
    inputs = [
        leaf
        for number in one.operands
        if number in around.instructions
        for leaf in around.instructions[number].leaves
    ]
    body = computations.get(one.called[0]) if one.called else None
    members: tuple[Signature, ...] = ()
    attrs = [*one.attrs]
    if one.opcode == "fusion" and body is not None and not deep:
        members = tuple(
            _signature(each, body, computations, deep=True)
            for each in body.instructions.values()
            if each.opcode not in _FREE
        )
        attrs += _edges(one, around, body)
    elif body is not None and body.result is not None:
        attrs.append(("of", _reduced_by(body)))
    return Signature(
        shapes=tuple(shape for _, shape in inputs),
        dtypes=tuple(dtype for dtype, _ in inputs),
        results=tuple(shape for _, shape in one.leaves),
        result_dtypes=tuple(dtype for dtype, _ in one.leaves),
        values=(one.op_name,),
        kind=one.opcode,
        attrs=tuple(attrs),
        members=members,
    )


def _reduced_by(body: Computation) -> str:
    """What the result of a body of two numbers is made by, whatever format they are computed in."""
    one = body.result
    for _ in range(len(body.instructions)):
        if one is None or one.opcode not in ("convert", "bitcast", "copy") or not one.operands:
            break
        one = body.instructions.get(one.operands[0])
    return "" if one is None else one.opcode


_PARTS_OF = ("slice", "dynamic-slice", "gather")


def _edges(one: Instruction, around: Computation, body: Computation) -> list[tuple[str, object]]:
    """Which operands a fusion reads in part only, and whether it writes in place.

    An operand that only slices and gathers read counts as what they give; a result that updates a slice of an
    operand writes the slice.
    """
    users: dict[int, list[Instruction]] = {}
    for each in body.instructions.values():
        for number in each.operands:
            users.setdefault(number, []).append(each)
    parameters = [number for number, each in body.instructions.items() if each.opcode == "parameter"]
    order = sorted(parameters, key=lambda number: _place(body.instructions[number]))
    parts: list[tuple[int, tuple[Leaf, ...]]] = []
    for place, number in enumerate(order):
        readers = users.get(number, [])
        if readers and all(each.opcode in _PARTS_OF and each.operands[:1] == (number,) for each in readers):
            parts.append((place, tuple(leaf for each in readers for leaf in each.leaves)))
    found: list[tuple[str, object]] = [("parts", tuple(parts))] if parts else []
    if body.result is not None and body.result.opcode == "dynamic-update-slice":
        base, update = (*body.result.operands, -1, -1)[:2]
        leaves = body.instructions[update].leaves if update in body.instructions else ()
        found.append(("update", (order.index(base) if base in order else -1, leaves)))
    return found


def _place(parameter: Instruction) -> int:
    """Which operand of the fusion a parameter of its body is."""
    return next((value for name, value in parameter.attrs if name == "parameter" and isinstance(value, int)), 0)


def _computation(data: bytes, where: tuple[int, int]) -> tuple[int, Computation]:
    key = root = 0
    waiting: list[tuple[int, int]] = []
    for field, value in fields(data, *where):
        if field == _COMPUTATION_INSTRUCTIONS and isinstance(value, tuple):
            waiting.append(value)
        elif field == _COMPUTATION_ID and isinstance(value, int):
            key = value
        elif field == _COMPUTATION_ROOT and isinstance(value, int):
            root = value
    shapes: dict[int, tuple[Leaf, ...]] = {}
    instructions: dict[int, Instruction] = {}
    for one in waiting:
        number, instruction = _instruction(data, one, shapes)
        shapes[number] = instruction.leaves
        instructions[number] = instruction
    return key, Computation(instructions, root)


def _instruction(
    data: bytes, where: tuple[int, int], shapes: Mapping[int, tuple[Leaf, ...]]
) -> tuple[int, Instruction]:
    """An instruction and its number; operands stand before it."""
    texts = {_NAME: "", _OPCODE: "", _METADATA: ""}
    number, parameter, groups = 0, 0, 1
    leaves: tuple[Leaf, ...] = ()
    operands: list[int] = []
    called: list[int] = []
    dimensions: list[int] = []
    parts: dict[int, Value] = {}
    for field, value in fields(data, *where):
        if field in (_NAME, _OPCODE):
            texts[field] = text(data, value)
        elif field == _SHAPE and isinstance(value, tuple):
            leaves = tuple(_leaves(data, value))
        elif field == _METADATA and isinstance(value, tuple):
            texts[field] = next(
                (text(data, each) for inner, each in fields(data, *value) if inner == _OP_NAME), ""
            )
        elif field == _OPERANDS:
            operands.extend(packed(data, value))
        elif field == _CALLED:
            called.extend(packed(data, value))
        elif field == _DIMENSIONS:
            dimensions.extend(packed(data, value))
        elif field == _ID and isinstance(value, int):
            number = value
        elif field == _PARAMETER and isinstance(value, int):
            parameter = value
        elif field == _GROUPS and isinstance(value, int):
            groups = max(1, value)
        elif field in (_DOT, _WINDOW, _CONVOLUTION):
            parts[field] = value
    attrs: list[tuple[str, object]] = []
    opcode = texts[_OPCODE]
    given = [leaf for one in operands for leaf in shapes.get(one, ())]
    if opcode == "parameter":
        attrs.append(("parameter", parameter))
    elif opcode == "dot" and given and _DOT in parts:
        attrs += _contracted(data, parts[_DOT], given[0])
    elif opcode == "convolution" and len(given) > 1 and leaves:
        attrs += _convolved(data, parts, groups, given[0], given[1], leaves[0])
    elif opcode == "reduce-window" and isinstance(parts.get(_WINDOW), tuple):
        taps = math.prod(_window(data, parts[_WINDOW])[0])  # pyright: ignore[reportArgumentType]
        attrs += [("window", taps)] if taps < 2**53 else []
    elif opcode == "sort" and given and dimensions:
        attrs.append(("n", max(1, _size(given[0][1], dimensions[0]))))
    return number, Instruction(
        texts[_NAME], opcode, leaves, tuple(operands), tuple(called), texts[_METADATA], tuple(attrs)
    )


def _size(shape: tuple[int, ...], dimension: int) -> int:
    return shape[dimension] if 0 <= dimension < len(shape) else 1


def _leaves(data: bytes, where: tuple[int, int], deep: int = 0) -> list[Leaf]:
    """The arrays of a shape, those within tuples in their order."""
    element = 0
    sizes: list[int] = []
    inner: list[Leaf] = []
    for field, value in fields(data, *where):
        if field == _ELEMENT and isinstance(value, int):
            element = value
        elif field == _SIZES:
            sizes.extend(packed(data, value))
        elif field == _PARTS and isinstance(value, tuple):
            if deep > _DEEP:
                raise BrokenMessage
            inner += _leaves(data, value, deep + 1)
    if inner:
        return inner
    name = _ELEMENTS.get(element)
    if name is None:
        return []
    if len(sizes) > 64 or math.prod(sizes) > 2**53:
        raise BrokenMessage
    return [(name, tuple(sizes))]


def _contracted(data: bytes, where: Value, left: Leaf) -> list[tuple[str, object]]:
    if not isinstance(where, tuple):
        return []
    dimensions = [
        one for field, value in fields(data, *where) if field == _LEFT_CONTRACTED for one in packed(data, value)
    ]
    return [("k", math.prod(_size(left[1], one) for one in dimensions))]


def _convolved(
    data: bytes, parts: Mapping[int, Value], groups: int, x: Leaf, w: Leaf, y: Leaf
) -> list[tuple[str, object]]:
    """The multiply-adds of a convolution; with a spread input (transposed) those of its own elements."""
    window, dims = parts.get(_WINDOW), parts.get(_CONVOLUTION)
    if not isinstance(window, tuple) or not isinstance(dims, tuple):
        return []
    sizes, spread = _window(data, window)
    named = {field: value for field, value in fields(data, *dims) if isinstance(value, int)}
    taps = math.prod(sizes)
    if spread:
        features = _size(y[1], named.get(_OUTPUT_FEATURE, 0))
        count = math.prod(x[1]) * taps * features // groups
    else:
        count = math.prod(y[1]) * taps * _size(w[1], named.get(_KERNEL_INPUT, 0))
    return [("fma", count)] if count < 2**63 else []


def _window(data: bytes, where: tuple[int, int]) -> tuple[list[int], bool]:
    """The sizes of a window, and whether what it slides over is spread."""
    sizes, spread = [], False
    for field, value in fields(data, *where):
        if field == _WINDOW_DIMENSIONS and isinstance(value, tuple):
            one = {inner: each for inner, each in fields(data, *value) if isinstance(each, int)}
            sizes.append(one.get(_WINDOW_SIZE, 1))
            spread = spread or one.get(_WINDOW_BASE_DILATION, 1) > 1
    return sizes, spread
