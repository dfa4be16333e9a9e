"""`%rooflab EXPR` and `%%rooflab` in IPython and notebooks: code timed, counted and put under the roof."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rooflab.errors import RooflabError, near_matches
from rooflab.units import duration

if TYPE_CHECKING:
    from rooflab.types.machine import Machine
    from rooflab.types.report import Report

USAGE = """\
%rooflab [-m MACHINE] EXPR     time EXPR, count what it asks for, and place it under the roofs of MACHINE
%%rooflab [-m MACHINE]         the same of a cell
%rooflab -m MACHINE            take MACHINE from now on: a file of `rooflab measure`, or a name of the catalogue"""
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:=|\s+|$)")
_LONGEST = 60  # characters of code in a name
_WARM_S, _LIMIT_S = 1.0, 30.0  # of warming up at most, and after which no block begins
_BLOCKS, _BLOCK_S = 10, 0.02


class _Asked(NamedTuple):
    """What a line asks for: the machine (None: as before) and the rest of it."""

    machine: str | None
    code: str


def register(ipython: Any) -> None:
    """Make `%rooflab` and `%%rooflab` known to `ipython`."""
    magic = _Magic(ipython)
    ipython.register_magic_function(magic, "line_cell", "rooflab")


class _Magic:
    """The magic; it keeps the machine that was given last."""

    __name__ = "rooflab"
    __doc__ = USAGE

    def __init__(self, ipython: Any) -> None:
        self._ipython = ipython
        self._machine: Machine | None = None

    def __call__(self, line: str, cell: str | None = None) -> Any:
        """What the code asks for and takes; None where a line says why not, on stderr."""
        try:
            return self._run(line, cell)
        except RooflabError as error:
            click.echo(f"rooflab: {error}", err=True)
        except KeyboardInterrupt:
            click.echo("rooflab: interrupted", err=True)
        return None

    def _run(self, line: str, cell: str | None) -> Any:
        from rooflab import story

        asked = _asked(line)
        machine = self._machine if asked.machine is None else story.machine(asked.machine)
        self._machine = machine
        if cell is None and not asked.code:
            if machine is None or asked.machine is None:
                raise RooflabError(f"no expression, expected {USAGE.splitlines()[0].partition('  ')[0]}")
            click.echo(f"rooflab: from now on under the roofs of {machine.name}")
            return None
        if cell is not None and asked.code:
            raise RooflabError(
                f"%%rooflab: got {asked.code!r} after the options, expected the code below that line"
            )
        return _looked_at(_piece(asked.code, cell, self._ipython.user_ns), self._machine)


def _asked(line: str) -> _Asked:
    """The options at the start of `line`, and what follows them.

    Raises:
        RooflabError: an unknown option, or one without its value.
    """
    rest, machine = line.strip(), None
    while option := _OPTION.match(rest):
        name = option[1]
        if name not in ("-m", "--machine"):
            near = near_matches(name.strip("-"), ["machine", "m"])
            hint = f"; did you mean --{near[0]}?" if near else "; known: -m, --machine"
            raise RooflabError(f"%rooflab: unknown option {name!r}{hint} (an expression that begins with - in ())")
        machine, rest = _first_word(rest[option.end() :])
        if not machine:
            raise RooflabError(f"%rooflab {name}: expected a machine after it, such as -m here.json")
    return _Asked(machine, rest)


def _first_word(text: str) -> tuple[str, str]:
    """The first word, quotes around it taken off, and what follows."""
    text = text.strip()
    if text and text[0] in "'\"" and text.count(text[0]) > 1:
        quoted = text[: text.index(text[0], 1) + 1]
        return shlex.split(quoted)[0], text[len(quoted) :].strip()
    word, _, after = text.partition(" ")
    return word, after.strip()


class _Piece(NamedTuple):
    """Code to look at.

    Attributes:
        name: for people.
        run: runs it once and returns its value, for a cell that of its last line; `empty` the same of
            nothing.
        program: what is captured: one call's function or module with its inputs, else the code as a function of
            the values that it names.
        values: that it names, or takes: they tell the framework.
    """

    name: str
    run: Callable[[], Any]
    empty: Callable[[], Any]
    program: tuple[Any, tuple, Mapping[str, Any]]
    values: tuple[Any, ...]


def _piece(line: str, cell: str | None, namespace: dict[str, Any]) -> _Piece:
    """The code of a line, an expression, or of a cell.

    Raises:
        RooflabError: code that cannot be parsed, or inputs that cannot be evaluated.
    """
    text = line if cell is None else cell
    try:
        tree: Any = ast.parse(text, "<rooflab>", "eval" if cell is None else "exec")
        steps = _steps(tree)
    except SyntaxError as error:
        where = f", line {error.lineno}" if cell is not None and error.lineno else ""
        more = " (statements go below %%rooflab)" if cell is None else ""
        raise RooflabError(f"SyntaxError{where}: {error.msg}{more}") from None
    used = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & namespace.keys())
    tensors = [name for name in used if _framework((namespace[name],)) is not None]
    tensors = [name for name in tensors if not callable(namespace[name])]

    def program(*changed: Any) -> Any:
        return _value(steps, {**namespace, **dict(zip(tensors, changed, strict=True))})

    def scope() -> dict[str, Any]:
        # What a cell assigns stays in it: run again and again it must not change what it starts from.
        return namespace if cell is None else dict(namespace)

    name = " ".join(text.split())
    given = tuple(namespace[name] for name in tensors)
    call = _call(tree.body, namespace) if isinstance(tree, ast.Expression) else None
    values = (*(namespace[name] for name in used), *(() if call is None else call[1]))
    title = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return _Piece(
        title,
        lambda: _value(steps, scope()),
        lambda: _value(_NOTHING, scope()),
        call or (program, given, {}),
        values,
    )


_NOTHING = (None, compile("None", "<rooflab>", "eval"))


def _steps(tree: ast.Expression | ast.Module) -> tuple[Any, Any]:
    """The statements, and the expression whose value is that of the whole; None for either that is not there."""
    if isinstance(tree, ast.Expression):
        return None, compile(tree, "<rooflab>", "eval")
    body, last = tree.body, tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return compile(tree, "<rooflab>", "exec"), None
    before = ast.Module(body[:-1], tree.type_ignores)
    return compile(before, "<rooflab>", "exec"), compile(ast.Expression(last.value), "<rooflab>", "eval")


def _value(steps: tuple[Any, Any], scope: dict[str, Any]) -> Any:
    statements, expression = steps
    if statements is not None:
        exec(statements, scope)  # the user's own code, in the user's own notebook
    return None if expression is None else eval(expression, scope)


def _call(node: ast.expr, scope: dict[str, Any]) -> tuple[Any, tuple, Mapping[str, Any]] | None:
    """The function, arguments and keywords of a call of a name with names; None for any other expression.

    What is computed on the way to a call, or a method of a tensor, is part of what is timed: it is captured too.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    parts = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
    if not all(map(_is_plain, parts)) or any(keyword.arg is None for keyword in node.keywords):
        return None

    def value(part: ast.expr) -> Any:
        return eval(compile(ast.Expression(part), "<rooflab>", "eval"), dict(scope))

    def function() -> Any:
        found = value(node.func)
        return None if _framework((getattr(found, "__self__", None),)) else found

    try:
        keywords = {keyword.arg: value(keyword.value) for keyword in node.keywords if keyword.arg}
        called = function()
        return None if called is None else (called, tuple(map(value, node.args)), keywords)
    except Exception as error:
        raise RooflabError(_first_line(error)) from error


