"""A machine in the terminal: rich tables that stay readable at 80 columns, plain text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO, cast

from rooflab.types.machine import Level, Machine, is_main_memory, whole_capacity_bytes
from rooflab.views import tables
from rooflab.views.sketch import sketch

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from rooflab.machines.ladder import Rung

PIPE_WIDTH = 120  # a pipe has no width of its own: wide enough for every table
# One sign for one, so that columns stay aligned.
_ASCII = str.maketrans("–—−×·µμ…─│→²³’“”", '---x.uu.-|>23\'""')


def console(file: TextIO | None = None) -> Console:
    """A console on `file` (stdout): colours on a terminal unless NO_COLOR is set, none in a pipe."""
    from rich.console import Console

    class Plain(Console):
        """rich's console, which leaves a broken pipe to the command line."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    file = sys.stdout if file is None else file
    width = None if file is not None and file.isatty() else PIPE_WIDTH
    if file is not None and not speaks_unicode(file):
        file = cast("TextIO", _Spelled(file))
    return Plain(file=file, width=width, highlight=False, emoji=False, markup=False)


def speaks_unicode(file: TextIO) -> bool:
    """Whether every character can be written to `file`; a made-up file that names no encoding takes them."""
    return (getattr(file, "encoding", None) or "utf-8").lower().startswith("utf")


class _Spelled:
    """A text file that holds fewer characters than Unicode (LC_ALL=C): the others are spelled with those."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write `text`, its known signs spelled out and any other that does not fit as a question mark."""
        spelled = text.translate(_ASCII)
        return self._file.write(spelled.encode(self._file.encoding, "replace").decode(self._file.encoding))

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def show(machine: Machine, file: TextIO | None = None) -> None:
    """Print everything that is known of `machine`."""
    out = console(file)
    for part in pages(machine, out.width, out.encoding.lower().startswith("utf")):
        out.print(part)


def pages(machine: Machine, width: int = 80, unicode: bool = True) -> list[RenderableType]:
    """What `show` prints, in order: who it is, its roofs, tables, failed checks, ridge points last."""
    from rich.text import Text

    made: list[RenderableType] = [Text(machine.name, style="bold")]
    made += [Text(line) for line in tables.facts(machine)]
    drawn = sketch(machine, min(width - 2, 76), unicode=unicode)
    if drawn:
        made += [Text(""), Text(drawn, no_wrap=True)]
    for table in tables.every(machine):
        made += [Text(""), *drawn_table(table, width)]
    made += _checks(machine)
    ridge = tables.ridge_sentence(machine)
    if ridge:
        made += [Text(""), Text(ridge)]
    return made


def show_catalogue(machines: Iterable[tuple[str, Machine]], file: TextIO | None = None) -> None:
    """Print one line for each machine: the name to ask for it by, memory, peaks."""
    rows = []
    for name, machine in machines:
        memory = next((level for level in machine.levels if is_main_memory(level)), None)
        rows.append(
            (name, machine.kind, str(machine.year or tables.UNKNOWN), *_memory(memory, machine), *_peaks(machine))
        )
    columns = ("machine", "kind", "year", "memory", "bandwidth", "fp64", "fp32", "16-bit")
    note = (
        "Theoretical, dense, of the fastest unit; 16-bit: bf16, else fp16. "
        "`rooflab machines NAME` shows one with its sources."
    )
    table, out = tables.Table("", columns, tuple(rows), words=2, note=note), console(file)
    if len(fold(table, out.width)) > 1:
        table = tables.without(table, ("kind", "year", "fp32"))
    for part in drawn_table(table, out.width):
        out.print(part)


def show_ladder(machine: Machine, rungs: Sequence[Rung], file: TextIO | None = None) -> None:
    """Print the memory hierarchy from registers to the internet: what each step away costs."""
    from rich.text import Text

    rows = [
        (
            rung.name,
            tables.capacity(rung.capacity_bytes),
            tables.quantity(rung.bytes_per_s, "B/s"),
            rung.basis or tables.UNKNOWN,
            tables.lasting(rung.latency_s),
            tables.lasting(rung.time_s),
            tables.UNKNOWN if rung.slower is None else f"{rung.slower:.3g} ×",
        )
        for rung in rungs
    ]
    columns = ("level", "capacity", "bandwidth", "basis", "latency", "1 GB takes", "slower")
    note = (
        "Slower: times the level before. What lies beyond the machine's own levels and links is typical "
        "equipment, assumed. Dashes are unknown, not zero."
    )
    out = console(file)
    out.print(Text(machine.name, style="bold"))
    for part in drawn_table(tables.Table("From near to far", columns, tuple(rows), note=note), out.width):
        out.print(part)


def drawn_table(table: tables.Table, width: int) -> list[RenderableType]:
    """The title, the rich table and the note; columns that don't fit go to a second table below."""
    from rich.text import Text

    made: list[RenderableType] = [Text(table.title, style="bold")] if table.title else []
    for number, part in enumerate(fold(table, width)):
        made += [Text(""), _drawn(part)] if number else [_drawn(part)]
    if table.note:
        made.append(Text(table.note, style="dim"))
    return made


def fold(table: tables.Table, width: int) -> list[tables.Table]:
    """`table` in as few parts as `width` columns allow, each with the first column repeated."""
    rows = (table.columns, *table.rows)
    widths = [max(len(row[i]) for row in rows) + 2 for i in range(len(table.columns))]
    groups, used = [[0]], widths[0]
    for i in range(1, len(widths)):
        if used + widths[i] > width and len(groups[-1]) > 1:
            groups.append([0])
            used = widths[0]
        groups[-1].append(i)
        used += widths[i]
    return [tables.only(table, group) for group in groups]


def _drawn(table: tables.Table) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, header_style="dim", padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for i, name in enumerate(table.columns):
        drawn.add_column(Text(name), justify="left" if i < table.words else "right", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def _checks(machine: Machine) -> list[RenderableType]:
    from rich.text import Text

    if not machine.checks:
        return []
    failed = [check for check in machine.checks if not check.ok]
    total = len(machine.checks)
    if not failed:
        return [Text(""), Text(f"All {total} self-checks hold.")]
    made: list[RenderableType] = [Text(""), Text(f"{len(failed)} of {total} self-checks failed", style="bold red")]
    return made + [Text.assemble((f"{check.name}: ", "bold"), check.message) for check in failed]


def _memory(level: Level | None, machine: Machine) -> tuple[str, str]:
    if level is None:
        return tables.UNKNOWN, tables.UNKNOWN
    capacity = tables.capacity(whole_capacity_bytes(level, machine))
    return capacity, tables.rate_text(level.rate(basis="theoretical") or level.rate())


def _peaks(machine: Machine) -> tuple[str, ...]:
    fp64, fp32, bf16, fp16 = (machine.peak(name, basis="theoretical") for name in ("fp64", "fp32", "bf16", "fp16"))
    return tuple(tables.rate_text(rate) for rate in (fp64, fp32, bf16 or fp16))
