"""Subtotals of a report's rows: by module as a tree, by kind or by the framework's operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rooflab.errors import UnknownNameError

if TYPE_CHECKING:
    from rooflab.types.report import Row

GroupBy = Literal["module", "kind", "op"]
ITSELF = "(itself)"  # operations of a module outside the modules in it


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What several rows ask for together.

    Attributes:
        name: path of the module ("" for the whole program), the kind, or the operation's name.
        depth: in the tree of modules, 0 for the whole program; 0 for kinds and operations.
        ops, counted: rows, and those with a cost; the numbers are sums over the latter.
        time_s: predicted seconds of the rows that have a prediction; None where none has.
        timed: whether every row that takes time has one: else `time_s` is less than the group takes.
    """

    name: str
    depth: int = 0
    ops: int = 0
    counted: int = 0
    flop: float = 0.0
    matrix_flop: float = 0.0
    macs: float = 0.0
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    time_s: float | None = None
    timed: bool = True

    @property
    def nbytes(self) -> float:
        """Compulsory bytes both ways."""
        return self.read_bytes + self.write_bytes

    @property
    def intensity(self) -> float | None:
        """FLOP per compulsory byte; None where no byte is moved."""
        return self.flop / self.nbytes if self.nbytes else None


def grouped(rows: Sequence[Row], key: GroupBy) -> tuple[Group, ...]:
    """The groups of `rows` by `key`; see `Report.by`.

    Raises:
        UnknownNameError: another key.
    """
    if key == "module":
        return _tree(rows)
    if key not in ("kind", "op"):
        raise UnknownNameError("grouping", key, ("module", "kind", "op"))
    members_of: dict[str, list[Row]] = {}
    for name, row in zip(names_of(rows, key), rows, strict=True):
        members_of.setdefault(name, []).append(row)
    groups = [_sum(name, 0, members) for name, members in members_of.items()]
    return tuple(sorted(groups, key=lambda group: (-(group.time_s or 0.0), -group.flop, -group.nbytes)))


def names_of(rows: Sequence[Row], key: GroupBy) -> list[str]:
    """The group that each row belongs to by kind or operation; what has no kind is under its own name."""
    return [row.op.name if key == "op" else row.op.kind or f"unknown: {row.op.name}" for row in rows]


def _tree(rows: Sequence[Row]) -> tuple[Group, ...]:
    """Depth first, in the order in which the modules first ran."""
    members: dict[str, list[Row]] = {"": list(rows)}
    children: dict[str, list[str]] = {"": []}
    own: dict[str, list[Row]] = {}
    for row in rows:
        path = row.op.module
        own.setdefault(path, []).append(row)
        parts = path.split(".") if path else []
        for depth in range(len(parts)):
            parent, child = ".".join(parts[:depth]), ".".join(parts[: depth + 1])
            if child not in members:
                members[child], children[child] = [], []
                children[parent].append(child)
            members[child].append(row)
    groups = []
    waiting = [("", 0)]
    while waiting:
        path, depth = waiting.pop()
        groups.append(_sum(path, depth, members[path]))
        if children[path] and own.get(path):
            groups.append(_sum(f"{path}.{ITSELF}" if path else ITSELF, depth + 1, own[path]))
        waiting += [(child, depth + 1) for child in reversed(children[path])]
    return tuple(groups)


def _sum(name: str, depth: int, rows: Iterable[Row]) -> Group:
    sums: dict[str, Any] = dict.fromkeys(("flop", "matrix_flop", "macs", "read_bytes", "write_bytes"), 0.0)
    ops = counted = 0
    time_s, timed = None, True
    for row in rows:
        ops += 1
        if row.prediction is not None:
            time_s = (time_s or 0.0) + row.prediction.time_s
        else:
            timed = timed and not row.takes_time
        if row.cost is not None:
            counted += 1
            for field in sums:
                sums[field] += getattr(row, field)
    return Group(name=name, depth=depth, ops=ops, counted=counted, time_s=time_s, timed=timed, **sums)
