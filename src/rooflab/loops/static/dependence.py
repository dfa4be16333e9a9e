"""Which loops may run their iterations at once, by rule; anything not understood stays in order."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes, indices, root


class Verdict(NamedTuple):
    """Whether a loop nest can run in parallel: `tree` with prange in it, or None and the reason."""

    tree: ast.FunctionDef | None
    reason: str
    given: bool = False


def parallel(loop: Understood) -> Verdict:
    """`loop` with its outermost independent loops over prange; as written where it already has some."""
    source, types, arguments = loop
    tree = copy.deepcopy(source.tree)
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    if any(types.called(each) == "prange" for each in calls):
        return Verdict(tree, "prange as written", given=True)
    if shared(arguments):
        return Verdict(None, "its arrays share memory: an iteration may read what another writes")
    reasons: list[str] = []
    variables = _spread(tree.body, types, reasons, ())
    if not variables:
        return Verdict(None, reasons[0] if reasons else "it has no loop over range")
    return Verdict(ast.fix_missing_locations(tree), f"over {' and '.join(dict.fromkeys(variables))}")


def _spread(
    body: Sequence[ast.stmt],
    types: ValueTypes,
    reasons: list[str],
    after: Sequence[ast.stmt],
    depth: int = 0,
) -> list[str]:
    """The variables of the loops of `body` that were put over prange; `after` is what follows it."""
    variables = []
    for number, node in enumerate(body):
        rest = [*body[number + 1 :], *after]
        if isinstance(node, ast.For):
            reason = _why_not(node, types) or _read_after(node, rest)
            if reason is None:
                assert isinstance(node.iter, ast.Call)
                assert isinstance(node.target, ast.Name)
                variables.append(node.target.id)
                _over_prange(node, node.iter, node.target.id)
                continue
            reasons.append(f"line {node.lineno}: {reason}")
        if isinstance(node, (ast.For, ast.While)) and depth < 2:
            variables += _spread(node.body, types, reasons, rest, depth + 1)
    return variables


def _over_prange(node: ast.For, call: ast.Call, variable: str) -> None:
    """Put `node` over prange; numba knows no steps but constant ones there, so that others are counted out."""
    if len(call.args) == 3 and not isinstance(call.args[2], ast.Constant):
        low, high, step = map(ast.unparse, call.args)
        number = f"_rl_{variable}"
        count = f"(({high}) - ({low}) + ({step}) - 1) // ({step})"
        spread = ast.parse(f"for {number} in prange({count}):\n    {variable} = ({low}) + {number} * ({step})")
        loop = spread.body[0]
        assert isinstance(loop, ast.For)
        for each in ast.walk(loop):
            ast.copy_location(each, node)
        node.target, node.iter, node.body = loop.target, loop.iter, [*loop.body, *node.body]
        return
    call.func = ast.copy_location(ast.Name("prange", ast.Load()), call)


def _why_not(node: ast.For, types: ValueTypes) -> str | None:
    """Why the iterations of `node` depend on their order; None where they don't."""
    assert isinstance(node.target, ast.Name)
    variable = node.target.id
    for each in ast.walk(node):
        if isinstance(each, (ast.Return, ast.Break, ast.While)):
            return (
                f"{type(each).__name__.lower()} in the loop over {variable} ends it at a moment that data decide"
            )
        if isinstance(each, ast.Assign) and types.array(_first(each.targets[0])) is not None:
            return f"arrays change places in the loop over {variable}"
    assert isinstance(node.iter, ast.Call)
    if (
        len(node.iter.args) == 3
        and _one(node.iter.args[2]) is None
        and not isinstance(node.iter.args[2], ast.Name)
    ):
        return f"the step of the loop over {variable} is not a plain number"
    return _carried_scalar(node, types) or _carried_array(node, types, variable)


def _carried_scalar(node: ast.For, types: ValueTypes) -> str | None:
    """A local that an iteration reads before it writes it, other than a sum."""
    written = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    written -= {n.target.id for n in ast.walk(node) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
    for name in sorted(written):
        first = first_use(node.body, name)
        if first == "write":
            continue
        uses = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name]
        sums = [
            n
            for n in ast.walk(node)
            if isinstance(n, ast.AugAssign)
            and isinstance(n.target, ast.Name)
            and n.target.id == name
            and isinstance(n.op, (ast.Add, ast.Mult))
        ]
        if len(sums) != len(uses):
            return f"{name} is carried from one iteration to the next"
    return None


