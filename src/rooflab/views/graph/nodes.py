"""Which nodes and edges of a program are drawn: what takes time, folded by module where there is much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from rooflab.types.report import Report, Row
from rooflab.types.work import TensorSpec

MOST_NODES = 44  # in a picture; what does not fit is folded by module
_ALIKE_FROM = 3  # modules in a row with the same operations: from so many on, all but the first are one node
_CHUNKS = 20  # nodes that operations without a module are gathered into
_NAMED = 3


class Node(NamedTuple):
    """What is drawn as one box, or as a frame around others.

    Attributes:
        key: its own name in the graph.
        title: what is written on it.
        path: of its module.
        sort: an operation, a module, operations gathered, or an input of the program.
        rows: which rows of the report it stands for.
        members: operations fused into it, in order; empty where it is one alone.
        inside: what is drawn in it, where it is a frame.
        alike: how many modules alike it stands for.
    """

    key: str
    title: str
    path: str
    sort: Literal["operation", "module", "gathered", "input"]
    rows: tuple[int, ...] = ()
    members: tuple[str, ...] = ()
    inside: tuple[Node, ...] = ()
    alike: int = 1


class Edge(NamedTuple):
    """Tensors that go from one node to another; each counts once, however many operations read it."""

    source: str
    target: str
    nbytes: float
    tensors: int
    what: str


class Sums(NamedTuple):
    """What the rows of a node take together.

    Attributes:
        time_s: of the rows that have a prediction; None where none has.
        whole: whether every row that takes time has one.
        bound: of the rows that take most of the time; None without a prediction.
        nbytes, flop: compulsory, of the counted rows; None where none is counted.
    """

    time_s: float | None
    whole: bool
    bound: str | None
    nbytes: float | None
    flop: float | None


class ProgramGraph(NamedTuple):
    """A program to draw. `drawn` of its `operations` take time; the others (views) are edges."""

    report: Report
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    operations: int
    drawn: int
    folded: int


def graph(report: Report, most: int | None = MOST_NODES) -> ProgramGraph:
    """The graph of `report` with about `most` nodes; None for every operation."""
    drawn = [number for number, row in enumerate(report.rows) if row.takes_time]
    flows, inputs = _flows(report, drawn)
    tree = _Module("", "")
    for number in drawn:
        tree.put(report.rows[number].op.module, number)
    chosen = _chosen(tree, report, len(drawn), most)
    nodes = (*_input_nodes(report, inputs), *chosen)
    owner = {number: leaf.key for leaf in leaves(nodes) for number in leaf.rows}
    owner_of_input = {
        t: node.key for node, group in zip(nodes, _input_groups(inputs), strict=False) for t in group
    }
    edges = _edges(report, flows, owner, owner_of_input)
    shown = sum(leaf.sort == "operation" for leaf in leaves(nodes))
    return ProgramGraph(report, nodes, edges, len(report.rows), len(drawn), len(drawn) - shown)


def leaves(nodes: Iterable[Node]) -> list[Node]:
    """The boxes in `nodes`: everything that is no frame."""
    found = []
    for node in nodes:
        found += leaves(node.inside) if node.inside else [node]
    return found


def sums(report: Report, rows: Sequence[int]) -> Sums:
    """What `rows` of `report` take together."""
    every = [report.rows[number] for number in rows]
    times = [row.prediction.time_s for row in every if row.prediction is not None]
    by_bound: dict[str, float] = {}
    for row in every:
        if row.prediction is not None:
            by_bound[row.prediction.bound] = by_bound.get(row.prediction.bound, 0.0) + row.prediction.time_s
    counted = [row for row in every if row.cost is not None]
    return Sums(
        sum(times) if times else None,
        len(times) == len(every),
        max(by_bound, key=lambda bound: by_bound[bound]) if by_bound else None,
        sum(row.nbytes or 0.0 for row in counted) if counted else None,
        sum(row.flop or 0.0 for row in counted) if counted else None,
    )


class _Flow(NamedTuple):
    """One use of a tensor: by row `target`, made by row `source` or an input of the program."""

    source: int | None
    target: int
    tensor: int  # the tensor that was made, not a view of it


def _flows(report: Report, drawn: Sequence[int]) -> tuple[list[_Flow], list[int]]:
    """Who made what each drawn row reads, views seen through; and the program's inputs that are read."""
    tensors, shown = report.graph.tensors, set(drawn)
    maker: dict[int, tuple[int | None, int]] = {}  # tensor or storage: the row that made it, as which tensor
    flows, inputs = [], []
    for number, row in enumerate(report.rows):
        found = []
        for tensor in row.op.inputs:
            made = [maker[key] for key in _keys(tensor, tensors) if key in maker]
            found.append(made[0] if made else (None, tensor))
        if number not in shown:
            for tensor in row.op.outputs:
                if found:
                    maker[tensor] = found[0]
            continue
        for source, tensor in dict.fromkeys(found):
            if source is None and tensors[tensor].role != "input":
                continue  # weights and constants: they are in the operation's bytes
            flows.append(_Flow(source, number, tensor))
            inputs += [tensor] if source is None else []
        for tensor in row.op.outputs:
            maker |= dict.fromkeys(_keys(tensor, tensors), (number, tensor))
    return flows, list(dict.fromkeys(inputs))


