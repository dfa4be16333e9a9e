"""The table of formulas: one function per kind of operation, found by the kind's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost, TensorSpec

Specs = tuple[TensorSpec, ...]
Attrs = Mapping[str, Any]
Formula = Callable[[Specs, Specs, Attrs], Cost]

_FORMULAS: dict[str, Formula] = {}


def formula(*names: str) -> Callable[[Formula], Formula]:
    """A decorator that makes a function the formula of the kinds `names`.

    Raises:
        ValueError: a kind that has a formula already.
    """

    def register(function: Formula) -> Formula:
        for name in names:
            if name in _FORMULAS:
                raise ValueError(
                    f"two formulas for kind {name!r}: {_FORMULAS[name].__module__} and {function.__module__}"
                )
            _FORMULAS[name] = function
        return function

    return register


def kinds() -> tuple[str, ...]:
    """The kinds of operation that have a formula, in alphabetical order."""
    return tuple(sorted(_FORMULAS))


def cost(kind: str, inputs: Specs, outputs: Specs, attrs: Attrs | None = None) -> Cost:
    """The cost of one execution of an operation.

    Args:
        kind: a name of `kinds()`.
        inputs, outputs: shapes and number formats; the same object given twice is read once.
        attrs: what the formula needs beside them (see its docstring).

    Raises:
        UnknownNameError: no such kind, or a function or number format that the formula does not know.
        KeyError: an attribute that the formula needs is missing.
    """
    # Several operations fused into one kernel were counted where they were fused.
    of_kind = _FORMULAS.get("fused" if attrs and "members" in attrs else kind)
    if of_kind is None:
        raise UnknownNameError("kind of operation", kind, _FORMULAS)
    return of_kind(inputs, outputs, attrs or {})