def _is_plain(node: ast.expr) -> bool:
    """Whether it is a constant, a name, or an attribute of a name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, (ast.Name, ast.Constant))


def _framework(values: tuple[Any, ...]) -> str | None:
    """Whose tensors are among `values`; None where there are none that a front end reads."""
    from rooflab.work import front_end

    found = front_end.frameworks_of(values)
    if len(found) > 1:
        raise RooflabError(
            f"tensors of {' and '.join(found)} in one piece of code, expected those of one framework"
        )
    return found[0] if found else "numpy" if any(map(front_end.is_numpy, values)) else None


def _looked_at(piece: _Piece, machine: Machine | None) -> Any:
    framework = _framework(piece.values)
    try:
        taken = _timed(piece)
    except RooflabError:
        raise
    except Exception as error:
        raise RooflabError(_first_line(error)) from error
    if not taken.seconds > 0:
        raise RooflabError(f"{piece.name}: takes no time that a clock can tell")
    told = f"{duration(taken.seconds)} a call (median of {taken.blocks} blocks{_between(taken)})"
    if framework is None:
        raise RooflabError(f"{told}; not counted: it names neither arrays of NumPy nor tensors")
    try:
        return _counted(piece, machine, framework, taken)
    except RooflabError as error:
        if framework != "numpy":
            raise
        raise RooflabError(f"{told}; not counted: {error}") from error


class _Taken(NamedTuple):
    """What was timed: seconds of a run, where another such median lies, how many blocks, what was waited for."""

    seconds: float
    interval: tuple[float, float] | None
    blocks: int
    waited: str


def _timed(piece: _Piece) -> _Taken:
    """The piece run again and again with care; what evaluating nothing takes is taken off."""
    from rooflab.timing import careful, device_events
    from rooflab.timing.finish import finish

    found = finish(piece.run(), piece.name)
    device = device_events.on_cuda(piece.values)
    wait, says = (None, "") if found is None else (found.wait, found.says)
    if device is not None:
        # On the clock of the host: a cell may work there too.
        wait, says = (lambda _: device_events.wait(device)), "the device's work was waited for"
    sample = careful.sampler(piece.run, wait=wait)
    warm = careful.warm_up(sample, most_s=_WARM_S)
    taken = careful.blocks(sample, warm.per_sample, count=_BLOCKS, block_s=_BLOCK_S, limit_s=_LIMIT_S)
    empty = careful.block(careful.sampler(piece.empty), 1000, _BLOCK_S)
    # At most three quarters: the two were timed at different moments.
    median_s = taken.median_s
    off_s = min(empty.median_s, 0.75 * median_s)
    return _Taken(median_s - off_s, _less(taken.interval_s, off_s), len(taken.blocks), says)


def _less(interval: tuple[float, float] | None, off_s: float) -> tuple[float, float] | None:
    return None if interval is None else (max(interval[0] - off_s, 0.0), max(interval[1] - off_s, 0.0))


def _between(taken: _Taken) -> str:
    if taken.interval is None:
        return ""
    low, high = taken.interval
    return f", which lie from {duration(low)} to {duration(high)}"


def _on_cuda(values: tuple[Any, ...]) -> bool:
    from rooflab.timing import device_events

    return device_events.on_cuda(values) is not None


def _counted(piece: _Piece, machine: Machine | None, framework: str, taken: _Taken) -> Report:
    from rooflab import story
    from rooflab.story import counted_call

    fn, args, kwargs = piece.program
    on_cuda = _on_cuda(piece.values)
    how: dict[str, Any] = {"name": piece.name}
    if framework == "numpy" and machine is not None:
        how["cache"] = "warm"  # run again and again on the same arrays
    if framework == "torch" and machine is None:
        how["device"] = "cuda" if on_cuda else "cpu"
    if framework == "jax" and machine is not None and not any(map(counted_call.is_jitted, (fn, *piece.values))):
        how["mode"] = "eager"  # outside of jit each operation is dispatched by itself
    try:
        report = story.analyze(fn, *args, kwargs=kwargs, machine=machine, **how)
    except RooflabError:
        raise
    except Exception as error:
        raise RooflabError(_first_line(error)) from error
    return _with_time(report, machine, taken, framework, on_cuda=on_cuda)


def _with_time(report: Report, machine: Machine | None, taken: _Taken, framework: str, *, on_cuda: bool) -> Report:
    """`report` with the time that was taken here, unless its machine is not this one: then that is said."""
    from rooflab.story import own_times
    from rooflab.types.own_time import Measurement

    why = _apart(machine, on_cuda)
    if why is not None:
        click.echo(f"rooflab: {duration(taken.seconds)} a call here; {why}", err=True)
        return report
    said = f"timed here: the median of {taken.blocks} blocks of calls{_between(taken)}, {framework}"
    notes = (said, *([taken.waited] if taken.waited else []))
    return own_times.laid(report, [], taken.seconds, Measurement(by="timed here", notes=notes))


def _apart(machine: Machine | None, on_cuda: bool) -> str | None:
    """Why a time taken here is not one of `machine`; None where it may be."""
    from rooflab.story import measured

    if machine is None:
        return None
    if machine.kind == "gpu":
        return None if on_cuda else f"that is the CPU's time, not one of {machine.name}"
    try:
        measured.check(machine)
    except RooflabError as error:
        return str(error).removeprefix("measure: ")
    return None


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
