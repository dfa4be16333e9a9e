"""Which Python a loop may be written in: everything else is refused by line, with the reason and a way out."""

from __future__ import annotations

import ast
from typing import NoReturn

from rooflab.loops.read.source import BeyondSource, Source, Unseen
from rooflab.loops.read.value_types import Array, ValueTypes, indices, known_function, root

RESERVED = "_rl"  # names of the rewriter's own
_REDUCTIONS = ("sum", "dot", "mean", "max", "min", "prod", "matmul", "zeros", "empty", "ones", "where", "einsum")
_REASONS: dict[type[ast.AST], str] = {
    ast.Lambda: "a lambda: write its expression in the loop",
    ast.FunctionDef: "a function inside the function: write its body in the loop",
    ast.AsyncFunctionDef: "a function inside the function: write its body in the loop",
    ast.ClassDef: "a class inside the function",
    ast.ListComp: "a list comprehension: write a loop that fills an array given as an argument",
    ast.SetComp: "a set comprehension: write a loop that fills an array given as an argument",
    ast.DictComp: "a dictionary comprehension: write a loop that fills an array given as an argument",
    ast.GeneratorExp: "a generator expression: write a loop",
    ast.Yield: "yield: return nothing and write into an array instead",
    ast.YieldFrom: "yield: return nothing and write into an array instead",
    ast.Try: "try: numba cannot follow exceptions cheaply; test before the access instead",
    ast.With: "with: loops over arrays need no context",
    ast.Import: "an import inside the function: move it to the top of the file",
    ast.ImportFrom: "an import inside the function: move it to the top of the file",
    ast.Global: "global: make it an argument",
    ast.Nonlocal: "nonlocal: make it an argument",
    ast.NamedExpr: "an assignment inside an expression (:=): write it on a line of its own",
    ast.JoinedStr: "text: loops compute numbers",
    ast.Starred: "a starred expression: write each value",
    ast.List: "a list: use an array given as an argument",
    ast.Dict: "a dictionary: use an array given as an argument",
    ast.Set: "a set: use an array given as an argument",
    ast.Delete: "del: local names need no deletion",
    ast.Raise: "raise: return a value that says so instead",
    ast.Match: "match: write if and elif",
    ast.Await: "await",
    ast.MatMult: "@, a product inside the loop: write its loops, so that its accesses can be seen",
}


def check(source: Source, types: ValueTypes) -> None:
    """Return where every statement of `source` can be counted.

    Raises:
        RooflabError: the first that cannot, with file, line, reason and what to write instead.
    """
    for node in ast.walk(source.tree):
        if node is not source.tree:
            _check(node, source, types)
    _check_names(source, types)
    _check_whole(source, types)


def _check_whole(source: Source, types: ValueTypes) -> None:
    """Each access has all indices of its array."""
    nodes = [each for each in ast.walk(source.tree) if isinstance(each, ast.Subscript)]
    inner = {id(each.value) for each in nodes}
    for node in nodes:
        array = types.array(root(node))
        given = len(indices(node))
        if id(node) not in inner and array is not None and given != array.ndim:
            refuse(
                source,
                node,
                f"{ast.unparse(node)}: {given} of {array.ndim} indices; a row or plane is a loop that cannot be"
                " seen: give all indices",
            )


def _check(node: ast.AST, source: Source, types: ValueTypes) -> None:
    reason = _REASONS.get(type(node))
    if reason is not None:
        refuse(source, node, reason)
    match node:
        case ast.For():
            _check_for(node, source, types)
        case ast.While() if node.orelse:
            refuse(source, node, "while with else: set a flag before break instead")
        case ast.Subscript():
            _check_subscript(node, source, types)
        case ast.Call():
            _check_call(node, source, types)
        case ast.Attribute():
            _check_attribute(node, source, types)
        case ast.BinOp() if isinstance(node.op, ast.MatMult):
            refuse(source, node, _REASONS[ast.MatMult])
        case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.BoolOp() | ast.IfExp():
            _check_operands(node, source, types)
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            _check_assignment(node, source, types)
        case ast.Constant() if isinstance(node.value, (str, bytes)):
            refuse(source, node, "text: loops compute numbers")


