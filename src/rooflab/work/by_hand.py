"""One operation written by hand: `rooflab op matmul 4096x4096 4096x4096`, the what-if in one line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.work import Graph, Op
from rooflab.work.hand.operands import Made, Operand
from rooflab.work.hand.tables import BUILDERS, POINTWISE

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
    known = settings(name)
    for attr in attrs:
        if attr not in known:
            raise UnknownNameError(f"setting of {name}", attr, known, _takes(name, known))
    for attr, default in known.items():
        if default is inspect.Parameter.empty and attr not in attrs:
            raise RooflabError(f"{name} needs its {attr}, expected such as {attr}=8 (--{attr} 8)")
        if isinstance(default, bool) and not isinstance(attrs.get(attr, default), bool):
            raise RooflabError(f"{name}: {attr} is {attrs[attr]!r}, expected True or False")
    try:
        made = builder(operands, **attrs)
    except RooflabError as error:
        raise RooflabError(f"{name}: {error}") from None
    except TypeError:
        # The builders compute with what they are given: a text where a number belongs is met there.
        given = ", ".join(f"{attr}={value!r}" for attr, value in attrs.items())
        raise RooflabError(f"{name}: {given}: a value of the wrong type {_takes(name, known)}") from None
    op = Op(
        name=name,
        kind=made.kind,
        inputs=tuple(range(len(made.inputs))),
        outputs=tuple(range(len(made.inputs), len(made.inputs) + len(made.outputs))),
        attrs=made.attrs,
        phase="optimizer" if made.kind == "optimizer" else "forward",
    )
    specs = (*made.inputs, *made.outputs)
    return Graph(framework="hand", tensors=specs, ops=(op,), conventions=made.conventions)


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
    words = [each if isinstance(each, str) else "x".join(map(str, _sizes(each))) for each in shapes]
    return " ".join((kind, *words, number_format(dtype).name))


def _builder(name: str, asked: str) -> Callable[..., Made]:
    found = BUILDERS.get(name) or POINTWISE.get(name)
    if found is None:
        raise UnknownNameError("operation", asked, (*BUILDERS, *POINTWISE), "(`rooflab op --list` shows all)")
    return found


def _takes(name: str, known: Mapping[str, Any]) -> str:
    written = (n if d is inspect.Parameter.empty else f"{n}={d}" for n, d in known.items())
    return f"({name} takes {', '.join(written)})" if known else f"({name} takes none)"


def _operand(given: Shape, base: str) -> Operand:
    if isinstance(given, str):
        sizes, own = shape(given)
    else:
        sizes, own = _sizes(given), None
    if any(size < 0 for size in sizes):
        raise RooflabError(f"shape {sizes} has a negative size, expected sizes of 0 or more")
    return Operand(sizes, own or base)


def _sizes(given: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (given,) if isinstance(given, int) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(size, int) for size in sizes):
        raise RooflabError(f"shape {given!r} is not of whole numbers, expected {_EXAMPLE}")
    return sizes
