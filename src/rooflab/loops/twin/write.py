"""The instrumented twin of a loop, as text: the same statements, each access and block reported first.

Everything an access needs is hoisted to the entry (base, strides and lengths as whole numbers), so that
no array is handed to the simulator. FLOP are counted by block: a block of statements that run together
has a counter, and what one pass of it computes is known from the source.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Mapping, Sequence

from rooflab.loops.read.access_patterns import Patterns
from rooflab.loops.read.language import refuse
from rooflab.loops.read.source import Source
from rooflab.loops.read.twin_text import Layout, Loop, Ref, Text
from rooflab.loops.read.value_types import Array, Flop, ValueTypes, indices, root
from rooflab.loops.twin.branches import leaves, unchained


def write(source: Source, types: ValueTypes, layouts: Mapping[str, Layout]) -> Text:
    """The twin of `source`.

    Its arguments are those of `source`, then the arrays' addresses, the simulator's state, and the addresses
    of the words for passes and events (`hooks`).

    Raises:
        RooflabError: an access with too few or too many indices.
    """
    return _Writer(source, types, layouts).whole()


class _Writer:
    def __init__(self, source: Source, types: ValueTypes, layouts: Mapping[str, Layout]) -> None:
        self.source, self.value_types, self.layouts = source, types, layouts
        self.patterns = Patterns(source, types)
        self.lines: list[str] = []
        self.depth = 1
        self.refs: list[Ref] = []
        self.loops: list[Loop] = []
        self.flop: dict[tuple[int, int], Counter[tuple[str, str]]] = {}
        self.block, self.temps = 0, 0
        self.owners: list[int | None] = []
        self.checked: dict[tuple[str, str, int], str] = {}
        self.swapped: set[str] = set()
        self.inside: list[int] = []

    def whole(self) -> Text:
        arrays = {name: self.value_types.names[name] for name in self.layouts}
        names = ", ".join((*self.source.parameters, "_rlB", "_rlS", "_rlN", "_rlE"))
        for number, (name, array) in enumerate(arrays.items()):
            assert isinstance(array, Array)
            self._line(f"_rlb_{name} = _rlB[{number}]")
            for axis in range(array.ndim):
                self._line(f"_rln{axis}_{name} = {name}.shape[{axis}]")
                self._line(f"_rls{axis}_{name} = {name}.strides[{axis}]")
        self._line("_rlV = _rl_open(_rlS)")
        self._new_block()
        self._statements(self.source.tree.body)
        header = f"def twin({names}):"
        flop = {
            key: tuple(Flop(*what, count) for what, count in counts.items()) for key, counts in self.flop.items()
        }
        text = "\n".join([header, *self.lines]) + "\n"
        return Text(text, tuple(self.refs), tuple(self.loops), flop, tuple(self.owners), frozenset(self.swapped))

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _new_block(self, loop: int | None = None, variable: str = "0") -> None:
        self.block = len(self.owners)
        self.owners.append(self.inside[-1] if self.inside else None)
        self.checked.clear()
        if loop is None:
            self._line(f"_rl_enter(_rlN, {self.block})")
        else:
            self._line(f"_rl_step(_rlN, {self.block}, _rlE, {loop}, {variable})")

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.For():
                    self._for(node)
                case ast.While():
                    self._while(node)
                case ast.If():
                    self._if(node)
                case ast.Return():
                    value = "" if node.value is None else f" {self._text(node.value)}"
                    self._line(f"return{value}")
                case ast.Break() | ast.Continue() | ast.Pass():
                    self._line(ast.unparse(node))
                case ast.Assign() | ast.AnnAssign():
                    self._assign(node)
                case ast.AugAssign():
                    self._augmented(node)
                case ast.Expr():
                    self._line(self._text(node.value))
                case ast.Assert():
                    self._line(f"assert {self._text(node.test)}")
                case _:
                    refuse(self.source, node, f"{type(node).__name__.lower()}: not known in a loop over arrays")

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call)
        assert isinstance(node.target, ast.Name)
        bounds = ", ".join(self._text(each) for each in node.iter.args)
        self._line(f"for {node.target.id} in range({bounds}):")
        outside = self.block
        self._enter_loop(node, node.target.id)
        self._statements(node.body)
        self._leave_loop(node, outside)

    def _while(self, node: ast.While) -> None:
        self._line("while True:")
        outside = self.block
        # The test runs once more than the body: it has a block of its own.
        self._enter_loop(node, "")
        self._line(f"if not ({self._text(node.test)}):")
        self._line("    break")
        self._new_block()
        self.loops[self.inside[-1]] = self.loops[self.inside[-1]]._replace(block=self.block)
        self._statements(node.body)
        self._leave_loop(node, outside)

    def _enter_loop(self, node: ast.For | ast.While, variable: str) -> None:
        number, parent = len(self.loops), self.inside[-1] if self.inside else None
        self.loops.append(Loop(number, variable, node.lineno, len(self.owners), parent))
        self.inside.append(number)
        self.depth += 1
        self._new_block(number, variable or "0")

    def _leave_loop(self, node: ast.For | ast.While, outside: int) -> None:
        self.depth -= 1
        self.inside.pop()
        self.checked.clear()
        self.block = outside
        if any(isinstance(each, ast.Return) for each in ast.walk(node)):
            self._new_block()

    def _if(self, node: ast.If) -> None:
        test = self._text(node.test)
        outside = self.block
        for word, body in ((f"if {test}:", node.body), ("else:", node.orelse)):
            if body:
                self._line(word)
                self.depth += 1
                self._new_block()
                self._statements(body)
                self.depth -= 1
        self.block = outside
        self.checked.clear()
        if any(leaves(each) for each in (*node.body, *node.orelse)):
            self._new_block()

    def _assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        if node.value is None:
            return
        value = self._expression(node.value)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(targets[0], ast.Tuple) and self._swap(targets[0], value):
            return
        written = [self._target(target) for target in targets]
        self._line(" = ".join([*written, ast.unparse(value)]))
        self._forget(targets)

    def _swap(self, target: ast.Tuple, value: ast.expr) -> bool:
        """Let arrays change places, and all that was hoisted of them; False where they are no arrays."""
        first = self.value_types.array(target.elts[0])
        if first is None or not isinstance(value, ast.Tuple):
            return False
        left, right = [ast.unparse(e) for e in target.elts], [ast.unparse(e) for e in value.elts]
        self.swapped |= set(left)
        hoisted = ["", "_rlb_"] + [f"_rl{what}{axis}_" for what in "ns" for axis in range(first.ndim)]
        for prefix in hoisted:
            self._line(", ".join(prefix + n for n in left) + " = " + ", ".join(prefix + n for n in right))
        self.checked.clear()
        return True

    def _target(self, target: ast.expr) -> str:
        if isinstance(target, ast.Tuple):
            return "".join(f"{self._target(each)}, " for each in target.elts)
        if isinstance(target, ast.Subscript):
            written, address = self._access(target)
            self._report(target, address, write=True)
            return ast.unparse(written)
        return ast.unparse(target)

    def _augmented(self, node: ast.AugAssign) -> None:
        operator = ast.BinOp(copy.copy(node.target), node.op, node.value)
        if isinstance(node.target, ast.Subscript):
            written, address = self._access(node.target)
            self._report(node.target, address, write=False)
            value = self._expression(node.value)
            self._count(ast.copy_location(operator, node))
            self._report(node.target, address, write=True)
            self._line(ast.unparse(ast.AugAssign(written, node.op, value)))
        else:
            value = self._expression(node.value)
            self._count(ast.copy_location(operator, node))
            self._line(ast.unparse(ast.AugAssign(node.target, node.op, value)))
        self._forget([node.target])

    def _forget(self, targets: Sequence[ast.expr]) -> None:
        """Index texts that were checked hold no longer where a name or an array in them has changed."""
        named = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        stale = [
            key
            for key in self.checked
            if named & {n.id for n in ast.walk(ast.parse(key[0])) if isinstance(n, ast.Name)}
        ]
        for key in stale:
            del self.checked[key]

    def _text(self, node: ast.expr) -> str:
        return ast.unparse(self._expression(node))

    def _expression(self, node: ast.expr) -> ast.expr:
        """`node` with its loads reported and its FLOP counted, in the order in which Python evaluates it."""
        match node:
            case ast.Subscript() if self.value_types.array(root(node)) is not None:
                copied, address = self._access(node)
                self._report(node, address, write=False)
                return copied
            case ast.BoolOp() if any(self._matters(each) for each in node.values[1:]):
                return self._short_circuit(node)
            case ast.IfExp() if self._matters(node.body) or self._matters(node.orelse):
                return self._conditional(node)
            case ast.Compare() if len(node.ops) > 1 and any(self._matters(each) for each in node.comparators[1:]):
                return self._expression(unchained(node))
        copied = copy.copy(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                items = [self._expression(each) if isinstance(each, ast.expr) else each for each in value]
                setattr(copied, field, items)
            elif isinstance(value, ast.expr) and field != "func":
                setattr(copied, field, self._expression(value))
        self._count(node)
        return copied

    def _matters(self, node: ast.expr) -> bool:
        """Whether evaluating `node` is an access or FLOP."""
        return any(
            (isinstance(each, ast.Subscript) and self.value_types.array(root(each)) is not None)
            or self.value_types.flop(each)
            for each in ast.walk(node)
        )

    def _short_circuit(self, node: ast.BoolOp) -> ast.expr:
        name = self._temp()
        self._line(f"{name} = bool({self._text(node.values[0])})")
        outside, depth = self.block, self.depth
        for each in node.values[1:]:
            self._line(f"if {name}:" if isinstance(node.op, ast.And) else f"if not {name}:")
            self.depth += 1
            self._new_block()
            self._line(f"{name} = bool({self._text(each)})")
        self.block, self.depth = outside, depth
        self.checked.clear()
        return ast.Name(name, ast.Load())

    def _conditional(self, node: ast.IfExp) -> ast.expr:
        name, test = self._temp(), self._text(node.test)
        outside = self.block
        for word, value in ((f"if {test}:", node.body), ("else:", node.orelse)):
            self._line(word)
            self.depth += 1
            self._new_block()
            self._line(f"{name} = {self._text(value)}")
            self.depth -= 1
        self.block = outside
        self.checked.clear()
        return ast.Name(name, ast.Load())

    def _temp(self) -> str:
        self.temps += 1
        return f"_rlt{self.temps}"

    def _access(self, node: ast.Subscript) -> tuple[ast.Subscript, str]:
        """The access as it is to be executed, and its address, after its bounds were checked."""
        base, index_nodes = root(node), indices(node)
        assert isinstance(base, ast.Name)
        array = self.value_types.array(base)
        assert array is not None
        if len(index_nodes) != array.ndim:
            refuse(
                self.source,
                node,
                f"{ast.unparse(node)}: {len(index_nodes)} of {array.ndim} indices; a row or plane"
                " is a loop that cannot be seen: give all indices",
            )
        places = [self._expression(each) for each in index_nodes]
        terms = [f"_rlb_{base.id}"]
        number = len(self.refs)
        for axis, index in enumerate(places):
            name = self._checked(index, base.id, axis, number)
            last = axis == array.ndim - 1 and self.layouts[base.id].unit
            terms.append(f"{name} * {array.itemsize if last else f'_rls{axis}_{base.id}'}")
        within = ast.Tuple(places, ast.Load()) if len(places) > 1 else places[0]
        return ast.Subscript(base, within, node.ctx), " + ".join(terms)

    def _checked(self, index: ast.expr, array: str, axis: int, number: int) -> str:
        text = ast.unparse(index)
        key = (text, array, axis)
        if key not in self.checked:
            name, length = self._temp(), f"_rln{axis}_{array}"
            self._line(f"{name} = np.int64({text})")
            self._line(f"if np.uint64({name}) >= np.uint64({length}):")
            self._line(f"    {name} = _rl_outside(_rlE, {number}, {axis}, {name}, {length})")
            self.checked[key] = name
        return self.checked[key]

    def _report(self, node: ast.Subscript, address: str, *, write: bool) -> None:
        base, number = root(node), len(self.refs)
        assert isinstance(base, ast.Name)
        array = self.value_types.array(base)
        assert array is not None
        variable = self.loops[self.inside[-1]].variable if self.inside else ""
        pattern = self.patterns.of(node, variable, self.layouts[base.id].unit)
        ref = Ref(number, base.id, node.lineno, ast.unparse(node), write, array.itemsize, self.block, pattern)
        self.refs.append(ref)
        call = "_rl_access" if self.layouts[base.id].split else "_rl_within"
        request = "_rl_STORE" if write else "_rl_LOAD"
        self._line(f"{call}(_rlV, {address}, {array.itemsize}, {request}, {number})")

    def _count(self, node: ast.AST) -> None:
        for each in self.value_types.flop(node):
            held = self.flop.setdefault((self.block, getattr(node, "lineno", 0)), Counter())
            held[each.engine, each.dtype] += each.times
