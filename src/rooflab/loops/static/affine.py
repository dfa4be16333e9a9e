"""What follows from the source alone: FLOP and bytes as formulas in the sizes, layer conditions, traffic.

Bounds and indices must be affine in the loop variables and the sizes, and nothing may be decided by data.
A layer condition says what must stay in a cache for a loop's iterations to find what earlier ones loaded
(Rivera and Tseng, SC 2000; Hammer, Eitzinger, Hager, Wellein, "Kerncraft", 2017): one iteration's data.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

import msgspec

from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import Array, ValueTypes, indices, root
from rooflab.loops.static.layer_conditions import Layers
from rooflab.loops.static.nests import Access, Nest, Nested, NotAffineError, total
from rooflab.loops.static.polynomial import Polynomial, quotient
from rooflab.types.loop import Static
from rooflab.types.simulation import Cache


def analyze(loop: Understood, caches: Sequence[Cache], counted: tuple[int, int]) -> Static:
    """Formulas, conditions and traffic; `reason` says why there are none.

    Args:
        loop: its sizes are taken from its arguments.
        caches: near to far.
        counted: FLOP and accessed bytes of the twin, to compare with.
    """
    types, arguments = loop.value_types, loop.arguments
    try:
        nest = read(loop)
        items = {name: kind.itemsize for name, kind in types.names.items() if isinstance(kind, Array)}
        flop = total(nest.flop)
        accessed = total([(items[a.array], a.loops) for a in nest.accesses])
    except NotAffineError as error:
        return Static(reason=str(error))
    agrees = (flop.at(nest.sizes), accessed.at(nest.sizes)) == counted
    stride_bytes = _stride_bytes(nest, arguments, caches[0].line_bytes)
    formulas = Static(flop=str(flop), accessed_bytes=str(accessed), agrees=agrees, stride_bytes=stride_bytes)
    if not all(each.unit for each in arguments.layouts.values()):
        # Arrays that are not in C order: their footprints are not those computed here.
        return formulas
    shapes = {name: value.shape for name, value in arguments.arrays().items()}
    layers = Layers(nest, items, shapes, caches[0].line_bytes)
    return msgspec.structs.replace(
        formulas, conditions=layers.conditions(caches), traffic_bytes=layers.traffic(caches)
    )


def _stride_bytes(nest: Nest, arguments: Arguments, line_bytes: int) -> int:
    """Of the strides of a line or more in innermost loops that with the largest power of two; 0 for none."""
    arrays, strides = arguments.arrays(), [0]
    for access in nest.accesses:
        if not access.loops:
            continue
        loop, stride = access.loops[-1], 0
        for place, nbytes in zip(access.places, arrays[access.array].strides, strict=True):
            powers = place.coefficients(loop.variable)
            slope = powers[1] * loop.step if len(powers) > 1 else Polynomial.constant(0)
            if slope.symbols <= nest.sizes.keys():
                stride += abs(int(slope.at(nest.sizes))) * nbytes
        if abs(stride) >= line_bytes:
            strides.append(abs(stride))
    return max(strides, key=lambda stride: stride & -stride)


def read(loop: Understood) -> Nest:
    """The nest of `loop`.

    Raises:
        NotAffineError: what is not affine, with its line.
    """
    reader = _Reader(loop.value_types, loop.arguments)
    reader.body(loop.source.tree.body, ())
    return Nest(tuple(reader.flop), tuple(reader.accesses), reader.sizes)


class _Reader:
    def __init__(self, types: ValueTypes, arguments: Arguments) -> None:
        self.value_types = types
        self.flop: list[tuple[int, tuple[Nested, ...]]] = []
        self.accesses: list[Access] = []
        self.known: dict[str, Polynomial] = {}
        self.least: dict[str, tuple[Polynomial, ...]] = {}
        self.sizes: dict[str, int] = {}
        self.shapes = {name: value.shape for name, value in arguments.arrays().items()}
        for name, value in zip(arguments.types, arguments.values, strict=True):
            if arguments.types[name] == "int":
                self.known[name], self.sizes[name] = Polynomial.symbol(name), int(value)
        for name, value in types.source.constants.items():
            if isinstance(value, int):
                self.known[name] = Polynomial.constant(value)

    def body(self, statements: Sequence[ast.stmt], loops: tuple[Nested, ...]) -> None:
        for node in statements:
            match node:
                case ast.For():
                    self._for(node, loops)
                case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                    self._assign(node, loops)
                case ast.Expr() | ast.Pass():
                    self._count(node, loops)
                case ast.Return():
                    if loops:
                        raise NotAffineError(f"line {node.lineno}: return inside a loop")
                    self._count(node, loops)
                case _:
                    raise NotAffineError(f"line {node.lineno}: {type(node).__name__.lower()} is decided by data")

    def _for(self, node: ast.For, loops: tuple[Nested, ...]) -> None:
        assert isinstance(node.iter, ast.Call)
        assert isinstance(node.target, ast.Name)
        self._count(node.iter, loops)
        bounds = node.iter.args
        low = Polynomial.constant(0) if len(bounds) == 1 else self._affine(bounds[0], loops)
        highs = self._ends(bounds[min(1, len(bounds) - 1)], loops)
        step = self._affine(bounds[2], loops) if len(bounds) == 3 else Polynomial.constant(1)
        if step.symbols & {loop.variable for loop in loops}:
            raise NotAffineError(f"line {node.lineno}: a step that changes while the loops around it run")
        trips = self._trips(low, highs, step, loops, node.lineno)
        hidden = self.known.pop(node.target.id, None)
        inner = Nested(node.target.id, low, highs, step, trips, node.lineno)
        self.body(node.body, (*loops, inner))
        if hidden is not None:
            self.known[node.target.id] = hidden

    def _trips(
        self,
        low: Polynomial,
        highs: tuple[Polynomial, ...],
        step: Polynomial,
        loops: tuple[Nested, ...],
        line: int,
    ) -> Polynomial | None:
        """How often a loop is passed, ⌈(high − low) / step⌉; None where its end is the least of several."""
        if len(highs) > 1:
            return None
        length = next(iter(highs)) - low
        if step == 1:
            return length
        size = int(step.at(self.sizes))
        if size == 0:
            raise NotAffineError(f"line {line}: a step of zero")
        if size < 0:
            if step.symbols:
                raise NotAffineError(f"line {line}: a step below zero that is not a plain number")
            length, step = -length, -step
        even = quotient(length, step)
        if even is not None:
            return even
        if length.symbols & {loop.variable for loop in loops}:
            raise NotAffineError(f"line {line}: a step other than 1 over a length that changes from trip to trip")
        return self._whole("⌈", length, step, "⌉")

    def _whole(self, left: str, top: Polynomial, bottom: Polynomial, right: str) -> Polynomial:
        """A quotient of sizes rounded up ("⌈") or down ("⌊"), as a name of its own."""
        texts = [f"({each})" if len(each.terms) > 1 else str(each) for each in (top, bottom)]
        name = f"{left}{texts[0]}/{texts[1]}{right}"
        value = top.at(self.sizes) / bottom.at(self.sizes)
        self.sizes[name] = math.ceil(value) if left == "⌈" else math.floor(value)
        return Polynomial.symbol(name)

    def _ends(self, node: ast.expr, loops: tuple[Nested, ...]) -> tuple[Polynomial, ...]:
        """The ends of which the least counts: those of min(…), or the one that `node` is."""
        if isinstance(node, ast.Call) and self.value_types.called(node) == "min":
            return tuple(dict.fromkeys(end for each in node.args for end in self._ends(each, loops)))
        if isinstance(node, ast.Name) and node.id in self.least:
            return self.least[node.id]
        return (self._affine(node, loops),)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, loops: tuple[Nested, ...]) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Tuple) and self.value_types.array(target.elts[0]) is not None:
                raise NotAffineError(f"line {node.lineno}: arrays change places")
        if isinstance(node, ast.AugAssign):
            operation = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
            self._count(operation, loops)
            self._count(node.target, loops)
            if isinstance(node.target, ast.Name):
                self.known.pop(node.target.id, None)
                self.least.pop(node.target.id, None)
            return
        self._count(node, loops)
        if node.value is None:
            return
        for target in targets:
            self._bind(target, node.value, loops)

    def _bind(self, target: ast.expr, value: ast.expr, loops: tuple[Nested, ...]) -> None:
        if isinstance(target, ast.Tuple):
            for axis, each in enumerate(target.elts):
                if isinstance(value, ast.Tuple) and axis < len(value.elts):
                    self._bind(each, value.elts[axis], loops)
                elif isinstance(value, ast.Attribute) and value.attr == "shape" and isinstance(each, ast.Name):
                    self._size(each.id, self.shapes[ast.unparse(value.value)][axis])
        elif isinstance(target, ast.Name) and self.value_types.of(target) == "int":
            size = self._shape(value)
            if size is not None:
                self._size(target.id, size)
                return
            self.known.pop(target.id, None)
            self.least.pop(target.id, None)
            try:
                ends = self._ends(value, loops)
            except NotAffineError:
                # A whole number that data decide: it matters only where an index or a bound uses it.
                return
            if len(ends) == 1:
                self.known[target.id] = ends[0]
            else:
                self.least[target.id] = ends

    def _size(self, name: str, value: int) -> None:
        self.known[name], self.sizes[name] = Polynomial.symbol(name), int(value)

    def _shape(self, node: ast.expr) -> int | None:
        """The length that `a.shape[0]`, `a.size` or `len(a)` is; None for anything else."""
        if isinstance(node, ast.Call) and self.value_types.called(node) == "len":
            return self.shapes[ast.unparse(node.args[0])][0]
        if isinstance(node, ast.Attribute) and node.attr == "size" and ast.unparse(node.value) in self.shapes:
            return math.prod(self.shapes[ast.unparse(node.value)])
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            axis = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if node.value.attr == "shape" and isinstance(axis, int):
                return self.shapes[ast.unparse(node.value.value)][axis]
        return None

    def _count(self, node: ast.AST, loops: tuple[Nested, ...]) -> None:
        for each in ast.walk(node):
            if isinstance(each, (ast.IfExp, ast.BoolOp)):
                raise NotAffineError(f"line {each.lineno}: {ast.unparse(each)} is decided by data")
            times = sum(flop.times for flop in self.value_types.flop(each))
            if times:
                self.flop.append((times, loops))
        self._visit(node, loops)

    def _visit(self, node: ast.AST, loops: tuple[Nested, ...]) -> None:
        if isinstance(node, ast.Subscript) and self.value_types.array(root(node)) is not None:
            places = tuple(self._affine(each, loops) for each in indices(node))
            name = ast.unparse(root(node))
            self.accesses.append(Access(name, places, isinstance(node.ctx, ast.Store), loops))
            return
        for child in ast.iter_child_nodes(node):
            self._visit(child, loops)

    def _affine(self, node: ast.expr, loops: tuple[Nested, ...]) -> Polynomial:
        match node:
            case ast.Constant() if isinstance(node.value, int):
                return Polynomial.constant(int(node.value))
            case ast.Name():
                if any(loop.variable == node.id for loop in loops):
                    return Polynomial.symbol(node.id)
                if node.id in self.known:
                    return self.known[node.id]
            case ast.UnaryOp() if isinstance(node.op, ast.USub):
                return -self._affine(node.operand, loops)
            case ast.BinOp() if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
                left, right = self._affine(node.left, loops), self._affine(node.right, loops)
                if isinstance(node.op, ast.Mult):
                    return left * right
                return left + right if isinstance(node.op, ast.Add) else left - right
            case ast.BinOp() if isinstance(node.op, ast.FloorDiv):
                left, right = self._affine(node.left, loops), self._affine(node.right, loops)
                even = quotient(left, right)
                if even is not None:
                    return even
                if not (left.symbols | right.symbols) & {loop.variable for loop in loops}:
                    return self._whole("⌊", left, right, "⌋")
        size = self._shape(node)
        if size is None:
            raise NotAffineError(
                f"line {node.lineno}: {ast.unparse(node)} is not affine in sizes and loop variables"
            )
        name = next(
            (n for n, v in self.sizes.items() if v == size and n not in self.value_types.source.parameters), None
        )
        if name is None:
            name = ast.unparse(node)
            self.sizes[name] = size
        return Polynomial.symbol(name)
