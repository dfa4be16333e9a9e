"""What a function of C is called with: NumPy arrays and numbers, checked against its signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops.c.debug_info import CType, Parameter, Subprogram
from rooflab.loops.read.arguments import copies_of

_KINDS = {"float": "f", "complex": "c", "int": "i", "uint": "u", "bool": "b"}
_FORMATS = {"double": ("float", 8), "float": ("float", 4), "half": ("float", 2), "i1": ("bool", 1)}


class Bound(NamedTuple):
    """Arguments by name, with their types.

    Attributes:
        values: arrays, numbers, tuples of arrays (of a pointer to pointers), None (a null pointer).
        types: as the signature has them.
        warnings: promises of `restrict` that the arrays do not keep.
    """

    values: Mapping[str, Any]
    types: Mapping[str, CType]
    warnings: tuple[str, ...]

    def copied(self) -> tuple[Any, ...]:
        """Them in order, with every array copied to the same place in a line; those that were one stay one."""
        return copies_of(self.values.values())


def from_ir(name: str, file: str, header: Sequence[str]) -> Subprogram:
    """A signature from the types of the parameters in IR, where there is no debug information."""
    parameters = []
    for n, each in enumerate(header, 1):
        kind, nbytes = _FORMATS.get(each, ("int", int(each[1:]) // 8 if each[1:].isdigit() else 0))
        void = CType("void", "void", 0)
        kept = CType("pointer", "void *", 8, void) if each == "ptr" else CType(kind, each, nbytes)
        parameters.append(Parameter(f"arg{n}", kept))
    return Subprogram(name, name, file, 0, CType("void", "…", 0), tuple(parameters))


def bind(function: Subprogram, args: Sequence[Any]) -> Bound:
    """`args` as the arguments of `function`.

    Raises:
        RooflabError: too few or too many; one of another type than the signature has.
    """
    if any(each.type.kind == "more" for each in function.parameters):
        raise RooflabError(
            f"{function.name} takes any number of arguments ({function.signature}), expected a function of a fixed"
            " number: add one that calls it"
        )
    if len(args) != len(function.parameters):
        raise RooflabError(
            f"{function.name}: got {len(args)} argument{'' if len(args) == 1 else 's'}, expected"
            f" {len(function.parameters)}: {function.signature}"
        )
    values = {
        each.name: _value(function, each.name, each.type, value)
        for each, value in zip(function.parameters, args, strict=True)
    }
    types = {each.name: each.type for each in function.parameters}
    return Bound(values, types, tuple(_broken_promises(function.name, values, types)))


def _value(function: Subprogram, name: str, kind: CType, value: Any) -> Any:
    where = f"{function.name}: argument {name}"
    if kind.kind == "pointer" and kind.to is not None:
        if value is None and kind.to.kind != "function":
            return None
        return _array(where, kind, kind.to, value)
    if kind.kind in ("struct", "complex") or (kind.kind not in _KINDS and kind.kind != "char"):
        raise RooflabError(
            f"{where} is of type {kind.text}, passed by value: expected numbers and pointers: add a function that"
            f" takes a pointer to it: {kind.text} *{name}"
        )
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        value = int(value)
    if kind.kind == "float":
        if isinstance(value, (int, float)):
            return float(value)
    elif isinstance(value, int):
        low, high = _range(kind)
        if low <= value <= high:
            return value
        raise RooflabError(f"{where} is {value:,}, expected what {kind.text} holds: {low:,} to {high:,}")
    wanted = "a number" if kind.kind == "float" else "a whole number"
    raise RooflabError(f"{where} is {_described(value)}, expected {wanted} for {kind.text} {name}")


def _range(kind: CType) -> tuple[int, int]:
    bits = 8 * kind.nbytes
    if kind.kind == "bool":
        return 0, 1
    if kind.kind == "char":
        return -128, 255
    return (0, 2**bits - 1) if kind.kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _array(where: str, kind: CType, to: CType, value: Any) -> Any:
    while to.kind == "array" and to.to is not None:
        to = to.to
    if to.kind == "function":
        raise RooflabError(f"{where} is a pointer to a function, expected numbers and arrays: call it by its name")
    if to.kind == "pointer" and to.to is not None:
        if isinstance(value, np.ndarray) and value.ndim > 1:
            value = tuple(value)
        if not isinstance(value, (tuple, list)) or not value:
            raise RooflabError(
                f"{where} is {_described(value)}, expected rows for {kind.text}: a tuple of arrays, or an array of"
                " two dimensions"
            )
        return tuple(_array(f"{where}[{n}]", to, to.to, each) for n, each in enumerate(value))
    if to.kind == "struct":
        _check_pointers(where, kind, to, value)
    if not isinstance(value, np.ndarray):
        raise RooflabError(f"{where} is {_described(value)}, expected {_wanted(to)} for {kind.text}")
    if value.size == 0:
        raise RooflabError(f"{where} has no element (shape {value.shape}), expected some")
    if isinstance(value, np.ma.MaskedArray):
        raise RooflabError(f"{where} is masked, expected a plain array: .filled(0)")
    if not (_fits(to, value.dtype) or _holds_rows(to, value)):
        known = to.kind in _KINDS and hasattr(np, _dtype(to))
        if to.kind in _KINDS and not known:
            raise RooflabError(f"{where} is of type {kind.text}, which NumPy has no type of elements for")
        hint = f": .astype(np.{_dtype(to)})" if known else ""
        raise RooflabError(f"{where} is {_described(value)}, expected {_wanted(to)} for {kind.text}{hint}")
    if not (value.flags.c_contiguous or value.flags.f_contiguous):
        raise RooflabError(
            f"{where} is a view with gaps (strides {value.strides}), and C is told only where it begins: expected"
            " one without: np.ascontiguousarray"
        )
    return value


def _check_pointers(where: str, kind: CType, to: CType, value: Any) -> None:
    """Raise where the structures given would hold pointers: what they lead to lies elsewhere in each run."""
    inside = [(name, each.text) for name, _, each in to.members if each.kind == "pointer"]
    if not inside:
        return
    if isinstance(value, np.ndarray) and _fits(to, value.dtype):
        named = [name for name, _ in inside if name in (value.dtype.names or ())]
        if len(named) == len(inside) and not any(np.any(value[name].astype(bool)) for name in named):
            return
    listed = ", ".join(f"{text} {name}".replace("* ", "*") for name, text in inside)
    inits = ", ".join(name for name, _, _ in to.members)
    raise RooflabError(
        f"{where} is {kind.text}, which holds pointers ({listed}) that Python has no memory for: add a function"
        f" that takes them one by one and fills the structure: {to.text} s = {{{inits}}};"
    )


def _fits(to: CType, dtype: np.dtype) -> bool:
    if dtype.hasobject or not dtype.isnative:
        return False
    if to.kind == "void":
        return True
    if to.kind == "char":
        return dtype.itemsize == 1
    if to.kind == "struct":
        if (to.nbytes and dtype.itemsize != to.nbytes) or dtype.names is None:
            return False
        places = {name: at for name, at, _ in to.members}
        fields: Any = dtype.fields
        return all(places.get(name, fields[name][1]) == fields[name][1] for name in dtype.names)
    return dtype.kind == _KINDS.get(to.kind) and dtype.itemsize == to.nbytes


def _holds_rows(to: CType, value: np.ndarray) -> bool:
    """Whether an array of plain numbers lies as structures `to` do: rows of it, so many in a row, complex ones."""
    made = _numbers(to) if to.kind == "struct" else None
    if made is None or not value.flags.c_contiguous:
        return False
    number, count = made
    if _fits(number, value.dtype):
        return value.shape[-1] == count if value.ndim > 1 and count > 1 else value.size % count == 0
    pair = number.kind == "float" and count == 2 and value.dtype.kind == "c"
    return pair and value.dtype.isnative and value.dtype.itemsize == to.nbytes


def _numbers(of: CType) -> tuple[CType, int] | None:
    """The numbers that a type is made of, all alike and without gaps, and how many; None of any other type."""
    if of.kind in _KINDS:
        return (of, 1) if of.nbytes else None
    if of.kind == "array" and of.to is not None:
        made = _numbers(of.to)
        return None if made is None or not of.nbytes else (made[0], of.nbytes // made[0].nbytes)
    if of.kind != "struct" or not of.members:
        return None
    parts = [(at, _numbers(each)) for _, at, each in of.members]
    end, first = 0, parts[0][1]
    for at, made in parts:
        if (
            made is None
            or first is None
            or at != end
            or (made[0].kind, made[0].nbytes) != (first[0].kind, first[0].nbytes)
        ):
            return None
        end += made[0].nbytes * made[1]
    return (first[0], end // first[0].nbytes) if first is not None and end == of.nbytes else None


def _dtype(to: CType) -> str:
    if to.kind == "bool":
        return "bool_"
    return f"{to.kind}{8 * to.nbytes}"


def _wanted(to: CType) -> str:
    if to.kind == "void":
        return "an array"
    if to.kind == "char":
        return "an array of int8 or uint8"
    if to.kind == "struct" and not to.members:
        return "a function of numbers and pointers (what the structure is made of is not known here: add one)"
    if to.kind == "struct":
        fields = ", ".join(f"{name} at byte {at}" for name, at, _ in to.members)
        return f"a structured array of {to.nbytes} bytes an element ({fields}): np.dtype({{...}}, align=True)"
    return f"an array of {_dtype(to).rstrip('_')}"


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if isinstance(value, (int, float, complex)):
        return f"{value!r} ({type(value).__name__})"
    return f"a {type(value).__name__}"


def _broken_promises(name: str, values: Mapping[str, Any], types: Mapping[str, CType]) -> list[str]:
    arrays = {each: value for each, value in values.items() if isinstance(value, np.ndarray)}
    said = []
    for one in (each for each in arrays if types[each].restrict):
        for other in arrays:
            if other != one and np.may_share_memory(arrays[one], arrays[other]):
                said.append(
                    f"{name}: {one} is declared restrict, and {other} leads to the same memory: what the compiled"
                    " code does then is undefined"
                )
    return said
