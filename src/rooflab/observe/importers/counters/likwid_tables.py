"""The tables of likwid-perfctr, framed or comma-separated: each group that was measured in a region."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rooflab.observe.reading.numerals import numeral

_BANNER = re.compile(r"(?:^|\+)\s*(?:Region (.+?), )?Group (\d+): (.+?)\s*$")
_BANNER_4_0 = re.compile(r"Group (\d+) (\S+): Region (.+?)\s*$")
# Of likwid 3 and before, which has no counters in its tables.
_GROUP_3, _REGION_3 = re.compile(r"Measuring group (\S+)"), re.compile(r"Region: (.+?)\s*$")
_TABLE = re.compile(r"(?:Region (.+?),)?Group (\d+) (Raw|Metric)( STAT)?,([^,]*)")
_ABOUT = re.compile(r"CPU (name|type|clock):[\t, ]\s*(.*?)[\s,]*$")
_COLUMN = re.compile(r"(?:HWThread|[Cc]ore|GPU) \d+|[^\s,|]+:\d+:\d+")  # host:rank:thread of likwid-mpirun
_HEADS = ("Region Info", "Event", "Metric")
_MOST_CELLS = 100_000

Values = dict[str, float | None]  # by column: "HWThread 3", "Core 3", "GPU 0", "host:0:3"


class Counter(NamedTuple):
    """An event on a counter, its counts by column."""

    event: str
    counter: str
    values: Values


class Measured:
    """A group of events measured in a region, or in the whole run.

    Attributes:
        region: its name; None for the whole run.
        group: what likwid calls the set of events.
        about: what the table of the region says, by its labels: time and calls.
        counters: raw counts.
        metrics: what the group's formulas made of them, by label.
        decimals: digits after the point of the metrics' run time, where it was read from there.
    """

    def __init__(self, region: str | None, number: int, group: str) -> None:
        self.region, self.number, self.group = region, number, group
        self.about: dict[str, Values] = {}
        self.counters: list[Counter] = []
        self.metrics: dict[str, Values] = {}
        self.decimals: int | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether its columns are GPUs."""
        return any(column.startswith("GPU") for one in self.counters for column in one.values)


class Tables(NamedTuple):
    """All groups in the file's order, what it says of the CPU, and how many lines of tables were no row."""

    groups: list[Measured]
    cpu: dict[str, str]
    dropped: int


def is_table(text: str) -> bool:
    """Whether a table of likwid-perfctr begins in `text`."""
    return bool(
        re.search(r"^[ \t]*\|\s+Event\s+\|\s+(?:Counter|core \d+)\s+\|", text, re.MULTILINE)
        or re.search(r"^TABLE,(?:Region [^\n]+?,)?Group \d+ (?:Raw|Metric)", text, re.MULTILINE)
    )


def read(text: str) -> Tables:
    """The tables in `text`, whatever else stands between them."""
    reader = _Reader()
    for line in text.splitlines():
        reader.take(line.rstrip())
    return Tables(list(reader.groups.values()), reader.cpu, reader.dropped)


class _Reader:
    """Where we are in the file: which group, which kind of table, which columns."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str | None, int, str, int], Measured] = {}
        self.cpu: dict[str, str] = {}
        self.dropped = 0
        self._at: Measured | None = None
        self._head: list[str] = []
        self._kind = ""
        self._csv = False
        self._turn = 0
        self._group_3 = ""

    def take(self, line: str) -> None:
        if line[:1] in (" ", "\t"):  # pasted with an indent
            line = line.lstrip()
        about = _ABOUT.match(line)
        if about:
            self.cpu.setdefault(about.group(1), about.group(2))
            return
        if line.startswith("STRUCT,"):
            self._kind = ""
            return
        if line.startswith("TABLE,"):
            self._begin_csv(line.removeprefix("TABLE,"))
            return
        banner = None if line.startswith("|") else self._banner(line)
        if banner:
            self._begin(*banner, anew=True)
            self._csv, self._kind = False, ""
            return
        cells = self._cells(line)
        if not cells:
            return
        if cells[0] in _HEADS or cells[0].removesuffix(" STAT") in _HEADS:
            self._start_table(cells)
        elif self._kind and self._at is not None:
            self._row(self._at, cells)

    def _banner(self, line: str) -> tuple[str | None, int, str] | None:
        """The region, number and name of the group that `line` begins, as each version writes them."""
        if found := _BANNER.search(line):
            return found.group(1), int(found.group(2)), found.group(3)
        if found := _BANNER_4_0.match(line):
            return found.group(3), int(found.group(1)), found.group(2)
        if found := _GROUP_3.match(line):
            self._group_3 = found.group(1)
            return None, 1, self._group_3
        found = _REGION_3.match(line) if self._group_3 else None
        return (found.group(1), 1, self._group_3) if found else None

    def _begin(self, region: str | None, number: int, group: str, *, anew: bool) -> None:
        key = (region, number, group, self._turn)
        if anew and key in self.groups and self.groups[key].counters:
            # The same region and group once more: of another process, or of a file that was appended to.
            self._turn += 1
            key = (region, number, group, self._turn)
        self._at = self.groups.setdefault(key, Measured(region, number, group))

    def _begin_csv(self, rest: str) -> None:
        self._csv, self._kind = True, ""
        match = _TABLE.match(rest)
        if match is None:
            self._at = None
            self.dropped += 1
            return
        raw = match.group(3) == "Raw" and not match.group(4)
        self._begin(match.group(1), int(match.group(2)), match.group(5), anew=raw)
        if match.group(4):
            self._kind = "statistics"

    def _cells(self, line: str) -> list[str] | None:
        """The cells of a table's row; None for any other line."""
        if line.startswith("|"):
            self._csv = False
            return [cell.strip() for cell in re.split(r"\s\|(?:\s|$)", f" {line[1:]} ")[:-1]]
        if self._csv and "," in line:
            cells = [cell.strip() for cell in line.split(",")]
            return cells if len(cells) < _MOST_CELLS else None
        return None

    def _start_table(self, cells: list[str]) -> None:
        self._head = cells
        columns = [cell for cell in cells[1:] if _COLUMN.fullmatch(cell)]
        self._kind = cells[0] if columns else "statistics"

    def _row(self, at: Measured, cells: list[str]) -> None:
        if self._kind == "statistics":
            return
        values = dict(self._values(cells))
        if not cells[0] or not values:
            self.dropped += 1
        elif self._kind == "Region Info":
            at.about[cells[0]] = values
        elif self._kind == "Event":
            counter = cells[1] if len(cells) > 1 and not _COLUMN.fullmatch(self._head[1]) else ""
            if counter == "TSC":  # the run time, in place of the metrics that a group of one's own has none of
                at.about[cells[0]] = values
            elif counter == "CTR":  # of likwid-mpirun, which has no table of the region
                at.about["call count"] = values
            else:
                at.counters.append(Counter(cells[0], counter, values))
        else:
            at.metrics[cells[0]] = values
            if cells[0].startswith("Runtime (RDTSC)"):
                at.decimals = max(
                    (len(cell.partition(".")[2]) for cell in cells[1:] if "e" not in cell), default=0
                )

    def _values(self, cells: list[str]) -> Iterator[tuple[str, float | None]]:
        for column, cell in zip(self._head, cells, strict=False):
            if _COLUMN.fullmatch(column) and cell:
                yield column, numeral(cell)
