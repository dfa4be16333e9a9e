"""What follows from the source alone: FLOP and bytes as formulas in the sizes, layer conditions, traffic.

Bounds and indices must be affine in the loop variables and the sizes, and nothing may be decided by data.
A layer condition says what must stay in a cache for a loop's iterations to find what earlier ones loaded
(Rivera and Tseng, SC 2000; Hammer, Eitzinger, Hager, Wellein, "Kerncraft", 2017): one iteration's data.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rooflab.loops.arguments import Arguments
from rooflab.loops.kinds import Array, Kinds, indices, root
from rooflab.loops.polynomial import Polynomial
from rooflab.loops.source import Source
from rooflab.types.loop import Static
from rooflab.types.simulation import Cache
from rooflab.units import iec


class NotAffineError(Exception):
    """What keeps a nest from having a formula, with its line."""


class Nested(NamedTuple):
    """A loop of a nest: `variable` runs from `low` to `high` − 1."""

    variable: str
    low: Polynomial
    high: Polynomial


class Access(NamedTuple):
    """One access: `places` are its indices, `loops` those around it, outermost first."""

    array: str
    places: tuple[Polynomial, ...]
    write: bool
    loops: tuple[Nested, ...]


class Nest(NamedTuple):
    """A function in polyhedral terms.

    Attributes:
        flop: with the loops around each count.
        accesses: all of them.
        sizes: values of the names in the formulas.
    """

    flop: tuple[tuple[int, tuple[Nested, ...]], ...]
    accesses: tuple[Access, ...]
    sizes: Mapping[str, int]


def analyze(
    source: Source, kinds: Kinds, arguments: Arguments, caches: Sequence[Cache], counted: tuple[int, int]
) -> Static:
    """Formulas, conditions and traffic; `reason` says why there are none.

    Args:
        source: the loop.
        kinds: of its names.
        arguments: its sizes are taken from.
        caches: near to far.
        counted: FLOP and accessed bytes of the twin, to compare with.
    """
    try:
        nest = read(source, kinds, arguments)
        items = {name: kind.itemsize for name, kind in kinds.names.items() if isinstance(kind, Array)}
        flop = _total([(Polynomial.constant(n), loops) for n, loops in nest.flop])
        accessed = _total([(Polynomial.constant(items[a.array]), a.loops) for a in nest.accesses])
    except NotAffineError as error:
        return Static(reason=str(error))
    agrees = (flop.at(nest.sizes), accessed.at(nest.sizes)) == counted
    made = Static(flop=str(flop), accessed_bytes=str(accessed), agrees=agrees)
    layers = _Layers(nest, items, caches[0].line_bytes)
    whole = len(layers.accesses) == len(nest.accesses) and all(each.unit for each in arguments.layouts.values())
    if not whole:
        # Several nests, or arrays that are not in C order: their footprints are not those computed here.
        return made
    return msgspec.structs.replace(
        made, conditions=layers.conditions(caches), traffic_bytes=layers.traffic(caches)
    )


def read(source: Source, kinds: Kinds, arguments: Arguments) -> Nest:
    """The nest of `source`.

    Raises:
        NotAffineError: what is not affine, with its line.
    """
    reader = _Reader(kinds, arguments)
    reader.body(source.tree.body, ())
    return Nest(tuple(reader.flop), tuple(reader.accesses), reader.sizes)


class _Reader:
    def __init__(self, kinds: Kinds, arguments: Arguments) -> None:
        self.kinds = kinds
        self.flop: list[tuple[int, tuple[Nested, ...]]] = []
        self.accesses: list[Access] = []
        self.known: dict[str, Polynomial] = {}
        self.sizes: dict[str, int] = {}
        self.shapes = {name: value.shape for name, value in arguments.arrays().items()}
        for name, value in zip(arguments.kinds, arguments.values, strict=True):
            if arguments.kinds[name] == "int":
                self.known[name], self.sizes[name] = Polynomial.symbol(name), int(value)
        for name, value in kinds.source.constants.items():
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
        values = [self._affine(each, loops) for each in node.iter.args]
        if len(values) == 3 and values[2].number != 1:
            raise NotAffineError(f"line {node.lineno}: a step other than 1")
        low, high = (Polynomial.constant(0), values[0]) if len(values) == 1 else (values[0], values[1])
        hidden = self.known.pop(node.target.id, None)
        self.body(node.body, (*loops, Nested(node.target.id, low, high)))
        if hidden is not None:
            self.known[node.target.id] = hidden

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, loops: tuple[Nested, ...]) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Tuple) and self.kinds.array(target.elts[0]) is not None:
                raise NotAffineError(f"line {node.lineno}: arrays change places")
        if isinstance(node, ast.AugAssign):
            made = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
            self._count(made, loops)
            self._count(node.target, loops)
            if isinstance(node.target, ast.Name):
                self.known.pop(node.target.id, None)
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
        elif isinstance(target, ast.Name) and self.kinds.of(target) == "int":
            size = self._shape(value)
            if size is not None:
                self._size(target.id, size)
                return
            try:
                self.known[target.id] = self._affine(value, loops)
            except NotAffineError:
                # A whole number that data decide: it matters only where an index or a bound uses it.
                self.known.pop(target.id, None)

    def _size(self, name: str, value: int) -> None:
        self.known[name], self.sizes[name] = Polynomial.symbol(name), int(value)

    def _shape(self, node: ast.expr) -> int | None:
        """The length that `a.shape[0]`, `a.size` or `len(a)` is; None for anything else."""
        if isinstance(node, ast.Call) and self.kinds.called(node) == "len":
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
            times = sum(flop.times for flop in self.kinds.flop(each))
            if times:
                self.flop.append((times, loops))
        self._visit(node, loops)

    def _visit(self, node: ast.AST, loops: tuple[Nested, ...]) -> None:
        if isinstance(node, ast.Subscript) and self.kinds.array(root(node)) is not None:
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
        size = self._shape(node)
        if size is None:
            raise NotAffineError(
                f"line {node.lineno}: {ast.unparse(node)} is not affine in sizes and loop variables"
            )
        name = next(
            (n for n, v in self.sizes.items() if v == size and n not in self.kinds.source.parameters), None
        )
        if name is None:
            name = ast.unparse(node)
            self.sizes[name] = size
        return Polynomial.symbol(name)


def _total(parts: Sequence[tuple[Polynomial, tuple[Nested, ...]]]) -> Polynomial:
    total = Polynomial({})
    for each, loops in parts:
        for loop in reversed(loops):
            each = each.summed(loop.variable, loop.low, loop.high)
        total = total + each
    return total


class _Layers:
    """Footprints of one iteration of each loop of the deepest nest."""

    def __init__(self, nest: Nest, items: Mapping[str, int], line_bytes: int) -> None:
        self.nest, self.items, self.line = nest, items, line_bytes
        deepest = max((a.loops for a in nest.accesses), key=len, default=())
        self.loops = deepest
        self.accesses = [a for a in nest.accesses if a.loops == deepest[: len(a.loops)]]
        self.middle = self._middle()

    def _middle(self) -> dict[str, int]:
        """A value of each loop variable in the middle of its range, outermost first."""
        values = dict(self.nest.sizes)
        for loop in self.loops:
            values[loop.variable] = int((loop.low.at(values) + loop.high.at(values)) // 2)
        return values

    def trips(self, depth: int) -> int:
        """Trips of the loop at `depth`, those around it in the middle of theirs."""
        loop = self.loops[depth]
        return max(0, int(loop.high.at(self.middle) - loop.low.at(self.middle)))

    def footprint(self, depth: int) -> int:
        """Bytes, in whole lines, that one iteration of the loop at `depth` touches; −1: the whole nest."""
        inner = {loop.variable: self.trips(n) for n, loop in enumerate(self.loops) if n > depth}
        rows: dict[tuple[str, tuple[Any, ...]], list[tuple[int, int]]] = {}
        for access in self.accesses:
            spans = [self._span(place, inner) for place in access.places]
            rows.setdefault((access.array, self._row(access, spans, inner)), []).append(spans[-1])
        total = 0
        for (array, row), spans in rows.items():
            size = self.items[array]
            length = max(b for _, b in spans) - min(a for a, _ in spans) + 1
            lines = max(1, -(-length * size // self.line))
            count = 1
            for each in row:
                count *= each[1]
            total += count * lines * self.line
        return total

    def _row(self, access: Access, spans: Sequence[tuple[int, int]], inner: Mapping[str, int]) -> tuple[Any, ...]:
        # Rows that a loop sweeps are one block, however far apart the accesses in it begin; others are apart.
        made = []
        for place, (a, b) in zip(access.places[:-1], spans[:-1], strict=True):
            swept = any(name in inner for name in place.symbols)
            made.append((None if swept else a, b - a + 1))
        return tuple(made)

    def _span(self, place: Polynomial, inner: Mapping[str, int]) -> tuple[int, int]:
        """The first and last value of an index while the inner loops run."""
        first = last = int(place.put({name: Polynomial.constant(0) for name in inner}).at(self.middle))
        for loop in self.loops:
            if loop.variable in inner and loop.variable in place.symbols:
                step = (
                    place.coefficients(loop.variable)[1]
                    .put({name: Polynomial.constant(0) for name in inner})
                    .at(self.middle)
                )
                low = int(loop.low.at(self.middle))
                ends = (int(step * low), int(step * (low + inner[loop.variable] - 1)))
                first, last = first + min(ends), last + max(ends)
        return first, last

    def conditions(self, caches: Sequence[Cache]) -> tuple[str, ...]:
        """Which loop's iterations find in each cache what the one before loaded."""
        made = []
        for cache in caches:
            depth = self._fits(cache.capacity_bytes)
            held = f"{cache.name} ({iec(cache.capacity_bytes)})"
            if depth is None:
                made.append(f"{held} holds not even one iteration of the innermost loop")
            elif depth < 0:
                made.append(f"{held} holds all of it: {iec(self.footprint(-1))}")
            else:
                loop = self.loops[depth].variable
                more = "" if depth == 0 else f"; of {self.loops[depth - 1].variable} it would need"
                more += "" if depth == 0 else f" {iec(self.footprint(depth - 1))}"
                if depth == 0:
                    more = f"; the whole would need {iec(self.footprint(-1))}"
                made.append(
                    f"{held} holds one iteration of {loop} ({iec(self.footprint(depth))}): the next finds what it"
                    f" shares with it{more}"
                )
        return tuple(made)

    def traffic(self, caches: Sequence[Cache]) -> dict[str, float]:
        """Bytes that each level serves to the nearer one: what its loop touches, once for each time it is run."""
        names = [cache.name or "" for cache in caches[1:]] + ["memory"]
        made = {}
        for name, cache in zip(names, caches, strict=True):
            depth = self._fits(cache.capacity_bytes)
            if depth is None:
                continue
            times = 1
            for outer in range(max(depth, 0)):
                times *= self.trips(outer)
            made[name] = float(times * self.footprint(max(depth, 0) - 1) + self._written(max(depth, 0), times))
        return made

    def _written(self, depth: int, times: int) -> float:
        written = [a for a in self.accesses if a.write]
        if not written:
            return 0.0
        only = _Layers(self.nest._replace(accesses=tuple(written)), self.items, self.line)
        only.loops, only.middle, only.accesses = self.loops, self.middle, written
        return float(times * only.footprint(depth - 1))

    def _fits(self, capacity_bytes: int) -> int | None:
        """The outermost loop of which one iteration fits, −1 for the whole; None where none does."""
        for depth in range(-1, len(self.loops)):
            if self.footprint(depth) <= capacity_bytes:
                return depth
        return None
