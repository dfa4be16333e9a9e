"""Formulas that users register for operations of their own: `rooflab.formula("mylib::op")`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from numbers import Real
from typing import Any, TypeVar

from rooflab.dtypes import dtype
from rooflab.errors import RooflabError

Function = TypeVar("Function", bound=Callable[..., Any])

KINDS = ("matrix", "vector", "special")  # the units that do the FLOP
_NUMBERS = ("flop", "read_bytes", "write_bytes")
_KEYS = (*_NUMBERS, "kind", "dtype")

_OWN: dict[str, Callable[..., Any]] = {}


def formula(name: str) -> Callable[[Function], Function]:
    """A decorator that makes a function the formula of the operation `name`, from here on.

    The function gets the operation's arguments as they are, each tensor as a `TensorSpec` (`shape`, `dtype`,
    `nbytes`, `elements`), and the result, or a tuple of them, as the keyword `out` where it takes one. It returns
    the FLOP of one call, or a dictionary with any of: `flop`; `read_bytes` and `write_bytes`, by default those of
    the operands; `kind`, which units do them ("matrix", the default, "vector" or "special"); `dtype`, their number
    format, by default that of the widest floating operand. A formula that fails, or returns anything else, is
    named in the report, and its operations have no cost.

    Args:
        name: "mylib::op" of PyTorch (a custom operator, `torch.library.triton_op`); the name of a Pallas kernel
            or of a primitive of JAX.

    Raises:
        RooflabError: a name that is empty or no text.

    >>> @formula("mylib::gram")
    ... def gram(x, *, out):
    ...     return 2 * x.shape[0] * out.elements
    """
    if not isinstance(name, str) or not name.strip():
        raise RooflabError(f'formula: got {name!r} as a name; expected one such as "mylib::op"')

    def register(function: Function) -> Function:
        if not callable(function):
            raise RooflabError(f"formula({name!r}): got {function!r}, expected a function")
        _OWN[_plain(name)] = function
        return function

    return register


def find(name: str) -> Callable[..., Any] | None:
    """The formula that a user gave for the operation `name`; None without one."""
    return _OWN.get(_plain(name))


def forget(name: str) -> None:
    """Take the formula of `name` out again, if there is one."""
    _OWN.pop(_plain(name), None)


def evaluate(
    function: Callable[..., Any], by: str, args: tuple, kwargs: Mapping[str, Any], out: Mapping[str, Any]
) -> dict[str, Any]:
    """The attributes of an operation of kind "custom": what `function` says of one call, or why it says nothing.

    Args:
        by: whose formula it is, for what is said about it.
        args, kwargs: of the call.
        out: the keyword that carries the result, left out where the function does not take it.
    """
    try:
        taken = _bound(function, args, {**kwargs, **out}, tuple(out))
        said = _read(function(*args, **taken))
    except RooflabError as error:
        return {"refused": f"{by}: {error}"}
    except Exception as error:  # noqa: BLE001 — whatever a user's function raises is said, the rest goes on
        first = (str(error).splitlines() or [""])[0]
        return {"refused": f"{by}: {type(error).__name__}: {first}"}
    return {**said, "by": by}


def _plain(name: str) -> str:
    """The name as rows have it: "mylib.op"."""
    return name.strip().replace("::", ".").removesuffix(".default")


def _bound(
    function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], optional: tuple[str, ...]
) -> dict[str, Any]:
    """The keywords that `function` is called with.

    Raises:
        RooflabError: it does not take these arguments.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable of C has no signature to read
        return kwargs
    takes_all = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    if not takes_all:
        kwargs = {
            key: value for key, value in kwargs.items() if key not in optional or key in signature.parameters
        }
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = [*("a tensor" if hasattr(one, "shape") else repr(one) for one in args), *kwargs]
        raise RooflabError(f"takes {signature}, and was called with ({', '.join(given)}): {error}") from None
    return kwargs


def _read(said: Any) -> dict[str, Any]:
    """What a formula returned, checked.

    Raises:
        RooflabError: it is no number of FLOP, and no dictionary of what is known.
    """
    attrs = dict(said) if isinstance(said, Mapping) else {"flop": said}
    for key in attrs:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise RooflabError(f"returned {key!r}; known: {', '.join(_KEYS)}{meant}")
    for key in _NUMBERS:
        if key not in attrs:
            continue
        value = attrs[key]
        right = isinstance(value, Real) and not isinstance(value, bool)
        if not right or not math.isfinite(value) or value < 0:
            raise RooflabError(f"returned {value!r} as {key}, expected a number, zero or above")
        attrs[key] = float(value)
    if attrs.get("kind", "matrix") not in KINDS:
        raise RooflabError(f"returned {attrs['kind']!r} as kind, expected one of {', '.join(KINDS)}")
    if "dtype" in attrs:
        attrs["dtype"] = dtype(str(attrs["dtype"])).name
    return attrs
