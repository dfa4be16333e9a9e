"""The memory wall over the years of the catalogue: how fast peaks, bandwidths and ridge points grew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rooflab.machines import catalog
from rooflab.types.machine import Machine, is_main_memory

MONTHS = 18  # what growth is told for: Moore's 18 months
LEAST, SPAN = 6, 3  # machines and years that a fit needs
# Student's t for a two-sided 95 % interval, by degrees of freedom (any table of it; 1.96 in the limit).
_T95 = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086}
_T95 |= {30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980}


class Dated(NamedTuple):
    """A machine with a year: its theoretical peak, its main memory's bandwidth, and where they meet."""

    name: str
    group: str
    year: int
    dtype: str
    flop_per_s: float
    bytes_per_s: float

    @property
    def ridge(self) -> float:
        """FLOP/byte."""
        return self.flop_per_s / self.bytes_per_s


class Growth(NamedTuple):
    """A straight line through the logarithms of a quantity over years, by least squares.

    Attributes:
        factor: growth in 18 months; `low` and `high` are its 95 % interval.
        at: the fitted value in the first year.
        machines, first, last: how many, from which year to which.
    """

    factor: float
    low: float
    high: float
    at: float
    machines: int
    first: int
    last: int

    def value(self, year: float) -> float:
        """The fitted value in `year`."""
        return self.at * self.factor ** ((year - self.first) * 12 / MONTHS)


class Group(NamedTuple):
    """Machines of one sort, and how their numbers grew; a growth is None where there are too few.

    Attributes:
        what: the peak that is meant.
        peak, bandwidth, ridge: of all machines, each counted once.
        best_peak, best_bandwidth: of the highest number of each year.
    """

    name: str
    what: str
    machines: tuple[Dated, ...]
    peak: Growth | None
    bandwidth: Growth | None
    ridge: Growth | None
    best_peak: Growth | None
    best_bandwidth: Growth | None


# Which kinds are compared with each other, and which peak of theirs: the one that their programs run on.
GROUPS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    ("accelerators", ("gpu", "tpu", "asic"), ("bf16", "fp16"), "dense 16-bit peak"),
    ("CPUs", ("cpu",), ("fp64",), "fp64 peak"),
)


def growth_of_catalogue() -> tuple[Group, ...]:
    """The machines of the catalogue that state a year, a peak and a bandwidth, by group; systems are left out."""
    machines = [catalog.find(name) for name in catalog.names()]
    return tuple(group(name, what, dated(machines, name, kinds, dtypes)) for name, kinds, dtypes, what in GROUPS)


def dated(
    machines: Iterable[Machine], group_name: str, kinds: Sequence[str], dtypes: Sequence[str]
) -> tuple[Dated, ...]:
    """Those of `machines` that are of `kinds` and state everything, the oldest first."""
    found = []
    for machine in machines:
        memory = next((level for level in machine.levels if is_main_memory(level)), None)
        rate = None if memory is None else memory.rate(basis="theoretical")
        peaks = [machine.peak(dtype, basis="theoretical") for dtype in dtypes]
        peak = next((peak for peak in peaks if peak is not None), None)
        if machine.kind not in kinds or machine.year is None or rate is None or peak is None:
            continue
        found.append(Dated(machine.name, group_name, machine.year, peak.dtype or "", peak.value, rate.value))
    return tuple(sorted(found, key=lambda each: (each.year, each.ridge)))


def group(name: str, what: str, machines: Sequence[Dated]) -> Group:
    """`machines` with the growth of each of their numbers."""

    def grown(value: Callable[[Dated], float]) -> Growth | None:
        return fit([(each.year, value(each)) for each in machines])

    def best(value: Callable[[Dated], float]) -> Growth | None:
        years = sorted({each.year for each in machines})
        return fit([(year, max(value(each) for each in machines if each.year == year)) for year in years])

    def peak(each: Dated) -> float:
        return each.flop_per_s

    def bandwidth(each: Dated) -> float:
        return each.bytes_per_s

    ridge = grown(lambda each: each.ridge)
    return Group(name, what, tuple(machines), grown(peak), grown(bandwidth), ridge, best(peak), best(bandwidth))


def fit(points: Sequence[tuple[float, float]]) -> Growth | None:
    """The growth of `points` (year, value); None of fewer than 6, or over fewer than 3 years.

    >>> growth = fit([(2000 + n, 2.0 ** (n / 1.5)) for n in range(8)])
    >>> round(growth.factor, 6), round(growth.low, 6)
    (2.0, 2.0)
    """
    years = [year for year, _ in points]
    if len(points) < LEAST or max(years) - min(years) < SPAN:
        return None
    logs = [math.log(value) for _, value in points]
    count, middle, level = len(points), sum(years) / len(points), sum(logs) / len(points)
    squares = sum((year - middle) ** 2 for year in years)
    slope = sum((year - middle) * (log - level) for year, log in zip(years, logs, strict=True)) / squares
    rest = sum((log - level - slope * (year - middle)) ** 2 for year, log in zip(years, logs, strict=True))
    error = math.sqrt(rest / (count - 2) / squares)
    first, reach = min(years), _t95(count - 2) * error
    per = MONTHS / 12
    return Growth(
        math.exp(slope * per),
        math.exp((slope - reach) * per),
        math.exp((slope + reach) * per),
        math.exp(level + slope * (first - middle)),
        count,
        int(first),
        int(max(years)),
    )


def _t95(freedom: int) -> float:
    """Student's t: of the next smaller tabled degree of freedom, so that the interval is never too narrow."""
    return _T95[max(each for each in _T95 if each <= freedom)]
