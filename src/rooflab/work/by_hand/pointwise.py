"""Element-wise functions by hand: every function of the formulas' table, with as many operands as it takes."""

from __future__ import annotations

from collections.abc import Callable

from rooflab.work.by_hand.operands import Operand, Operation, broadcast, expect, operation
from rooflab.work.formulas.functions import REAL

# fmt: off
_TWO = [
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "copysign",
    "nextafter",
    "heaviside",
    "ldexp",
    "pow",
    "float_power",
    "hypot",
    "atan2",
    "floor_divide",
    "remainder",
    "fmod",
    "xlogy",
    "xlog1py",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "shift_left",
    "shift_right",
    "add_scaled",
    "silu_mul",
    "gelu_mul",
    "gelu_tanh_mul",
    "masked_fill",
    "isclose",
    "polar",
    "complex",
]
# fmt: on
_THREE = ["where", "fma", "lerp", "addcmul", "addcdiv"]
# fmt: off
_LOGICAL = frozenset(
    [
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "isnan",
        "isinf",
        "isfinite",
        "logical_and",
        "logical_or",
        "logical_xor",
        "isclose",
    ]
)
# fmt: on
# Names of whole operations elsewhere, or without a meaning of their own by hand.
_LEFT_OUT = frozenset(["max", "min", "cast", "view_as_real", "view_as_complex"])


def _pointwise(operands: tuple[Operand, ...], function: str, arity: int) -> Operation:
    expect(operands, 1, arity, "1 operand" if arity == 1 else f"{arity} operands, or one shape for all of them")
    if len(operands) == 1:
        operands = operands * arity
    out = Operand(broadcast([each.shape for each in operands]), operands[0].dtype)
    if function in _LOGICAL:
        out = out._replace(dtype="bool")
    if function == "where":
        operands = (operands[0]._replace(dtype="bool"), *operands[1:])
        out = out._replace(dtype=operands[1].dtype)
    return operation("pointwise", [(each, "input") for each in operands], [out], {"function": function})


def _by_hand(name: str) -> bool:
    return name not in _LEFT_OUT and not name.endswith("_backward")


def _arity(name: str) -> int:
    return 2 if name in _TWO else 3 if name in _THREE else 1


def _builder(name: str) -> Callable[..., Operation]:
    def build(operands: tuple[Operand, ...]) -> Operation:
        return _pointwise(operands, name, _arity(name))

    return build


POINTWISE: dict[str, Callable[..., Operation]] = {name: _builder(name) for name in sorted(REAL) if _by_hand(name)}