def _check_for(node: ast.For, source: Source, types: ValueTypes) -> None:
    if node.orelse:
        refuse(source, node, "for with else: set a flag before break instead")
    call = node.iter
    if not isinstance(call, ast.Call) or types.called(call) not in ("range", "prange"):
        refuse(
            source,
            node,
            f"for … in {ast.unparse(call)}: loop over range(…) and index, such as"
            f" for i in range(len({ast.unparse(call) if isinstance(call, ast.Name) else 'a'}))",
        )
    if not isinstance(node.target, ast.Name):
        refuse(source, node, f"for {ast.unparse(node.target)}: one loop variable is expected")
    if call.keywords or not 1 <= len(call.args) <= 3:
        refuse(source, node, f"{ast.unparse(call)}: range takes one to three numbers")
    for each in call.args:
        if types.of(each) not in ("int", "bool", None):
            text = ast.unparse(each)
            refuse(source, node, f"{ast.unparse(call)}: {text} is {types.of(each)}, expected a whole number")


def _check_subscript(node: ast.Subscript, source: Source, types: ValueTypes) -> None:
    base = root(node)
    if isinstance(base, ast.Attribute):
        return  # a.shape[0]: whether that is fine, its attribute tells
    array = types.array(base)
    text = ast.unparse(node)
    if array is None:
        refuse(source, node, f"{text}: {ast.unparse(base)} is not an array argument")
    for index in indices(node):
        if isinstance(index, ast.Slice):
            refuse(
                source, node, f"{text}: a slice is a loop that cannot be seen; write the loop over its elements"
            )
        if isinstance(index, ast.Constant) and (index.value is None or index.value is Ellipsis):
            refuse(source, node, f"{text}: only whole numbers index an array in a loop")
        kind = types.of(index)
        if isinstance(kind, Array):
            refuse(source, node, f"{text}: an array as the index is a loop that cannot be seen; write that loop")
        if kind not in ("int", None):
            refuse(source, index, f"{text}: the index {ast.unparse(index)} is {kind}, expected a whole number")


def _check_operands(node: ast.expr, source: Source, types: ValueTypes) -> None:
    """Arithmetic on a whole array runs a loop whose accesses nobody counts."""
    for operand in ast.iter_child_nodes(node):
        if isinstance(operand, ast.Name) and types.array(operand) is not None:
            refuse(
                source,
                node,
                f"{ast.unparse(node)}: arithmetic on the whole array {operand.id} is a loop that cannot be seen; "
                "write the loop over its elements",
            )


def _check_call(node: ast.Call, source: Source, types: ValueTypes) -> None:
    name, text = types.called(node), ast.unparse(node)
    if name in ("range", "prange"):
        return
    short = name.rpartition(".")[2]
    arrays = [each for each in node.args if isinstance(types.of(each), Array)]
    if name == "len" and len(arrays) == 1:
        return
    if not known_function(name):
        if short in _REDUCTIONS:
            refuse(
                source,
                node,
                f"{text}: the accesses of {short} cannot be seen; write its loop, or give the"
                " array as an argument",
                Unseen,
            )
        refuse(
            source,
            node,
            f"{text}: {ast.unparse(node.func)} is not known, so its accesses and FLOP cannot be"
            " counted; write its body in the loop (functions of math and scalar ones of NumPy are known)",
            Unseen,
        )
    if arrays or node.keywords:
        refuse(source, node, f"{text}: a whole array in {short} is a loop that cannot be seen; write that loop")


