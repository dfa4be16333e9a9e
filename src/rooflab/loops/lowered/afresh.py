"""Copies of a user's functions whose helpers numba compiles anew: what the user has stays as it is.

A helper may stand in the function's module, in a function around it, or in a module that it names.
"""

from __future__ import annotations

import types as python_types
from collections.abc import Callable
from typing import Any

import numba
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

from rooflab.loops.dependencies import names_in
from rooflab.loops.read.decorated import options, python_function

# Options of the user's that change values.
VALUED = ("fastmath", "error_model", "inline", "forceinline", "locals")


def with_helpers(fn: Callable[..., Any]) -> Any:
    """A copy of a Python function that calls its plain helpers compiled, as numba asks for."""
    return _Copies(plain_only=True).of(python_function(fn))


def all_afresh(fn: Callable[..., Any]) -> Any:
    """A copy of a Python function all of whose helpers are compiled anew: theirs are optimised already."""
    return _Copies(plain_only=False).of(python_function(fn))


class _Copies:
    """Copies made so far, by the identity of what they stand in for.

    `plain_only`: of plain functions alone; what is compiled stays as it is.
    """

    def __init__(self, plain_only: bool) -> None:
        self._plain_only = plain_only
        self._made: dict[int, Any] = {}

    def of(self, function: Any) -> Any:
        """A copy of a Python function that calls copies of its helpers."""
        if id(function) in self._made:
            return self._made[id(function)]
        scope = dict(function.__globals__)
        cells = tuple(python_types.CellType() for _ in function.__closure__ or ())
        copy = python_types.FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, cells or None
        )
        copy.__kwdefaults__, copy.__qualname__, copy.__module__ = (
            function.__kwdefaults__,
            function.__qualname__,
            function.__module__,
        )
        self._made[id(function)] = copy
        names = set(names_in(function.__code__))
        for name in names & scope.keys():
            scope[name] = self._instead_of(scope[name], names)
        for cell, given in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self._instead_of(given.cell_contents, names)
            except ValueError:
                # a name that has no value yet: numba says so
                continue
        return copy

    def _instead_of(self, value: Any, names: set[str]) -> Any:
        """What a copy calls in place of `value`; of a module, those of `names` in it are looked at."""
        if isinstance(value, (DUFunc, GUFunc)):
            return value if self._plain_only else self._ufunc(value)
        if isinstance(value, Dispatcher):
            return value if self._plain_only else self._helper(value)
        if isinstance(value, python_types.FunctionType):
            return value if _is_known_to_numba(value) else self._helper(value)
        return self._module(value, names) if isinstance(value, python_types.ModuleType) else value

    def _helper(self, helper: Any) -> Any:
        kept = {key: each for key, each in options(helper).items() if key in VALUED}
        # a helper's accesses are checked as the function's own are where it is lowered
        checked = not self._plain_only
        chosen: dict[str, Any] = {"error_model": "numpy", **kept, "nogil": True, "boundscheck": checked}
        return numba.njit(**chosen)(self.of(python_function(helper)))

    def _ufunc(self, ufunc: Any) -> Any:
        """A copy of what `vectorize` or `guvectorize` made, for the types that the user compiled it for."""
        if id(ufunc) in self._made:
            return self._made[id(ufunc)]
        states = ufunc._reduce_states()
        if isinstance(ufunc, GUFunc):
            copy = GUFunc._rebuild(**{**states, "py_func": self.of(states["py_func"])})
        else:
            function = self.of(ufunc._dispatcher.py_func)
            copy = DUFunc(function, ufunc.identity, targetoptions=ufunc.targetoptions)
            for signature in states["siglist"]:
                copy.add(signature)
            if states["frozen"]:
                copy.disable_compile()
        self._made[id(ufunc)] = copy
        return copy

    def _module(self, module: Any, names: set[str]) -> Any:
        """The module, or a copy of it with those of `names` in it that are to be compiled."""
        if id(module) in self._made:
            return self._made[id(module)]
        self._made[id(module)] = module  # modules that name one another
        held = vars(module)
        changed = {
            name: instead
            for name in names & held.keys()
            if (instead := self._instead_of(held[name], names)) is not held[name]
        }
        if changed:
            copy = python_types.ModuleType(module.__name__)
            vars(copy).update({**held, **changed})
            self._made[id(module)] = copy
        return self._made[id(module)]


def _is_known_to_numba(function: Any) -> bool:
    """Whether numba has an implementation of a plain function of its own, as of many of NumPy's."""
    try:
        # until something was compiled numba does not know all that it has
        context: Any = cpu_target.target_context
        context.refresh()
        known: Any = cpu_target.typing_context
        known.resolve_value_type(function)
    except (NumbaError, ValueError):
        return False
    return True
