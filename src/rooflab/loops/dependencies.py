"""All that a Python function's answer follows from beside its arguments, described without importing numba.

Its code and the text of its source, what it is decorated with, and whatever its names stand for: numbers, arrays
by their content, other functions in the same way. Numba may also be told elsewhere how to compile what it calls
(`numba.extending.overload`), so every file of every module that is loaded counts, but Python's own and those of
the packages that answers are keyed by anyway; what is installed counts by when anything was installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rooflab.loops.read import decorated

# Modules whose attributes are told by their names: their versions are of every key.
_KNOWN = frozenset({"numpy", "numba", "math", "cmath", "builtins", "operator", "random"})
_MOST_READ_BYTES = 1 << 20  # of a file; of larger ones its size and time tell whether it changed
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, range, slice, np.dtype)


class _Unknown(Exception):
    """Something whose description is not known."""


def described(fn: Callable[..., Any]) -> tuple[Any, ...] | None:
    """A description of `fn`, whose `repr` says all; None where something that it uses is not known."""
    if getattr(sys.modules.get("__main__"), "__file__", None) is None:
        # what was typed there may tell numba how to compile what it calls
        return None
    try:
        return (_value(fn, {}), _loaded())
    except _Unknown:
        return None


def _value(value: Any, seen: dict[int, int]) -> Any:
    """A description of what a name stands for.

    Raises:
        _Unknown: none is known.
    """
    if id(value) in seen:
        return "again", seen[id(value)]
    if isinstance(value, _PLAIN):
        return type(value).__name__, repr(value)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise _Unknown
        # where it lies does not count: numba copies it into its code
        digest = hashlib.sha256(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data).hexdigest()
        said = value.dtype.descr, value.dtype.itemsize, value.shape, value.strides, value.flags.writeable
        return "array", said, digest
    if type(value) in (tuple, frozenset):
        parts = [_value(each, seen) for each in value]
        return type(value).__name__, parts if type(value) is tuple else sorted(parts, key=repr)
    if isinstance(value, types.ModuleType):
        raise _Unknown
    named = _by_name(value)
    if named is not None:
        return named
    if decorated.is_compiled(value):
        options = sorted((name, _value(each, seen)) for name, each in decorated.options(value).items())
        types_ = [str(each) for each in getattr(value, "signatures", ())] if value._can_compile is False else []
        return "compiled", options, types_, _function(decorated.python_function(value), seen)
    if isinstance(value, types.FunctionType):
        return _function(value, seen)
    raise _Unknown


def _by_name(value: Any) -> tuple[str, ...] | None:
    """A function or type of a package whose version is known, by its name; None of others."""
    if isinstance(value, np.ufunc):
        return ("name", "numpy", value.__name__) if getattr(np, value.__name__, None) is value else None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module.partition(".")[0] not in _KNOWN:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return ("name", module, name) if found is value else None


def _function(function: Any, seen: dict[int, int]) -> tuple[Any, ...]:
    if not isinstance(function, types.FunctionType):
        raise _Unknown
    seen[id(function)] = len(seen)
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        # typed where nothing keeps it: its code says what it does
        source = ""
    code = function.__code__
    names = set(names_in(code))
    # numba asks for them in no order of its own, and so do we
    outer = [(name, _of_name(function.__globals__[name], names, seen)) for name in sorted(names)
             if name in function.__globals__]  # fmt: skip
    cells = [_value(each.cell_contents, seen) for each in function.__closure__ or ()]
    defaults = [_value(each, seen) for each in function.__defaults__ or ()]
    keywords = sorted((name, _value(each, seen)) for name, each in (function.__kwdefaults__ or {}).items())
    return function.__qualname__, function.__module__, _code(code), source, outer, cells, defaults, keywords


def _of_name(value: Any, names: set[str], seen: dict[int, int]) -> Any:
    """What a global name stands for; of a module those attributes that any name of the function may ask for."""
    if not isinstance(value, types.ModuleType):
        return _value(value, seen)
    if value.__name__.partition(".")[0] in _KNOWN:
        return "module", value.__name__
    if id(value) in seen:
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    held = vars(value)
    return "module", value.__name__, [(n, _of_name(held[n], names, seen)) for n in sorted(names) if n in held]


def functions_of(fn: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """`fn` and the functions of Python's or numba's that it calls by a name, and so on; those of modules too."""
    seen: set[int] = set()
    todo: list[Any] = [fn]
    while todo:
        each = todo.pop()
        function = decorated.python_function(each)
        if id(each) in seen or not isinstance(function, types.FunctionType):
            continue
        seen.add(id(each))
        yield each
        if (function.__module__ or "").partition(".")[0] in _KNOWN:
            continue
        names = set(names_in(function.__code__))
        held = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # a name that has no value yet
                held[name] = cell.cell_contents
        for value in held.values():
            inside = vars(value) if isinstance(value, types.ModuleType) else {}
            todo += [value, *(inside[name] for name in names & inside.keys())]


def names_in(code: types.CodeType) -> Iterator[str]:
    """Global names and attributes that code asks for, and the code inside it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from names_in(each)


def _code(code: types.CodeType) -> tuple[Any, ...]:
    constants = [_code(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
    said = code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return *said, code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_filename, list(code.co_lines())


def _loaded() -> list[tuple[Any, ...]]:
    """What is in the files of loaded modules that are nobody's package; when any package was installed."""
    places = {sysconfig.get_path(each) for each in ("stdlib", "platstdlib", "purelib", "platlib")}
    here = str(Path(__file__).parents[2])
    found = []
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and not path.startswith((*places, here)):
            found.append(_held(Path(path)))
    return [*(_stated(Path(each)) for each in sorted(places)), *sorted(found)]


def _held(path: Path) -> tuple[Any, ...]:
    try:
        if path.stat().st_size <= _MOST_READ_BYTES:
            return str(path), hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return (str(path),)
    return _stated(path)


def _stated(path: Path) -> tuple[Any, ...]:
    try:
        said = path.stat()
    except OSError:
        return (str(path),)
    return str(path), said.st_size, said.st_mtime_ns
