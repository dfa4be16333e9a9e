"""Which operation of one side is which of the other: by order where both have one, else by name and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rooflab.comparing.alignment import aligned, blocks
from rooflab.comparing.side import Item, Read
from rooflab.types.comparison import Measure, Status

_SAME_NAME, _SAME_KIND = 4.0, 2.0
_SHAPES, _MODULE, _DTYPE, _PHASE = 2.0, 1.5, 0.5, 0.5


class Met(NamedTuple):
    """Operations that stand for each other; one of the two is empty for an operation of one side alone."""

    status: Status
    base: tuple[Item, ...]
    other: tuple[Item, ...]


def matched(base: Read, other: Read) -> list[Met]:
    """The operations of `base` and `other` laid beside each other, each exactly once."""
    if base.ordered and other.ordered:
        return _in_order(base.items, other.items)
    return _by_name(base.items, other.items, modules=base.ordered == other.ordered)


def _in_order(base: Sequence[Item], other: Sequence[Item]) -> list[Met]:
    pairs = aligned(
        [item.key for item in base], [item.key for item in other], lambda b, o: _score(base[b], other[o])
    )
    found = []
    for block in blocks(pairs, len(base), len(other)):
        ones, twos = tuple(base[at] for at in block.base), tuple(other[to] for to in block.other)
        if len(ones) == len(twos) == 1 and _score(ones[0], twos[0]):
            found.append(Met(_status(ones[0], twos[0]), ones, twos))
        elif ones and twos and any(len(item.members) > 1 for item in (*ones, *twos)):
            found.append(Met("fused", ones, twos))
        else:
            found += [Met("removed", (item,), ()) for item in ones]
            found += [Met("added", (), (item,)) for item in twos]
    return found


def _score(base: Item, other: Item) -> float:
    if base.name == other.name:
        score = _SAME_NAME
    elif base.kind is not None and base.kind == other.kind and max(len(base.members), len(other.members)) < 2:
        # What a compiler fused stands for several: it is laid beside all of them, not beside one.
        score = _SAME_KIND
    else:
        return 0.0
    score += _SHAPES * (base.shapes == other.shapes) + _MODULE * (base.module == other.module)
    return score + _DTYPE * (base.dtype == other.dtype) + _PHASE * (base.phase == other.phase)


def _status(base: Item, other: Item) -> Status:
    alike = (base.name, base.shapes, base.dtype) == (other.name, other.shapes, other.dtype)
    return "matched" if alike else "changed"


def _by_name(base: Sequence[Item], other: Sequence[Item], modules: bool) -> list[Met]:
    """Those of one name, shapes and format (and module, where both know it); then what is left by name."""

    def key(item: Item) -> tuple[str, ...]:
        return (item.name, item.shapes, item.dtype, *((item.module, item.phase) if modules else ()))

    ones, twos = _groups(base, key), _groups(other, key)
    found = [Met("matched", ones[each], twos[each]) for each in ones if each in twos]
    left: dict[tuple[str, str], list[tuple[Item, ...]]] = {}
    for each, items in twos.items():
        if each not in ones:
            left.setdefault((items[0].name, items[0].phase), []).append(items)
    for each, items in ones.items():
        if each in twos:
            continue
        waiting = left.get((items[0].name, items[0].phase))
        if waiting:
            # The nearest in what it is made of: the same module, the same format, else the next.
            nearest = max(waiting, key=lambda those, item=items[0]: _score(item, those[0]))
            waiting.remove(nearest)
            found.append(Met("changed", items, nearest))
        else:
            found.append(Met("removed", items, ()))
    return found + [Met("added", (), items) for groups in left.values() for items in groups]


def _groups(items: Sequence[Item], key) -> dict[tuple[str, ...], tuple[Item, ...]]:
    groups: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return {each: tuple(those) for each, those in groups.items()}


def summed(items: Sequence[Item], divisor: float) -> Measure | None:
    """The numbers of several operations together, divided; None for none. What one of them lacks, all do."""
    if not items:
        return None
    each = [item.measure for item in items]

    def total(name: str) -> float | None:
        values = [getattr(one, name) for one in each]
        return None if None in values else sum(values) / divisor

    names = (
        "time_s",
        "low_s",
        "high_s",
        "flop",
        "nbytes",
        "launches",
        "overhead_s",
        "roof_compute_s",
        "roof_memory_s",
    )
    longest = max(each, key=lambda one: one.time_s or 0.0)
    return Measure(
        count=sum(one.count for one in each) / divisor,
        bound=longest.bound,
        binds=longest.binds,
        **{name: total(name) for name in names},
    )
