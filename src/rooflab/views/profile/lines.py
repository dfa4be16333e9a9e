"""Rows of a profile that differ by their layer alone, as one line each: what its page lists and draws."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rooflab.types.profile import ProfileRow

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")  # a part of a path that is a number


class Line(NamedTuple):
    """Equal operations in alike modules.

    Attributes:
        row: the first of them.
        rows: all of them.
        numbers: theirs among the profile's rows.
        module: of all of them: "layers.0–11.mlp".
    """

    row: ProfileRow
    rows: tuple[ProfileRow, ...]
    numbers: tuple[int, ...]
    module: str

    @property
    def executions(self) -> int:
        """How often they ran."""
        return sum(row.executions for row in self.rows)

    @property
    def time_s(self) -> float:
        """Measured, all together."""
        return sum(row.time_s for row in self.rows)

    @property
    def low_s(self) -> float:
        """As if every execution had taken the 10th percentile of its row."""
        return sum(row.observation.low_s * row.executions for row in self.rows)

    @property
    def high_s(self) -> float:
        """As if every execution had taken the 90th percentile of its row."""
        return sum(row.observation.high_s * row.executions for row in self.rows)

    @property
    def flop(self) -> float | None:
        """FLOP of all; None unless every row's are known."""
        return whole(row.flop for row in self.rows)

    @property
    def nbytes(self) -> float | None:
        """Bytes of all at main memory; None unless every row's are known."""
        return whole(row.nbytes for row in self.rows)

    def predicted(self, name: str) -> float | None:
        """That attribute of the predictions, summed; None unless every row has one."""
        return whole(None if row.prediction is None else getattr(row.prediction, name) for row in self.rows)


def lines_of(rows: Sequence[ProfileRow]) -> tuple[Line, ...]:
    """A line for rows that are equal but for numbers in their modules' paths, in the order of the first."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, row in enumerate(rows):
        alike.setdefault(_key(row), []).append(number)
    return tuple(
        Line(rows[numbers[0]], tuple(rows[one] for one in numbers), tuple(numbers), _path(rows, numbers))
        for numbers in alike.values()
    )


def _key(row: ProfileRow) -> tuple[object, ...]:
    return (
        row.name,
        row.shapes,
        row.dtype,
        row.label,
        row.why,
        row.unmatched,
        row.phase,
        row.where,
        row.bound,
        row.binds,
        row.prediction is None,
        _NUMBER.sub("*", row.module),
    )


def _path(rows: Sequence[ProfileRow], numbers: Sequence[int]) -> str:
    """The module of those rows, numbers that differ as their range."""
    paths = [rows[number].module.split(".") for number in numbers]
    parts = []
    for several in zip(*paths, strict=True):
        found = sorted(set(several), key=lambda part: (int(part) if part.isdecimal() else 0, part))
        parts.append(found[0] if len(found) == 1 else f"{found[0]}–{found[-1]}")
    return ".".join(parts)


def whole(values: Iterable[float | None]) -> float | None:
    """The sum; None where one is unknown."""
    known = list(values)
    return None if any(one is None for one in known) else math.fsum(one for one in known if one is not None)
