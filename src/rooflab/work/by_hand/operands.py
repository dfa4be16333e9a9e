"""What the builders of operations by hand take and give: operands, and an operation with its tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError
from rooflab.types.work import Role, TensorSpec


class Operand(NamedTuple):
    """A shape and its number format."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def text(self) -> str:
        """As people write it: "4096x1024"."""
        return "x".join(map(str, self.shape)) or "scalar"


class Operation(NamedTuple):
    """One operation: a kind of the formulas, its tensors, its attributes, what was assumed."""

    kind: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    attrs: Mapping[str, Any]
    conventions: tuple[str, ...] = ()


def operation(
    kind: str,
    inputs: Sequence[tuple[Operand, str]],
    outputs: Sequence[Operand | int],
    attrs: Mapping[str, Any],
    conventions: tuple[str, ...] = (),
) -> Operation:
    """The operation; an output that is a number is the input of that number, written in place."""
    ins = tuple(_spec(operand, number, role) for number, (operand, role) in enumerate(inputs))
    outs = tuple(
        ins[each] if isinstance(each, int) else _spec(each, len(ins) + number, "activation")
        for number, each in enumerate(outputs)
    )
    return Operation(kind, ins, outs, attrs, conventions)


class WrongOperandsError(RooflabError):
    """Too few or too many operands; `expected` says which there are, in order."""

    def __init__(self, message: str, expected: str) -> None:
        super().__init__(message)
        self.expected = expected


def expect(operands: Sequence[Operand], least: int, most: int, what: str) -> None:
    """Return where the number of operands is right.

    Raises:
        WrongOperandsError: too few or too many.
    """
    if not least <= len(operands) <= most:
        count = f"{least}" if least == most else f"{least} to {most}"
        got = ", ".join(operand.text for operand in operands) or "none"
        raise WrongOperandsError(f"got {len(operands)} shapes ({got}), expected {count}: {what}", what)


def expect_rank(operand: Operand, name: str, ranks: range, meaning: str) -> None:
    """Return where `operand` has as many dimensions as it may.

    Raises:
        RooflabError: it has not.
    """
    if len(operand.shape) not in ranks:
        raise RooflabError(f"{name} is {operand.text}, expected {meaning}")


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that `shapes` broadcast to, by NumPy's rule.

    Raises:
        RooflabError: they do not.
    """
    result = []
    for back in range(1, max((len(shape) for shape in shapes), default=0) + 1):
        sizes = {shape[-back] for shape in shapes if len(shape) >= back} - {1}
        if len(sizes) > 1:
            written = " and ".join("x".join(map(str, shape)) for shape in shapes)
            raise RooflabError(f"{written} do not broadcast: sizes {sorted(sizes)} at dimension -{back}")
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))


def tuple_of(value: Any, length: int, name: str, least: int = 1) -> tuple[int, ...]:
    """`value` (a number, or one for each dimension) as a tuple of `length`.

    Raises:
        RooflabError: another length, or a number under `least`.
    """
    values = (value,) * length if isinstance(value, int) else tuple(value)
    if len(values) != length:
        raise RooflabError(f"{name} is {values}, expected one number or {length}")
    for one in values:
        at_least(one, name, least)
    return values


def at_least(value: Any, name: str, least: int) -> None:
    """Return where `value` is a whole number of `least` or more.

    Raises:
        RooflabError: it is not.
    """
    if not isinstance(value, int) or value < least:
        raise RooflabError(f"{name} is {value!r}, expected a whole number of at least {least}")


def _spec(operand: Operand, storage: int, role: str) -> TensorSpec:
    nbytes = math.prod(operand.shape) * number_format(operand.dtype).nbytes
    return TensorSpec(operand.shape, operand.dtype, nbytes, storage=storage, role=cast("Role", role))
