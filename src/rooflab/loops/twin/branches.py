"""Where control leaves a straight line: chained comparisons, and statements that may leave those around them."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def unchained(node: ast.Compare) -> ast.BoolOp:
    """`a < b < c` as `a < b and b < c`: the second comparison runs only where the first holds."""
    sides = [node.left, *node.comparators]
    parts = [
        ast.copy_location(ast.Compare(left, [op], [right]), node)
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
    ]
    return ast.copy_location(ast.BoolOp(ast.And(), list(parts)), node)


def leaves(node: ast.stmt) -> bool:
    """Whether `node` may leave the statements around it: return, or break and continue of a loop around."""
    return any(isinstance(each, (ast.Return, ast.Break, ast.Continue)) for each in _reached(node))


def _reached(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, (ast.For, ast.While)):
            # break and continue inside are that loop's own
            yield from (each for each in ast.walk(child) if isinstance(each, ast.Return))
        else:
            yield from _reached(child)
