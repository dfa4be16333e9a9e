"""A plain Python function of loops, as a syntax tree with what it takes from outside."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops.read import decorated

MODULES = {"math": math, "np": np}  # under these names the generated files import them


class BeyondSource(RooflabError):
    """What cannot be counted from the source; the function as numba lowers it may be (`loops.lowered`)."""


class Unseen(BeyondSource):
    """A call whose accesses its source does not show: where numba refuses it, this is not why."""


class SourceLines(Protocol):
    """The text of a function, in whatever language: its name, its file, the line it begins in, all lines of it."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def path(self) -> str: ...  # noqa: D102
    @property
    def line(self) -> int: ...  # noqa: D102
    @property
    def lines(self) -> Mapping[int, str]: ...  # noqa: D102


class Source(NamedTuple):
    """A function of loops.

    Attributes:
        name: of the function.
        path: of its file, as errors name it.
        tree: its definition, line numbers those of the file, without decorators and docstring.
        constants: numbers that it reads from its module, by name.
        modules: names under which it reaches `math` and `numpy`, and functions taken from them
            ("sqrt" → "math.sqrt").
        lines: the text of each line of it, by number.
    """

    name: str
    path: str
    tree: ast.FunctionDef
    constants: Mapping[str, Any]
    modules: Mapping[str, str]
    lines: Mapping[int, str]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its arguments, in order."""
        return tuple(each.arg for each in self.tree.args.args)

    @property
    def line(self) -> int:
        """The line that it begins in."""
        return self.tree.lineno

    def at(self, node: ast.AST) -> str:
        """Where `node` stands: "FILE:LINE"."""
        return f"{self.path}:{getattr(node, 'lineno', self.tree.lineno)}"


def read(fn: Callable[..., Any]) -> Source:
    """The source of `fn`: a plain function, or one that numba has compiled.

    Raises:
        RooflabError: no function, or one whose source cannot be read; arguments with a star.
    """
    fn = inspect.unwrap(getattr(fn, "py_func", fn))
    if not inspect.isfunction(fn):
        raise RooflabError(f"got a {type(fn).__name__}, expected a plain Python function of loops over arrays")
    if fn.__name__ == "<lambda>":
        raise RooflabError("got a lambda, expected a function written with def: loops are statements")
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError) as error:
        raise RooflabError(f"{fn.__name__}: its source cannot be read ({error}); write it in a file") from None
    tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    path = inspect.getsourcefile(fn) or "<source>"
    ast.increment_lineno(tree, first - 1)
    if not isinstance(tree, ast.FunctionDef):
        raise RooflabError(f"{path}:{first}: {fn.__name__} is asynchronous, expected a plain function (def)")
    return _source(fn, tree, path, {first + i: line.rstrip() for i, line in enumerate(lines)})


def definition(function: Callable[..., Any]) -> tuple[ast.FunctionDef, list[str], int]:
    """The tree of `function`, numbered as its file is; its lines, and the number of the first.

    Raises:
        RooflabError: its source cannot be read, or is no definition on lines of its own.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError) as error:
        raise RooflabError(
            f"{function.__name__}: its source cannot be read ({error}); write it in a file, with def"
        ) from None
    if not isinstance(tree, ast.FunctionDef):
        raise RooflabError(f"{function.__name__}: expected a function written with def, on lines of its own")
    ast.increment_lineno(tree, first - 1)
    return tree, lines, first


def read_whole(fn: Callable[..., Any]) -> Source:
    """The source of `fn`, whatever stands in it.

    Raises:
        RooflabError: no function, or one whose source cannot be read.
    """
    function = inspect.unwrap(decorated.python_function(fn))
    if not inspect.isfunction(function):
        raise RooflabError(f"got a {type(function).__name__}, expected a Python function over arrays")
    tree, lines, first = definition(function)
    numbered = {first + n: line.rstrip() for n, line in enumerate(lines)}
    return Source(tree.name, inspect.getsourcefile(function) or "<source>", tree, {}, {}, numbered)


def _source(fn: Callable[..., Any], tree: ast.FunctionDef, path: str, lines: dict[int, str]) -> Source:
    parameters = tree.args
    if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.posonlyargs:
        raise BeyondSource(
            f"{path}:{tree.lineno}: {tree.name} has arguments that are starred, keyword-only or"
            " positional-only, expected plain ones"
        )
    tree.decorator_list, tree.returns = [], None
    for each in parameters.args:
        each.annotation = None
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.Pass(lineno=tree.lineno, col_offset=0)]
    constants, modules = _outside(fn, tree, path)
    return Source(tree.name, path, tree, constants, modules, lines)


def _outside(fn: Callable[..., Any], tree: ast.FunctionDef, path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What the function takes from its module: constants, and math's and NumPy's functions."""
    cells = dict(_cells(fn))
    ours = {each.arg for each in tree.args.args}
    ours |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    constants: dict[str, Any] = {}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or node.id in ours or not isinstance(node.ctx, ast.Load):
            continue
        name = node.id
        value = cells.get(name, fn.__globals__.get(name, getattr(builtins, name, None)))
        where = f"{path}:{node.lineno}"
        if isinstance(value, (bool, int, float, complex, np.generic)):
            # A float32 of the module computes in fp32: its format is kept.
            constants[name] = value.item() if isinstance(value, (np.integer, np.bool_, np.float64)) else value
        elif isinstance(value, np.ndarray):
            raise BeyondSource(
                f"{where}: {name} is an array of the module, expected an argument: add {name} to"
                f" the arguments of {tree.name}"
            )
        else:
            name_of_value = _known_name(value)
            if name_of_value is not None:
                modules[name] = name_of_value
    return constants, modules


def _cells(fn: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """What the function takes from the functions around it; a name that has no value yet is left out."""
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            # an empty cell: the check of names says that it is none
            continue


def _known_name(value: Any) -> str | None:
    """The full name of `value`: "math", "np.exp", "range", "prange", …; None for anything else."""
    if value is math or value is np:
        return "math" if value is math else "np"
    if inspect.ismodule(value) and value.__name__ == "numba":
        return "numba"
    name = getattr(value, "__name__", "")
    if name == "prange" and getattr(value, "__module__", "").startswith("numba"):
        return "prange"
    for module, held in MODULES.items():
        # In its dictionary: asking NumPy for an attribute that is leaving, such as np.str, warns.
        if name and vars(held).get(name) is value:
            return f"{module}.{name}"
    return name if vars(builtins).get(name) is value and value is not None else None


def has_no_loops(fn: Callable[..., Any]) -> bool:
    """Whether a plain function has no loop of its own, so that NumPy's calls are all that works through arrays."""
    if not inspect.isfunction(fn):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError):
        # a function whose source cannot be read: whoever reads it says so
        return False
    return not any(isinstance(each, (ast.For, ast.While, ast.comprehension)) for each in ast.walk(tree))
