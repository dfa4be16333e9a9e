"""Arrays that write down what is computed from them: the model's own arithmetic, recorded while it runs.

A `Traced` stands for an array that depends on a knob. NumPy hands each operation on it to the class
(`__array_ufunc__`, `__array_function__`), which computes the value as usual and writes one instruction. What
depends on no knob stays a plain array and becomes a constant where it meets one that does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

Shape = tuple[int, int]

# NumPy's element-wise functions that can be recorded, by the names that instructions have.
ELEMENTWISE = (
    *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "hypot"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or"),
    *("negative", "absolute", "floor", "ceil", "sqrt", "exp", "log", "expm1", "logical_not"),
)
_SAME = {
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "invert": "logical_not",
    "true_divide": "divide",
}


class Recording:
    """Instructions in order, each known by its number.

    Attributes:
        code: of each, its name and what it is applied to: numbers of others, shapes.
        shapes: (rows, columns) of each; 1 stands for as many as what it meets has.
        constants: by number, the values of those that are constant.
    """

    def __init__(self) -> None:
        self.code: list[tuple[Any, ...]] = []
        self.shapes: list[Shape] = []
        self.constants: dict[int, np.ndarray] = {}
        self._known: dict[tuple[Any, ...], int] = {}

    def knob(self, name: str, value: float) -> Traced:
        """A number that is not known yet, `value` for now."""
        return Traced(np.array([float(value)]), self.write(("knob", name), (1, 1)), self)

    def write(self, instruction: tuple[Any, ...], shape: Shape) -> int:
        """The number of `instruction`, written once however often it is asked for."""
        number = self._known.get(instruction)
        if number is None:
            number = self._known[instruction] = len(self.code)
            self.code.append(instruction)
            self.shapes.append(shape)
        return number

    def constant(self, values: Any, dimensions: int = 0) -> int:
        """The number of a constant; one that is the same everywhere is a single number."""
        array = np.asarray(values, float)
        if array.size and (array == array.flat[0]).all():
            array = array.reshape(-1)[:1]
        return self._held(array, dimensions)

    def places(self, numbers: np.ndarray) -> int:
        """The number of a constant that says which elements, one by one."""
        return self._held(np.asarray(numbers, float).ravel())

    def _held(self, array: np.ndarray, dimensions: int = 0) -> int:
        shape = _two(array.shape, max(dimensions, array.ndim))
        array = np.ascontiguousarray(array.reshape(shape)) + 0.0  # no negative zero
        number = self.write(("constant", shape, array.tobytes()), shape)
        self.constants[number] = array
        return number

    def number(self, value: Any, dimensions: int = 0) -> int:
        """The number of `value`, in an operation whose result has so many dimensions."""
        if not isinstance(value, Traced):
            return self.constant(value, dimensions)
        if value.ndim == 1 and dimensions == 2 and value.value.size > 1 and self.shapes[value.node] != (1, 1):
            raise NotImplementedError("a row of what depends on a knob meets a table")
        return value.node

    def elementwise(self, name: str, inputs: Iterable[Any], dimensions: int) -> int:
        """The number of an element-wise instruction, left out where it changes nothing."""
        numbers = [self.number(each, dimensions) for each in inputs]
        same = _same(name, numbers, self.constants)
        if same is not None:
            return same
        shape = functools.reduce(_wider, (self.shapes[each] for each in numbers))
        return self.write((name, *numbers), shape)


class Traced(NDArrayOperatorsMixin):
    """An array that depends on a knob: its value for now, and the instruction that computes it."""

    __slots__ = ("node", "tape", "value")

    def __init__(self, value: np.ndarray, node: int, tape: Recording) -> None:
        self.value, self.node, self.tape = value, node, tape

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the array."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """As of the array."""
        return self.value.ndim

    @property
    def fixed(self) -> bool:
        """Whether it depends on no knob after all."""
        return self.node in self.tape.constants

    def _refuse(self, *_: Any) -> Any:
        raise TypeError("what depends on a knob was asked for its value: write it as arithmetic on arrays")

    __bool__ = __float__ = __int__ = __index__ = __array__ = tolist = __iter__ = _refuse

    def __len__(self) -> int:
        return len(self.value)

    def __iadd__(self, other: Any) -> Any:
        return self + other

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **more: Any) -> Any:
        """Computes as NumPy does and records it."""
        if method == "accumulate" and ufunc is np.maximum:
            return _along(inputs[0], "cummax", np.maximum.accumulate(inputs[0].value, axis=0))
        if method != "__call__" or more:
            return NotImplemented
        if ufunc is np.matmul:
            return (inputs[0] * inputs[1]).sum()
        name = _SAME.get(ufunc.__name__, ufunc.__name__)
        if name not in ELEMENTWISE:
            return NotImplemented
        value = np.asarray(ufunc(*map(_value, inputs)))
        if all(_fixed(each) for each in inputs):
            return value
        return _new(value, self.tape.elementwise(name, inputs, value.ndim), self.tape)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """The same for NumPy's other functions."""
        found = _FUNCTIONS.get(function)
        return NotImplemented if found is None else found(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        value = np.asarray(self.value[key])
        if not value.size:
            return value
        places = np.asarray(np.arange(self.value.size).reshape(self.value.shape)[key])
        if (
            self.fixed
            or self.tape.shapes[self.node] == (1, 1)
            or np.array_equal(places.ravel(), np.arange(self.value.size))
        ):
            return _new(value, self.node, self.tape)
        shape = _two(value.shape, value.ndim)
        node = self.tape.write(("take", self.tape_full(), self.tape.places(places), *shape), shape)
        return _new(value, node, self.tape)

    def __setitem__(self, key: Any, values: Any) -> None:
        places = np.asarray(np.arange(self.value.size).reshape(self.value.shape)[key])
        into = np.array(self.value)
        into[key] = _value(values)
        if self.fixed and _fixed(values):
            self.value, self.node = into, self.tape.constant(into)
            return
        shape = _two(into.shape, into.ndim)
        given = self.tape.number(values, max(places.ndim, np.ndim(values)))
        if self.tape.shapes[given] != (1, 1):
            given = _full(given, _two(places.shape, places.ndim), self.tape)
        numbers = self.tape.places(places)
        self.node = self.tape.write(("put", self.node, numbers, given, *shape), shape)
        self.value = into

    def tape_full(self) -> int:
        """The number of all its elements, those that are the same written out."""
        return _full(self.node, _two(self.value.shape, self.value.ndim), self.tape)

    def sum(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """As of the array."""
        value = np.asarray(self.value.sum(axis=axis, keepdims=keepdims))
        if self.fixed:
            return value
        if axis not in (None, 0) or (axis == 0 and not keepdims and self.ndim > 1):
            raise NotImplementedError(f"a sum along axis {axis}")
        wide = axis == 0 and self.ndim > 1
        shape = (1, self.shape[1]) if wide else (1, 1)
        return _new(value, self.tape.write(("sum_rows" if wide else "sum", self.tape_full()), shape), self.tape)

    def any(self) -> bool:
        """Whether one may be true: of what depends on a knob, always."""
        return bool(self.value.any()) if self.fixed else True


def _value(each: Any) -> Any:
    return each.value if isinstance(each, Traced) else each


def _fixed(each: Any) -> bool:
    return not isinstance(each, Traced) or each.fixed


def _new(value: np.ndarray, node: int, tape: Recording) -> Any:
    return value if node in tape.constants else Traced(value, node, tape)


def _tape(values: Iterable[Any]) -> Recording:
    return next(each.tape for each in values if isinstance(each, Traced))


def _two(shape: tuple[int, ...], dimensions: int) -> Shape:
    """Rows and columns of an array: one dimension is a column, or a row where it meets a table."""
    if len(shape) == 2:
        return shape[0], shape[1]
    if len(shape) > 2:
        raise NotImplementedError(f"an array of {len(shape)} dimensions")
    size = shape[0] if shape else 1
    return (1, size) if dimensions == 2 else (size, 1)


def _wider(one: Shape, other: Shape) -> Shape:
    if any(a != b and 1 not in (a, b) for a, b in zip(one, other, strict=True)):
        raise ValueError(f"{one} meets {other}")
    return max(one[0], other[0]), max(one[1], other[1])


def _full(node: int, shape: Shape, tape: Recording) -> int:
    return node if tape.shapes[node] == shape else tape.write(("spread", node, *shape), shape)


def _same(name: str, numbers: list[int], constants: dict[int, np.ndarray]) -> int | None:
    """Which operand an operation leaves as it is: x + 0, x · 1, x / 1, a choice that is always the same."""
    held = [
        constants[each].item() if each in constants and constants[each].size == 1 else None for each in numbers
    ]
    if name == "where" and held[0] is not None:
        return numbers[1] if held[0] else numbers[2]
    if name == "where" and numbers[1] == numbers[2]:
        return numbers[1]
    if name in ("add", "multiply") and held[0] == (name == "multiply"):
        return numbers[1]
    neutral = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0, "power": 1.0}.get(name)
    if neutral is not None and held[1] == neutral:
        return numbers[0]
    if name in ("maximum", "minimum") and numbers[0] == numbers[1]:
        return numbers[0]
    return None


def _where(condition: Any, one: Any, other: Any) -> Any:
    value = np.where(_value(condition), _value(one), _value(other))
    inputs = (condition, one, other)
    if all(map(_fixed, inputs)):
        return value
    tape = _tape(inputs)
    return _new(value, tape.elementwise("where", inputs, value.ndim), tape)


def _along(x: Traced, name: str, value: np.ndarray) -> Any:
    """Running along the rows, each column by itself."""
    if x.fixed:
        return value
    full = x.tape_full()
    return _new(value, x.tape.write((name, full), x.tape.shapes[full]), x.tape)


def _cumsum(x: Traced, axis: int | None = None) -> Any:
    return _along(x, "cumsum", np.cumsum(x.value, axis=0))


def _diff(x: Traced, axis: int = -1, prepend: float = 0.0) -> Any:
    if prepend != 0.0 or (x.ndim > 1 and axis != 0):
        raise NotImplementedError("differences other than down the rows, from 0")
    return _along(x, "diff", np.diff(x.value, axis=0, prepend=0.0))


def _stack(arrays: Any, axis: int = 0) -> Any:
    """Columns side by side, or single numbers one below the other."""
    value = np.stack([_value(each) for each in arrays], axis=axis)
    if all(map(_fixed, arrays)):
        return value
    if axis == 0 and value.shape != (len(arrays), 1):
        raise NotImplementedError("rows of what depends on a knob")
    tape, shape = _tape(arrays), _two(value.shape, 2)
    numbers = [tape.number(each) for each in arrays]
    return _new(value, tape.write(("stack", *numbers, *shape), shape), tape)


def _concatenate(arrays: Any) -> Any:
    value = np.concatenate([_value(each) for each in arrays])
    joined = Traced(np.zeros_like(value), _tape(arrays).constant(0.0), _tape(arrays))
    start = 0
    for each in arrays:
        end = start + len(each)
        joined[start:end] = each if isinstance(each, Traced) else np.asarray(each)
        start = end
    return joined


def _zeros_like(x: Traced, shape: Any = None) -> Traced:
    """Zeros that can be written into."""
    return Traced(np.zeros(x.shape if shape is None else shape), x.tape.constant(0.0), x.tape)


def _clip(x: Any, least: Any, most: Any) -> Any:
    return np.minimum(np.maximum(x, least), most)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.cumsum: _cumsum,
    np.diff: _diff,
    np.stack: _stack,
    np.concatenate: _concatenate,
    np.zeros_like: _zeros_like,
    np.ones_like: lambda x: np.ones(x.shape),
    np.clip: _clip,
    np.broadcast_to: lambda x, shape: _new(np.broadcast_to(x.value, shape), x.node, x.tape),
    np.shape: lambda x: x.shape,
    np.size: lambda x: x.value.size,
    np.ndim: lambda x: x.ndim,
    np.any: lambda x: x.any(),
    np.sum: lambda x: x.sum(),
}