def _keys(tensor: int, tensors: Sequence[TensorSpec]) -> tuple[int, ...]:
    """What a tensor is known by: its number, and its storage, where known, as a number below zero."""
    storage = tensors[tensor].storage
    return (tensor, -1 - storage) if storage >= 0 else (tensor,)


def _input_groups(inputs: Sequence[int]) -> list[list[int]]:
    return [[tensor] for tensor in inputs] if len(inputs) <= 4 else [list(inputs)]


def _input_nodes(report: Report, inputs: Sequence[int]) -> list[Node]:
    """A node for each of the few inputs, or one for all."""
    nodes = []
    for group in _input_groups(inputs) if inputs else []:
        spec = report.graph.tensors[group[0]]
        title = f"{spec.name or 'input'}: {described(spec)}" if len(group) == 1 else f"{len(group)} inputs"
        nodes.append(Node(f"input {group[0]}", title, "", "input"))
    return nodes


def described(spec: TensorSpec) -> str:
    """A tensor's shape and number format: "8 × 1024 bf16"."""
    return f"{' × '.join(map(str, spec.shape)) or 'scalar'} {spec.dtype}"


def _edges(
    report: Report, flows: Sequence[_Flow], owner: dict[int, str], owner_of_input: dict[int, str]
) -> tuple[Edge, ...]:
    found: dict[tuple[str, str], dict[int, None]] = {}
    for flow in flows:
        source = owner_of_input[flow.tensor] if flow.source is None else owner[flow.source]
        target = owner[flow.target]
        if source != target:
            found.setdefault((source, target), {})[flow.tensor] = None
    edges = []
    for (source, target), tensors in found.items():
        specs = [report.graph.tensors[tensor] for tensor in tensors]
        what = described(specs[0]) if len(specs) == 1 else f"{len(specs)} tensors"
        edges.append(Edge(source, target, sum(spec.nbytes for spec in specs), len(specs), what))
    return tuple(edges)


class _Module:
    """A module while the tree is made: its own rows and its modules, in the order in which they first ran."""

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name
        self.children: list[int | _Module] = []
        self._modules: dict[str, _Module] = {}
        self.rows: list[int] = []

    @property
    def title(self) -> str:
        """Its name; of a number in a list the list's too."""
        return ".".join(self.path.split(".")[-2:]) if self.name.isdigit() else self.name

    def put(self, path: str, row: int) -> None:
        """Add a row that ran in the module at `path` below this one."""
        self.rows.append(row)
        head, _, rest = path.partition(".")
        if not head:
            self.children.append(row)
            return
        if head not in self._modules:
            inner = _Module(f"{self.path}.{head}" if self.path else head, head)
            self._modules[head] = inner
            self.children.append(inner)
        self._modules[head].put(rest, row)


def _signature(module: _Module, report: Report) -> tuple[object, ...]:
    """The same for two modules that do the same work on tensors of the same form."""
    return tuple(_work(report, report.rows[number], len(module.path)) for number in module.rows)


