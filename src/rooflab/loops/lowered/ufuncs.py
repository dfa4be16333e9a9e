"""Functions of numba's `vectorize` and `guvectorize` as the loops that NumPy runs them in.

The user's body is put into a loop over the elements, or over the pieces that its layout names, with the user's
lines: what is counted and profiled. Timed is the function itself, as NumPy calls it.
"""

from __future__ import annotations

import ast
import inspect
import re
import types as python_types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

from rooflab.errors import RooflabError
from rooflab.loops.read.source import definition

_OPTIONS = ("fastmath", "boundscheck", "error_model")
_CORE = re.compile(r"\(([^()]*)\)")


class AsLoop(NamedTuple):
    """A function that loops, what it is called with, and the user's own as NumPy calls it with the same."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    own: Callable[..., None]


class _Operand(NamedTuple):
    """An argument: its name, its value, how many of its last dimensions the body sees, whether it is a result."""

    name: str
    value: Any
    inner: int
    result: bool
    one: bool = False  # the body sees an array of one element


def as_loop(fn: Any, args: Sequence[Any]) -> AsLoop:
    """`fn` on `args` as a loop; results that are not given are made.

    Raises:
        RooflabError: a function whose body is not kept, too few or too many arguments, shapes that do not fit.
    """
    if isinstance(fn, np.ufunc):
        raise RooflabError(
            f"{fn.__name__} is compiled without its Python function (NumPy's own, or target='parallel'): expected"
            " a function of loops, or vectorize and guvectorize with target='cpu'"
        )
    whole: Any = fn
    body: Any = whole._dispatcher.py_func if isinstance(fn, DUFunc) else whole.gufunc_builder.py_func
    names = list(inspect.signature(body).parameters)
    layout = [_dimensions(each) for each in _CORE.findall(fn.signature or "")] or [0] * (len(names) + 1)
    every = [*names, _free("out", names)] if isinstance(fn, DUFunc) else names
    inputs = len(names) if isinstance(fn, DUFunc) else fn.nin
    if len(args) not in (inputs, len(every)):
        raise RooflabError(
            f"{body.__name__}: got {len(args)} arguments, expected {inputs}, or {len(every)} with its results:"
            f" {body.__name__}({', '.join(every)})"
        )
    values = [each if np.ndim(each) else (each.item() if hasattr(each, "item") else each) for each in args]
    for name, value in zip(every, values, strict=False):
        if not isinstance(value, (np.ndarray, bool, int, float, complex)):
            raise RooflabError(
                f"{body.__name__}: argument {name} is a {type(value).__name__}, expected an array or a number"
            )
    _check_types(fn, body.__name__, every[:inputs], values[:inputs])
    if len(values) < len(every):
        values += _results(fn, body.__name__, values)
    operands = [
        _Operand(name, value, inner, n >= inputs, not inner and _sees_array(fn, n, inputs))
        for n, (name, value, inner) in enumerate(zip(every, values, layout, strict=True))
    ]
    outer = _outer(body.__name__, operands)
    flat = [_flat(each, outer) for each in operands]
    if outer and all(each is not None for each in flat):
        # NumPy makes one loop of dimensions that lie one behind the other
        operands = [each._replace(value=value) for each, value in zip(operands, flat, strict=True)]
        outer = (int(np.prod(outer)),)
    function = _written(body, operands, outer, isinstance(fn, DUFunc))
    own = _own(fn, inputs)
    given = (fn if isinstance(fn, DUFunc) else fn.gufunc_builder).targetoptions
    options = {name: value for name, value in given.items() if name in _OPTIONS and value}
    chosen: dict[str, Any] = {"error_model": "numpy", "nogil": True, **options}
    made = numba.njit(**chosen)(function) if options else function
    return AsLoop(made, tuple(each.value for each in operands), own)


def _dimensions(text: str) -> int:
    return len([each for each in text.split(",") if each.strip()])


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _own(fn: Any, inputs: int) -> Callable[..., None]:
    def call(*values: Any) -> None:
        with np.errstate(all="ignore"):
            fn(*values[:inputs], out=values[inputs:])

    def with_results(*values: Any) -> None:
        fn(*values)

    return with_results if isinstance(fn, GUFunc) and fn.is_dynamic else call


def _check_types(fn: Any, name: str, names: Sequence[str], values: Sequence[Any]) -> None:
    """Raise where NumPy would convert an array on the way: what it does so is not in the loop."""
    known = [each.partition("->")[0] for each in fn.types]
    if not known or not getattr(fn, "_frozen", True):
        return
    given = [value.dtype.char if isinstance(value, np.ndarray) else None for value in values]
    alike = {"l": "q", "L": "Q"}
    for each in known:
        if all(a is None or alike.get(a, a) == alike.get(b, b) for a, b in zip(given, each, strict=False)):
            return
    for place, value in enumerate(values):
        wanted = [np.dtype(each[place]).name for each in known]
        if isinstance(value, np.ndarray) and value.dtype.name not in wanted:
            raise RooflabError(
                f"{name}: argument {names[place]} is an array of {value.dtype}, and it is compiled for"
                f" {', '.join(dict.fromkeys(wanted))}: NumPy converts it on the way, which is not counted:"
                f" .astype(np.{wanted[0]})"
            )


def _results(fn: Any, name: str, values: Sequence[Any]) -> list[Any]:
    copies = [each.copy() if isinstance(each, np.ndarray) else each for each in values]
    try:
        with np.errstate(all="ignore"):
            made = fn(*copies)
    except (TypeError, ValueError) as error:
        raise RooflabError(f"{name}: {str(error).removeprefix(f'{name}: ')}") from None
    return [np.atleast_1d(np.empty_like(each)) for each in (made if isinstance(made, tuple) else (made,))]


def _sees_array(fn: Any, place: int, inputs: int) -> bool:
    """Whether the body of a guvectorize sees what has no dimension of its own as an array of one element."""
    if isinstance(fn, DUFunc):
        return False
    declared = getattr(fn.gufunc_builder, "_sigs", None) or []
    arrays = (isinstance(each.args[place], numba.types.Array) for each in declared if hasattr(each, "args"))
    return next(arrays, place >= inputs)


def _outer(name: str, operands: Sequence[_Operand]) -> tuple[int, ...]:
    """The dimensions that are looped over."""
    shapes = []
    for each in operands:
        shape = np.shape(each.value)
        if len(shape) < each.inner:
            raise RooflabError(
                f"{name}: argument {each.name} has {len(shape)} dimensions, expected {each.inner} or more"
            )
        shapes.append(shape[: len(shape) - each.inner])
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        told = ", ".join(f"{each.name} {np.shape(each.value)}" for each in operands)
        raise RooflabError(f"{name}: shapes that do not go together: {told}") from None


def _flat(operand: _Operand, outer: tuple[int, ...]) -> Any:
    """The argument with its outer dimensions made one; None where they do not lie one behind the other."""
    value = operand.value
    if not isinstance(value, np.ndarray):
        return value
    shape = value.shape[: value.ndim - operand.inner]
    if shape != outer or not value.flags.c_contiguous:
        return None
    return value.reshape(-1, *value.shape[value.ndim - operand.inner :])


def _written(body: Any, operands: Sequence[_Operand], outer: tuple[int, ...], returns: bool) -> Any:
    """The loop, as a function that stands where the user's stands."""
    tree, _, _ = definition(body)
    scope = {**body.__globals__, **inspect.getclosurevars(body).nonlocals}
    taken = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)} | set(scope)
    around = [_free(f"i{n}" if len(outer) > 1 else "i", sorted(taken)) for n in range(len(outer))]
    inside = {each.name: _free(f"{each.name}_here", sorted(taken)) for each in operands}
    head = [f"{inside[each.name]} = {_piece(each, around, outer)}" for each in operands]
    result = operands[-1]
    statements: list[ast.stmt]
    if returns and not outer:
        around, outer = ["i"], (1,)
    if returns:
        place = f"{result.name}[{', '.join(around)}]"
        head = head[:-1]
        if _returns_in_loops(tree):
            helper = _free(body.__name__, sorted(taken))
            scope[helper] = numba.njit(error_model="numpy", nogil=True)(body)
            given = ", ".join(inside[each.name] for each in operands[:-1])
            statements = ast.parse(f"{place} = {helper}({given})").body
            for each in statements:
                _at(each, tree.lineno)
        else:
            statements = _Inner(inside, place).all_of(tree.body)
    else:
        statements = _Inner(inside, None, bool(outer)).all_of(tree.body)
    held = [_at(each, tree.lineno) for each in ast.parse("\n".join(head)).body]
    nest: list[ast.stmt] = [*held, *statements]
    for name, count in zip(reversed(around), reversed(outer), strict=True):
        loop = ast.parse(f"for {name} in range({_length(operands, outer, around.index(name), count)}): pass").body[
            0
        ]
        assert isinstance(loop, ast.For)
        _at(loop, tree.lineno)
        loop.body = nest
        nest = [loop]
    made = ast.parse(f"def {body.__name__}({', '.join(each.name for each in operands)}): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    _at(made, tree.lineno)
    made.body = nest
    module = ast.fix_missing_locations(ast.Module([made], []))
    code = compile(module, inspect.getsourcefile(body) or "<source>", "exec")
    exec(code, scope)
    function = scope[body.__name__]
    assert isinstance(function, python_types.FunctionType)
    function.__module__ = body.__module__
    return function


def _at(node: Any, line: int) -> Any:
    each: Any
    for each in ast.walk(node):
        if hasattr(each, "lineno"):
            each.lineno = each.end_lineno = line
    return node


def _length(operands: Sequence[_Operand], outer: tuple[int, ...], axis: int, count: int) -> str:
    """How many trips: a length of an array, which the compiler does not know either."""
    for each in operands:
        own = np.ndim(each.value) - each.inner
        place = axis - (len(outer) - own)
        if own and place >= 0 and np.shape(each.value)[place] == count:
            return f"{each.name}.shape[{place}]"
    return str(count)


def _piece(operand: _Operand, around: Sequence[str], outer: tuple[int, ...]) -> str:
    """What the body sees of an argument in a trip."""
    own = np.ndim(operand.value) - operand.inner
    if own <= 0:
        return operand.name
    shape = np.shape(operand.value)[:own]
    index = ["0" if shape[n] == 1 else around[len(outer) - own + n] for n in range(own)]
    if operand.one:
        index[-1] = f"{index[-1]}:{index[-1]} + 1"
    return f"{operand.name}[{', '.join(index)}]"


class _Inner(ast.NodeTransformer):
    """The body in the loop: its parameters renamed; what it returns is stored at `place`."""

    def __init__(self, names: dict[str, str], place: str | None, looped: bool = True) -> None:
        self._names, self._place, self._looped = names, place, looped

    def all_of(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of `body`, rewritten; a docstring is left out."""
        text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        made = [self.visit(each) for each in body[1 if text else 0 :]] or [ast.Pass()]
        return [one for each in made for one in (each if isinstance(each, list) else [each])]

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Renamed where it is a parameter."""
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)

    def visit_Return(self, node: ast.Return) -> Any:
        """A store, and the next trip."""
        on: ast.stmt = ast.Continue() if self._looped else ast.Return(None)
        on = ast.copy_location(on, node)
        if self._place is None or node.value is None:
            return on
        target = ast.parse(f"{self._place} = 0").body[0]
        assert isinstance(target, ast.Assign)
        _at(target, node.lineno)
        target.value = self.visit(node.value)
        return [target, on]


def _returns_in_loops(tree: ast.FunctionDef) -> bool:
    """Whether the body returns from within a loop of its own, or defines functions."""
    nested = (ast.For, ast.While, ast.FunctionDef, ast.Lambda)
    return any(
        isinstance(inner, ast.Return) or isinstance(each, (ast.FunctionDef, ast.Lambda))
        for each in ast.walk(tree)
        if isinstance(each, nested) and each is not tree
        for inner in ast.walk(each)
    )
