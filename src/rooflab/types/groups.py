"""Subtotals of a report's rows: by module as a tree, by kind or by the framework's operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

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
    members_of: dict[str, list[_Numbers]] = {}
    for name, row in zip(names_of(rows, key), rows, strict=True):
        members_of.setdefault(name, []).append(_numbers(row, _counted(row)))
    groups = [_sum(name, 0, members) for name, members in members_of.items()]
    return tuple(sorted(groups, key=lambda group: (-(group.time_s or 0.0), -group.flop, -group.nbytes)))


def names_of(rows: Sequence[Row], key: GroupBy) -> list[str]:
    """The group that each row belongs to by kind or operation; what has no kind is under its own name."""
    return [row.op.name if key == "op" else row.op.kind or f"unknown: {row.op.name}" for row in rows]


def _tree(rows: Sequence[Row]) -> tuple[Group, ...]:
    """Depth first, in the order in which the modules first ran."""
    members: dict[str, list[_Numbers]] = {"": []}
    children: dict[str, list[str]] = {"": []}
    own: dict[str, list[_Numbers]] = {}
    counted: dict[tuple[int, int], tuple[float, ...] | None] = {}  # rows of a repeated block share one cost
    for row in rows:
        key = id(row.cost), row.op.count
        if key not in counted:
            counted[key] = _counted(row)
        path, numbers = row.op.module, _numbers(row, counted[key])
        own.setdefault(path, []).append(numbers)
        members[""].append(numbers)
        parts = path.split(".") if path else []
        for depth in range(len(parts)):
            parent, child = ".".join(parts[:depth]), ".".join(parts[: depth + 1])
            if child not in members:
                members[child], children[child] = [], []
                children[parent].append(child)
            members[child].append(numbers)
    groups = []
    waiting = [("", 0)]
    while waiting:
        path, depth = waiting.pop()
        groups.append(_sum(path, depth, members[path]))
        if children[path] and own.get(path):
            groups.append(_sum(f"{path}.{ITSELF}" if path else ITSELF, depth + 1, own[path]))
        waiting += [(child, depth + 1) for child in reversed(children[path])]
    return tuple(groups)


_FIELDS = ("flop", "matrix_flop", "macs", "read_bytes", "write_bytes")


class _Numbers(NamedTuple):
    """What a row adds to a sum: `counted` in the order of `_FIELDS`, None without a cost."""

    counted: tuple[float, ...] | None
    time_s: float | None
    lacks_time: bool


def _counted(row: Row) -> tuple[float, ...] | None:
    return None if row.cost is None else tuple([getattr(row, field) for field in _FIELDS])


def _numbers(row: Row, counted: tuple[float, ...] | None) -> _Numbers:
    if row.prediction is not None:
        return _Numbers(counted, row.prediction.time_s, False)
    return _Numbers(counted, None, row.takes_time)


def _sum(name: str, depth: int, rows: Iterable[_Numbers]) -> Group:
    held = list(rows)
    costs = [each.counted for each in held if each.counted is not None]
    times = [each.time_s for each in held if each.time_s is not None]
    totals = [sum(column, 0.0) for column in zip(*costs, strict=True)]
    sums = dict(zip(_FIELDS, totals, strict=True)) if costs else {}
    return Group(
        name=name,
        depth=depth,
        ops=len(held),
        counted=len(costs),
        time_s=sum(times) if times else None,
        timed=not any(each.lacks_time for each in held),
        **sums,
    )
