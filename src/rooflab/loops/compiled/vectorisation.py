"""Why a compiled loop is not vectorised: the compiler's own remark in plain words, and what would help.

Where it cannot be asked, rules over the source say what is likely, and say that it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rooflab.loops.compiled.llvm_ir import InnerLoop
from rooflab.loops.compiled.remarks import Remark
from rooflab.loops.read.access_patterns import moves_by_one
from rooflab.loops.read.source import Source
from rooflab.loops.read.twin_text import Ref, Text
from rooflab.loops.read.value_types import FLOATS, ValueTypes, root
from rooflab.loops.static import dependence

_NEGATIVE = (
    "numba must test whether an index is negative (it would count from the end), as it cannot see that the loop"
    " starts at 0 or above: let it run from 0 and add its start to the indices of no array, or give bounds as"
    " np.uint64"
)


class Loop(NamedTuple):
    """An innermost loop: of the source, and what was compiled from it.

    Attributes:
        node: in the source.
        types: of its names.
        compiled: what the compiler left; None where several loops cannot be told apart.
        fast_lanes: lanes with fastmath=True; 1 where that changes nothing.
        versioned: there is a vectorised version too, for rows whose elements lie side by side.
        scattered: accesses whose place data decide.
    """

    node: ast.For | ast.While
    types: ValueTypes
    compiled: InnerLoop | None
    fast_lanes: int
    versioned: bool
    scattered: tuple[Ref, ...]

    @property
    def variable(self) -> str:
        """What a for loop counts in; "" for while."""
        target = self.node.target if isinstance(self.node, ast.For) else None
        return target.id if isinstance(target, ast.Name) else ""


def why_not(
    source: Source,
    types: ValueTypes,
    text: Text,
    compiled: Sequence[InnerLoop],
    main: InnerLoop,
    fast_lanes: int,
    remarks: Sequence[Remark],
) -> str:
    """Why the innermost loop is not vectorised, in one sentence that names the line.

    Args:
        source: the function.
        types: of its names.
        text: of its twin, which knows the innermost loops.
        compiled: all versions of all its innermost loops; `main` that which runs.
        fast_lanes: what a trial with fastmath=True gave.
        remarks: of the compiler, none where it could not be asked.
    """
    nodes = [innermost(source, each.line) for each in text.innermost]
    reasons = []
    for node in nodes:
        if node is None:
            continue
        versioned = any(each.lanes > 1 for each in compiled)
        inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        scattered = [ref for ref in text.refs if ref.line in inside and ref.pattern in ("gather", "chase")]
        loop = Loop(node, types, main, fast_lanes, versioned, tuple(scattered))
        if len(nodes) > 1:
            # Which of the compiled loops is which of the source's is not known.
            loop = loop._replace(compiled=None, fast_lanes=1, versioned=False)
        ours = [each for each in remarks if each.line in inside]
        if not remarks or ours or len(nodes) == 1:
            reasons.append(f"line {node.lineno}: {_reason(loop, ours)}")
    return "; ".join(reasons) or "the compiler gives no reason"


def innermost(source: Source, line: int) -> ast.For | ast.While | None:
    """The loop of `source` that begins in that line."""
    nodes = [n for n in ast.walk(source.tree) if isinstance(n, (ast.For, ast.While)) and n.lineno == line]
    return nodes[-1] if nodes else None


def _reason(loop: Loop, remarks: Sequence[Remark]) -> str:
    for begin, words in _WORDS:
        for each in remarks:
            if each.text.startswith(begin):
                return words(loop)
    if remarks:
        return f"the compiler says: {remarks[0].text}"
    if loop.versioned and (strided := _strided(loop)) is not None:
        return f"{strided} (there is a vectorised version, for elements side by side)"
    guess = _guess(loop)
    return f"likely, as {guess}" if guess else "the compiler gives no reason"


def _guess(loop: Loop) -> str | None:
    """The likeliest reason by rule, where the compiler said nothing."""
    if loop.compiled is not None and loop.compiled.calls:
        return _calls(loop)
    if _leaves_early(loop.node):
        return _early(loop)
    if list(sums(loop.node, loop.types)) and loop.fast_lanes > 1:
        return _order(loop)
    if loop.scattered:
        return _bounds(loop)
    if _carried(loop) is not None:
        return _dependence(loop)
    return _cost_of(loop)


def _order(loop: Loop) -> str:
    held = next(sums(loop.node, loop.types), None)
    what = "a sum of floating-point numbers" if held is None else f"the sum in {held}"
    why = f"{what} keeps its order, as rounding depends on it"
    if loop.fast_lanes > 1:
        return f"{why}; njit(fastmath=True) gives that up and vectorises it ({loop.fast_lanes} lanes)"
    return why


def _bounds(loop: Loop) -> str:
    if loop.scattered:
        stored = [ref for ref in loop.scattered if ref.write]
        what = "data decide where it stores" if stored else "data decide which element it loads (a gather)"
        return (
            f"{(stored or loop.scattered)[0].text}: {what}, so that it cannot be ruled out that a store"
            " meets what a later iteration needs"
        )
    return f"which elements it touches is not known before it runs: {_NEGATIVE}"


def _dependence(loop: Loop) -> str:
    carried = _carried(loop)
    if carried is None:
        return "it cannot be ruled out that a store changes what a later iteration loads"
    return f"an iteration needs the one before: {carried}"


def _passed_on(loop: Loop) -> str:
    """A value that goes from one iteration to the next and is no reduction that LLVM knows."""
    if _leaves_early(loop.node):
        return _early(loop)
    held = next(sums(loop.node, loop.types), None)
    carried = _carried(loop)
    what = held or (carried.partition(" ")[0] if carried else None)
    why = "an iteration needs the one before: " + (carried or f"what is kept in {what or 'a variable'}")
    if loop.fast_lanes > 1:
        return f"{why}; njit(fastmath=True) gives the order up and vectorises it ({loop.fast_lanes} lanes)"
    return why


def _early(loop: Loop) -> str:
    return "how often it runs is decided while it runs (while, break or return)"


def _calls(loop: Loop) -> str:
    names = ", ".join(loop.compiled.calls) if loop.compiled is not None else ""
    called = f"it calls {names}, " if names else "it calls a function "
    return f"{called}which has no vector version (Intel's SVML, icc_rt, brings some)"


def _flow(loop: Loop) -> str:
    branch = next((n for n in ast.walk(loop.node) if isinstance(n, (ast.If, ast.IfExp))), None)
    if branch is None:
        return "its jumps are of a kind that the compiler does not turn into vectors"
    return f"line {branch.lineno}: the branch on {ast.unparse(branch.test)} cannot be turned into a choice"


def _cost(loop: Loop) -> str:
    why = _cost_of(loop)
    said = "the compiler could, and estimates that vectors would be no faster"
    return f"{said}: {why}" if why else said


def _cost_of(loop: Loop) -> str | None:
    """What makes vectors slow in this loop."""
    divided = next(_whole_divisions(loop), None)
    if divided is not None:
        return f"line {divided.lineno}: whole numbers have no vector division ({ast.unparse(divided)})"
    if loop.scattered:
        return f"line {loop.scattered[0].line}: {loop.scattered[0].text} is a gather"
    strided = _strided(loop)
    if strided is not None:
        return strided
    if loop.compiled is not None and loop.compiled.selects:
        return _NEGATIVE
    branch = next((n for n in ast.walk(loop.node) if isinstance(n, (ast.If, ast.IfExp))), None)
    return None if branch is None else f"line {branch.lineno}: a branch on data"


def _strided(loop: Loop) -> str | None:
    node = next((n for n in _elements(loop.node, loop.types) if not moves_by_one(n, loop.variable)), None)
    if node is None:
        return None
    moves = f"line {node.lineno}: {ast.unparse(node)} moves by more than one element with {loop.variable}"
    return f"{moves}; swap the loops, or the array's axes"


# What LLVM's remarks begin with (LoopVectorizationLegality.cpp and LoopAccessAnalysis.cpp of LLVM 15 to 20), the
# most telling first, to what they come to in this loop.
_WORDS: tuple[tuple[str, Callable[[Loop], str]], ...] = (
    ("call instruction cannot be vectorized", _calls),
    ("could not determine number of loop iterations", _early),
    ("Cannot vectorize early exit loop", _early),
    ("Early exit loop", _early),
    ("Cannot vectorize uncountable loop", _early),
    ("cannot prove it is safe to reorder floating-point operations", _order),
    ("cannot identify array bounds", _bounds),
    ("unsafe dependent memory operations", _dependence),
    ("value that could not be identified as reduction", _passed_on),
    ("loop control flow is not understood", _flow),
    ("the cost-model indicates that vectorization is not beneficial", _cost),
)


def sums(node: ast.AST, types: ValueTypes) -> Iterator[str]:
    """What the loop adds up in: targets of += on floating-point numbers that stay in place while it runs."""
    variable = node.target.id if isinstance(node, ast.For) and isinstance(node.target, ast.Name) else ""
    for each in ast.walk(node):
        if isinstance(each, ast.AugAssign) and isinstance(each.op, (ast.Add, ast.Sub, ast.Mult)):
            stays = not any(isinstance(n, ast.Name) and n.id == variable for n in ast.walk(each.target))
            if stays and types.of(each.target) in FLOATS:
                yield ast.unparse(each.target)


def _leaves_early(node: ast.For | ast.While) -> bool:
    return isinstance(node, ast.While) or any(isinstance(n, (ast.Break, ast.Return)) for n in ast.walk(node))


def _carried(loop: Loop) -> str | None:
    return dependence.carried(loop.node, loop.types) if isinstance(loop.node, ast.For) else None


def _elements(node: ast.AST, types: ValueTypes) -> list[ast.Subscript]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Subscript) and types.array(root(n)) is not None]


def _whole_divisions(loop: Loop) -> Iterator[ast.BinOp]:
    for node in ast.walk(loop.node):
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, (ast.FloorDiv, ast.Mod))
            and loop.types.of(node) == "int"
        ):
            yield node
