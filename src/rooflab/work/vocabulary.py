"""Vocabularies: what each framework calls an operation, and the kind that its cost is counted by.

One TOML file a framework in `vocab/`. A row maps one op; a family maps many that differ by name alone:

    [op]
    "aten.mm" = { kind = "matmul", inputs = ["self", "mat2"], k = "$self.-1" }

    [[family]]
    kind = "pointwise"
    function = "@"
    prefix = "aten."
    ops = "add sub mul"

Keys: `kind` names the formula; `inputs` the arguments that are its tensors, in the formula's order; `outputs`
the results that are; `recipe` a function of the front end for what data cannot say. Every other key is an
attribute of the op: "$name" is the value of that argument, "$name.-1" the size of a dimension of it, "?name"
whether it is given (and neither zero nor false), "@" the op's own name, anything else is meant literally.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from rooflab.errors import FileError

_OWN_KEYS = ("kind", "inputs", "outputs", "recipe")


class Argument(NamedTuple):
    """The value of the argument `name`."""

    name: str


class Given(NamedTuple):
    """Whether the argument `name` is given and neither zero nor false."""

    name: str


class Size(NamedTuple):
    """The size of dimension `dim` of the tensor argument `name`."""

    name: str
    dim: int


class Entry(NamedTuple):
    """How one op of a framework is counted.

    Attributes:
        name: as the framework calls it.
        kind: name of its formula.
        inputs: arguments that are the formula's tensors, in its order; None for all, in the call's order.
        outputs: positions of the results that count; None for all.
        recipe: function of the front end that derives what data cannot say; None for none.
        attrs: attribute → literal value, `Argument`, `Given` or `Size`.
    """

    name: str
    kind: str
    inputs: tuple[str, ...] | None
    outputs: tuple[int, ...] | None
    recipe: str | None
    attrs: Mapping[str, Any]


@cache
def load(framework: str) -> Mapping[str, Entry]:
    """The vocabulary of `framework` ("torch", "jax", "onnx", "tinygrad"): op name → entry.

    Raises:
        FileError: no such vocabulary, a row without a kind, or an op named twice.
    """
    resource = files("rooflab.work") / "vocab" / f"{framework}.toml"
    where = f"work/vocab/{framework}.toml"
    try:
        text = resource.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileError(f"{where}: no such vocabulary") from None
    return read(text, where)


def read(text: str, where: str) -> Mapping[str, Entry]:
    """The vocabulary written in `text`: op name → entry. `where` names it in errors.

    Raises:
        FileError: not TOML, a row without a kind, or an op named twice.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{where}: not TOML: {error}") from None
    entries: dict[str, Entry] = {}

    def add(name: str, row: Mapping[str, Any]) -> None:
        if name in entries:
            raise FileError(f"{where}: op {name!r} is named twice; keep one row")
        entries[name] = _entry(name, row, where)

    for family in document.get("family", []):
        prefix, ops = family.get("prefix", ""), family.get("ops", "").split()
        shared = {key: value for key, value in family.items() if key not in ("prefix", "ops")}
        for op in ops:
            add(prefix + op, {key: op if value == "@" else value for key, value in shared.items()})
    for name, row in document.get("op", {}).items():
        own = name.rpartition(".")[2]
        add(name, {key: own if value == "@" else value for key, value in row.items()})
    return entries


def _entry(name: str, row: Mapping[str, Any], where: str) -> Entry:
    if "kind" not in row:
        raise FileError(f"{where}: op {name!r} has no kind; expected the name of a formula")
    inputs, outputs = row.get("inputs"), row.get("outputs")
    return Entry(
        name,
        row["kind"],
        None if inputs is None else tuple(inputs),
        None if outputs is None else tuple(outputs),
        row.get("recipe"),
        {key: _value(value) for key, value in row.items() if key not in _OWN_KEYS},
    )


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, str) or value[:1] not in ("$", "?") or len(value) == 1:
        return value
    name, dot, dim = value[1:].partition(".")
    if value[0] == "?":
        return Given(name)
    return Size(name, int(dim)) if dot else Argument(name)
