"""One side of a comparison: its numbers by name, its operations with what they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rooflab.types.comparison import Measure, Side, Value


class Metric(NamedTuple):
    """One number of a result.

    Attributes:
        name, unit: as in `Amount`.
        value: None where it is unknown.
        grows: whether twice the work has twice of it: it is then divided by samples or runs.
    """

    name: str
    unit: str
    value: Value | None
    grows: bool = False


class Item(NamedTuple):
    """One operation of a result; `members` are the names of those that a compiler fused into it."""

    name: str
    shapes: str
    dtype: str
    module: str
    kind: str | None
    phase: str
    members: tuple[str, ...]
    measure: Measure

    @property
    def key(self) -> tuple[str, ...]:
        """What two operations that are the same have in common."""
        return self.name, self.shapes, self.dtype, self.module, self.phase


class Read(NamedTuple):
    """A result as it is compared.

    Attributes:
        side: what it is.
        metrics: its numbers.
        items: its operations.
        ordered: whether they are in the order in which they ran.
        notes: what must be known of its numbers.
        setting: what predictions of the same model must share for their errors to be the same.
        waits: of a profile with a timeline: idle seconds by cause, all devices together.
        span_s: the wall time of these devices, all together; None without a timeline.
    """

    side: Side
    metrics: tuple[Metric, ...]
    items: tuple[Item, ...] = ()
    ordered: bool = False
    notes: tuple[str, ...] = ()
    setting: object = None
    waits: tuple[tuple[str, float], ...] = ()
    span_s: float | None = None


def value_of(
    value: float | None, low: float | None = None, high: float | None = None, least: bool = False
) -> Value | None:
    """`value` with its error bar; None where it is unknown."""
    return None if value is None else Value(value=value, low=low, high=high, least=least)


def barred(value: float | None, spread: float | None) -> Value | None:
    """`value` give and take `spread`, a share of it."""
    if value is None or spread is None:
        return value_of(value)
    return value_of(value, value * max(0.0, 1 - spread), value * (1 + spread))


def distinct(metrics: Iterable[Metric]) -> Iterator[Metric]:
    """The first of each name."""
    seen: set[str] = set()
    for metric in metrics:
        if metric.name not in seen:
            seen.add(metric.name)
            yield metric