def _read_after(node: ast.For, rest: Sequence[ast.stmt]) -> str | None:
    """A local that the last iteration of `node` leaves to what follows; sums are of all iterations."""
    sums = {n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for name in sorted(names - sums):
        if first_use(rest, name) == "read":
            return f"{name} is read after the loop, as its last iteration left it"
    return None


def first_use(body: Sequence[ast.stmt], name: str) -> str | None:
    """How `body` uses `name`: "write" where every path assigns it before it reads it, else "read"; None: not."""
    for node in body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            if node.value is not None and _reads(node.value, name):
                return "read"
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_reads(t, name) for t in targets):
                return "read"
            if any(isinstance(n, ast.Name) and n.id == name for t in targets for n in ast.walk(t)):
                return "write"
        elif isinstance(node, ast.If):
            if _reads(node.test, name):
                return "read"
            uses = [first_use(node.body, name), first_use(node.orelse, name)]
            if "read" in uses or uses.count("write") == 1:
                return "read"
            if uses == ["write", "write"]:
                return "write"
        elif isinstance(node, ast.For) and ast.unparse(node.target) == name:
            return "read" if _reads(node.iter, name) else "write"
        elif any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)):
            if isinstance(node, ast.For) and not _reads(node.iter, name):
                inner = first_use(node.body, name)
                if inner is not None:
                    # An inner loop may run no iteration: then what follows would read the old value.
                    rest = first_use(body[list(body).index(node) + 1 :], name)
                    return "read" if inner == "read" or rest == "read" else "write"
                continue
            return "read"
    return None


def _reads(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))


def _carried_array(node: ast.For, types: ValueTypes, variable: str) -> str | None:
    """An array that one iteration may write where another reads or writes."""
    refs = list(_accesses(node, types))
    own = _blocks_of(node, variable)
    for name in sorted({ref.name for ref in refs if ref.write}):
        every = [ref.indices for ref in refs if ref.name == name]
        apart = any(
            axis < min(map(len, every))
            and len({ast.unparse(each[axis]) for each in every}) == 1
            and _own_place(every[0][axis], own)
            for axis in range(max(map(len, every)))
        )
        if not apart:
            return f"iterations of the loop over {variable} may meet in {name}"
    return None


class _Access(NamedTuple):
    name: str
    indices: list[ast.expr]
    write: bool


def _accesses(node: ast.AST, types: ValueTypes) -> Iterator[_Access]:
    """The array accesses in `node`, those of a[i][j] once."""
    if isinstance(node, ast.Subscript) and types.array(root(node)) is not None:
        base = root(node)
        assert isinstance(base, ast.Name)
        places = indices(node)
        yield _Access(base.id, places, isinstance(node.ctx, ast.Store))
        for each in places:
            yield from _accesses(each, types)
        return
    for child in ast.iter_child_nodes(node):
        yield from _accesses(child, types)


def _blocks_of(node: ast.For, variable: str) -> set[str]:
    """`variable`, and those that run inside its block: for i in range(ii, min(ii + step, n))."""
    own = {variable}
    assert isinstance(node.iter, ast.Call)
    step = ast.unparse(node.iter.args[2]) if len(node.iter.args) == 3 else "1"
    for each in ast.walk(node):
        if not (isinstance(each, ast.For) and isinstance(each.iter, ast.Call) and len(each.iter.args) == 2):
            continue
        low, high = each.iter.args
        ends = high.args if isinstance(high, ast.Call) and ast.unparse(high.func) == "min" else [high]
        until = {f"{variable} + {step}", f"{step} + {variable}"}
        if ast.unparse(low) == variable and until & {ast.unparse(end) for end in ends}:
            assert isinstance(each.target, ast.Name)
            own.add(each.target.id)
    return own


def _own_place(index: ast.expr, own: set[str]) -> bool:
    """Whether `index` differs for any two iterations: the variable, plus what all of them share."""
    if isinstance(index, ast.Name):
        return index.id in own
    if isinstance(index, ast.BinOp) and isinstance(index.op, (ast.Add, ast.Sub)):
        sides = (index.left, index.right) if isinstance(index.op, ast.Add) else (index.left,)
        other = index.right if isinstance(index.left, ast.Name) and index.left.id in own else index.left
        return any(isinstance(side, ast.Name) and side.id in own for side in sides) and _one(other) is not None
    return False


def _one(node: ast.expr) -> int | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _first(node: ast.expr) -> ast.expr:
    return node.elts[0] if isinstance(node, ast.Tuple) and node.elts else node


def shared(arguments: Arguments) -> bool:
    """Whether arrays among the arguments share memory."""
    spans = sorted((each.low, each.low + each.nbytes) for each in arguments.placed)
    return any(near[1] > far[0] for near, far in itertools.pairwise(spans))


def carried(node: ast.For, types: ValueTypes) -> str | None:
    """What one iteration of `node` needs of another; None where nothing is found. Sums are left out."""
    assert isinstance(node.target, ast.Name)
    return _carried_scalar(node, types) or _carried_array(node, types, node.target.id)