def _check_attribute(node: ast.Attribute, source: Source, types: ValueTypes) -> None:
    if isinstance(node.value, ast.Name):
        if types.array(node.value) is not None:
            if node.attr not in ("shape", "size", "ndim"):
                refuse(source, node, f"{ast.unparse(node)}: of an array, shape, size and ndim are known here")
            return
        if source.modules.get(node.value.id) in ("math", "np", "numba"):
            return
    if isinstance(node.value, ast.Attribute):
        return
    if node.attr in ("real", "imag") and isinstance(types.of(node.value), str):
        return
    refuse(source, node, f"{ast.unparse(node)}: {ast.unparse(node.value)} is neither an array nor math or numpy")


def _check_assignment(node: ast.Assign | ast.AugAssign | ast.AnnAssign, source: Source, types: ValueTypes) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if isinstance(node, ast.Assign) and isinstance(targets[0], ast.Tuple):
        _check_shape(targets[0], node.value, source, types)
    named = isinstance(targets[0], ast.Name)
    if node.value is not None and isinstance(targets[0], ast.Subscript):
        _check_element(targets[0], node, node.value, source, types)
    if isinstance(node, ast.Assign) and named and isinstance(types.of(node.value), Array):
        refuse(
            source, node, f"{ast.unparse(node)}: an array by another name; use {ast.unparse(node.value)} itself"
        )
    for target in targets:
        for each in target.elts if isinstance(target, ast.Tuple) else [target]:
            if not isinstance(each, (ast.Name, ast.Subscript)):
                refuse(source, node, f"{ast.unparse(each)} = …: names and elements can be assigned to")
            if isinstance(each, ast.Name) and types.array(each) is not None:
                _check_swap(node, source, types)


def _check_element(
    target: ast.Subscript, node: ast.stmt, value: ast.expr, source: Source, types: ValueTypes
) -> None:
    """An element takes a number; what a slice takes, the check of indices refuses."""
    if types.array(value) is not None and not any(isinstance(each, ast.Slice) for each in indices(target)):
        text = f"{ast.unparse(node)}: the whole array {ast.unparse(value)} in place of a number"
        refuse(source, node, f"{text}; write the loop over its elements")


def _check_shape(target: ast.Tuple, value: ast.expr, source: Source, types: ValueTypes) -> None:
    """`n, m = a.shape` is of an array of two dimensions."""
    if not isinstance(value, ast.Attribute) or value.attr != "shape":
        return
    array = types.array(value.value)
    if array is not None and array.ndim != len(target.elts):
        text = f"{ast.unparse(target)} = {ast.unparse(value)}"
        refuse(
            source,
            target,
            f"{text}: {len(target.elts)} names, and {array.ndim} in the shape of {ast.unparse(value.value)}",
        )


def _check_swap(node: ast.AST, source: Source, types: ValueTypes) -> None:
    """Arrays may only change places: `a, b = b, a`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        left, right = node.targets[0], node.value
        if isinstance(left, ast.Tuple) and isinstance(right, ast.Tuple) and len(left.elts) == len(right.elts):
            sides = [[types.array(each) for each in side.elts] for side in (left, right)]
            names = [sorted(ast.unparse(each) for each in side.elts) for side in (left, right)]
            if None not in sides[0] and None not in sides[1] and names[0] == names[1]:
                if len(set(map(str, sides[0]))) > 1:
                    refuse(source, node, f"{ast.unparse(node)}: arrays of different formats change places")
                return
    refuse(source, node, f"{ast.unparse(node)}: an array's name gets another value; only a, b = b, a is known")


def _check_names(source: Source, types: ValueTypes) -> None:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Name):
            continue
        if node.id.startswith(RESERVED):
            refuse(source, node, f"{node.id}: names that begin with {RESERVED} are taken; call it otherwise")
        if isinstance(node.ctx, ast.Load) and node.id not in types.names and node.id not in source.modules:
            refuse(source, node, f"{node.id} is neither an argument, a local name nor a number of the module")


def refuse(source: Source, node: ast.AST, reason: str, kind: type[BeyondSource] = BeyondSource) -> NoReturn:
    """Raise the error that names the line of `node` and the reason."""
    raise kind(f"{source.at(node)}: {source.name}: {reason}")
