"""A graph of one operation, from its kind, the shapes of its operands and its settings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.work import Graph, Op
from rooflab.work.by_hand.operands import Operand, Operation, WrongOperandsError
from rooflab.work.by_hand.tables import BUILDERS, POINTWISE

_SHAPE = re.compile(r"\d+(?:[x×X*,]\d+)*")
_EXAMPLE = "such as 4096x1024, or 4096x1024:int8 for a number format of its own"

Shape = str | int | Sequence[int]


def graph(kind: str, shapes: Iterable[Shape], *, dtype: str = "fp32", **attrs: Any) -> Graph:
    """The program that is this one operation.

    Args:
        kind: "matmul", "conv2d", "attention", "softmax", "relu", "add", "embedding", "lstm",
            "all_reduce", "adam", … (`kinds()` has all).
        shapes: of the operands: (4096, 1024) or "4096x1024", or "4096x1024:int8" where one has
            another number format.
        dtype: number format of the operands.
        attrs: the operation's own settings (`settings(kind)` has their names and defaults).

    Raises:
        UnknownNameError: an unknown kind, setting or number format, with near matches.
        RooflabError: a shape that cannot be read, operands that do not fit each other.
    """
    if not isinstance(kind, str):
        raise RooflabError(f"op: got {kind!r} for the kind of operation, expected its name, such as 'matmul'")
    name = kind.strip().lower().replace("-", "_")
    builder = _builder(name, kind)
    base = number_format(dtype).name
    operands = tuple(_operand(shape, base) for shape in shapes)
    defaults = settings(name)
    for attr in attrs:
        if attr not in defaults:
            raise UnknownNameError(f"setting of {name}", attr, defaults, _takes(name, defaults))
    for attr, default in defaults.items():
        if default is inspect.Parameter.empty and attr not in attrs:
            such = f"{attr}=bf16 (--set {attr}=bf16)" if attr == "to" else f"{attr}=8 (--{attr} 8)"
            raise RooflabError(f"{name} needs its {attr}, expected such as {such}")
        if isinstance(default, bool) and not isinstance(attrs.get(attr, default), bool):
            raise RooflabError(f"{name}: {attr} is {attrs[attr]!r}, expected True or False")
    try:
        operation = builder(operands, **attrs)
    except RooflabError as error:
        raise RooflabError(f"{name}: {error}") from None
    except TypeError:
        # The builders compute with what they are given: a text where a number belongs is met there.
        settled = ", ".join(f"{attr}={value!r}" for attr, value in attrs.items())
        raise RooflabError(f"{name}: {settled}: a value of the wrong type {_takes(name, defaults)}") from None
    op = Op(
        name=name,
        kind=operation.kind,
        inputs=tuple(range(len(operation.inputs))),
        outputs=tuple(range(len(operation.inputs), len(operation.inputs) + len(operation.outputs))),
        attrs=operation.attrs,
        phase="optimizer" if operation.kind == "optimizer" else "forward",
    )
    specs = (*operation.inputs, *operation.outputs)
    return Graph(framework="hand", tensors=specs, ops=(op,), conventions=operation.conventions)


def kinds() -> tuple[str, ...]:
    """Every name that `graph` takes."""
    return tuple(sorted({*BUILDERS, *POINTWISE}))


def settings(kind: str) -> dict[str, Any]:
    """The settings of `kind` with their defaults; a required one has `inspect.Parameter.empty`.

    Raises:
        UnknownNameError: no such kind, with near matches.
    """
    parameters = inspect.signature(_builder(kind, kind)).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def operands(kind: str) -> str:
    """The operands of `kind` in order, in words: "a (… × m × k) and b (… × k × n)".

    Raises:
        UnknownNameError: no such kind, with near matches.
    """
    needed = {name: 1 for name, default in settings(kind).items() if default is inspect.Parameter.empty}
    try:
        _builder(kind, kind)((), **needed)
    except WrongOperandsError as error:
        return error.expected
    return "none"


def shape(text: str) -> tuple[tuple[int, ...], str | None]:
    """The sizes and the number format (None where not said) of "4096x1024:int8".

    Raises:
        RooflabError: not a shape.
    """
    sizes, colon, name = text.partition(":")
    sizes = sizes.strip()
    if not _SHAPE.fullmatch(sizes) or (colon and not name):
        raise RooflabError(f"{text!r} is not a shape, expected sizes with x between, {_EXAMPLE}")
    return tuple(int(size) for size in re.split(r"\D", sizes)), number_format(name).name if name else None


def title(kind: str, shapes: Iterable[Shape], dtype: str) -> str:
    """What a report of it is called: "matmul 4096x1024 1024x4096 bf16"."""
    sizes = [each if isinstance(each, str) else "x".join(map(str, _sizes(each))) for each in shapes]
    return " ".join((kind, *sizes, number_format(dtype).name))


def _builder(name: str, asked: str) -> Callable[..., Operation]:
    builder = BUILDERS.get(name) or POINTWISE.get(name)
    if builder is None:
        raise UnknownNameError("operation", asked, (*BUILDERS, *POINTWISE), "(`rooflab op --list` shows all)")
    return builder


def _takes(name: str, defaults: Mapping[str, Any]) -> str:
    written = (n if d is inspect.Parameter.empty else f"{n}={d}" for n, d in defaults.items())
    return f"({name} takes {', '.join(written)})" if defaults else f"({name} takes none)"


def _operand(written: Shape, base: str) -> Operand:
    if isinstance(written, str):
        sizes, own = shape(written)
    else:
        sizes, own = _sizes(written), None
    if any(size < 0 for size in sizes):
        raise RooflabError(f"shape {sizes} has a negative size, expected sizes of 0 or more")
    return Operand(sizes, own or base)


def _sizes(written: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (written,) if isinstance(written, int) or not isinstance(written, Iterable) else tuple(written)
    if not all(isinstance(size, int) for size in sizes):
        raise RooflabError(f"shape {written!r} is not of whole numbers, expected {_EXAMPLE}")
    return sizes