def _work(report: Report, row: Row, prefix: int) -> tuple[object, ...]:
    forms = tuple(
        (report.graph.tensors[t].shape, report.graph.tensors[t].dtype) for t in (*row.op.inputs, *row.op.outputs)
    )
    return row.op.name, row.op.module[prefix:], row.op.count, forms


def _parts(module: _Module, report: Report) -> list[object]:
    """What is drawn in a module: rows, modules, runs of modules alike (tuples), rows gathered (lists)."""
    parts: list[object] = []
    run: list[_Module] = []
    form: tuple[object, ...] | None = None

    def close() -> None:
        parts.extend([run[0], tuple(run[1:])] if len(run) >= _ALIKE_FROM else run)
        run.clear()

    for child in module.children:
        found = _signature(child, report) if isinstance(child, _Module) else None
        if run and found != form:
            close()
        if isinstance(child, _Module):
            run.append(child)
            form = found
        else:
            parts.append(child)
    close()
    if len(parts) <= _CHUNKS:
        return parts
    return _gathered(parts, -(-len(parts) // _CHUNKS))


def _gathered(parts: Sequence[object], size: int) -> list[object]:
    """Neighbouring rows in lists of `size`; modules stay."""
    found: list[object] = []
    for part in parts:
        if isinstance(part, int):
            last = found[-1] if found else None
            if isinstance(last, list) and len(last) < size:
                last.append(part)
            else:
                found.append([part])
        else:
            found.append(part)
    return [part[0] if isinstance(part, list) and len(part) == 1 else part for part in found]


def _chosen(tree: _Module, report: Report, rows: int, most: int | None) -> tuple[Node, ...]:
    """The nodes of the program, the modules that take most of the time opened first."""
    if most is None or rows <= most:
        return tuple(_node(part, report, None) for part in tree.children)
    opened = {tree.path}
    visible = len(_parts(tree, report))
    closed = [part for part in _parts(tree, report) if isinstance(part, _Module)]
    while closed:
        module = max(closed, key=lambda module: _weight(module, report))
        closed.remove(module)
        inner = _parts(module, report)
        if visible + len(inner) - 1 <= most:
            opened.add(module.path)
            visible += len(inner) - 1
            closed += [part for part in inner if isinstance(part, _Module)]
    return tuple(_node(part, report, opened) for part in _parts(tree, report))


def _weight(module: _Module, report: Report) -> tuple[float, int]:
    return sums(report, module.rows).time_s or 0.0, len(module.rows)


def _node(part: object, report: Report, opened: set[str] | None) -> Node:
    if isinstance(part, int):
        op = report.rows[part].op
        members = op.attrs.get("members", ())
        fused = tuple(map(str, members)) if isinstance(members, (tuple, list)) and len(members) > 1 else ()
        title = op.name.removeprefix("aten.").removeprefix("fused ")
        return Node(
            f"op {part}",
            title + (f" × {op.count}" if op.count > 1 else ""),
            op.module,
            "operation",
            (part,),
            fused,
        )
    if isinstance(part, list):
        names = list(dict.fromkeys(report.rows[number].op.name.removeprefix("aten.") for number in part))
        some = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        return Node(
            f"ops {part[0]}",
            f"{len(part)} operations: {some}",
            report.rows[part[0]].op.module,
            "gathered",
            tuple(part),
        )
    if isinstance(part, tuple):
        first, last = part[0], part[-1]
        rows = tuple(number for module in part for number in module.rows)
        title = f"{first.title} … {last.title}: {len(part)} alike"
        return Node(f"modules {first.path}", title, first.path, "module", rows, alike=len(part))
    assert isinstance(part, _Module)
    inside = ()
    (only, *others) = part.children
    if isinstance(only, int) and not others:
        # A frame around one box would say nothing more.
        single = _node(only, report, opened)
        return single._replace(title=f"{part.title}: {single.title}")
    if opened is None or part.path in opened:
        parts = part.children if opened is None else _parts(part, report)
        inside = tuple(_node(each, report, opened) for each in parts)
    return Node(f"module {part.path}", part.title, part.path, "module", tuple(part.rows), (), inside)
