"""A machine in the terminal: rich tables that stay readable at 80 columns, plain text in a pipe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from rooflab.remedies import machines
from rooflab.types.machine import Level, Machine, is_main_memory, whole_capacity_bytes
from rooflab.views.common import advice as helping
from rooflab.views.common.console import console, drawn_table, fold
from rooflab.views.common.table import UNKNOWN, Table, capacity, rate_text, without
from rooflab.views.machine import tables
from rooflab.views.machine.text_roofline import sketch

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(machine: Machine, file: TextIO | None = None) -> None:
    """Print everything that is known of `machine`."""
    out = console(file)
    for part in pages(machine, out.width, out.encoding.lower().startswith("utf")):
        out.print(part)


def pages(machine: Machine, width: int = 80, unicode: bool = True) -> list[RenderableType]:
    """What `show` prints, in order: who it is, its roofs, tables, failed checks, ridge points last."""
    from rich.text import Text

    parts: list[RenderableType] = [Text(machine.name, style="bold")]
    parts += [Text(line) for line in tables.facts(machine)]
    drawn = sketch(machine, min(width - 2, 76), unicode=unicode)
    if drawn:
        parts += [Text(""), Text(drawn, no_wrap=True)]
    for table in tables.every(machine):
        parts += [Text(""), *drawn_table(table, width)]
    parts += _checks(machine)
    helps = helping.lines(helping.said(machines.advise(machine)))
    if helps:
        parts += [Text(""), Text("What this machine says can be done on it", style="bold"), *map(Text, helps)]
    ridge = tables.ridge_sentence(machine)
    if ridge:
        parts += [Text(""), Text(ridge)]
    return parts


def show_catalogue(machines: Iterable[tuple[str, Machine]], file: TextIO | None = None) -> None:
    """Print one line for each machine: the name to ask for it by, memory, peaks."""
    rows = []
    for name, machine in machines:
        memory = next((level for level in machine.levels if is_main_memory(level)), None)
        rows.append(
            (name, machine.kind, str(machine.year or UNKNOWN), *_memory(memory, machine), *_peaks(machine))
        )
    columns = ("machine", "kind", "year", "memory", "bandwidth", "fp64", "fp32", "16-bit")
    note = (
        "Theoretical, dense, of the fastest unit; 16-bit: bf16, else fp16. "
        "`rooflab machine NAME` shows one with its sources."
    )
    table, out = Table("", columns, tuple(rows), words=2, note=note), console(file)
    if len(fold(table, out.width)) > 1:
        table = without(table, ("kind", "year", "fp32"))
    for part in drawn_table(table, out.width):
        out.print(part)


def _checks(machine: Machine) -> list[RenderableType]:
    from rich.text import Text

    if not machine.checks:
        return []
    failed = [check for check in machine.checks if not check.ok]
    total = len(machine.checks)
    if not failed:
        return [Text(""), Text(f"All {total} self-checks hold.")]
    parts: list[RenderableType] = [
        Text(""),
        Text(f"{len(failed)} of {total} self-checks failed", style="bold red"),
    ]
    return parts + [Text.assemble((f"{check.name}: ", "bold"), check.message) for check in failed]


def _memory(level: Level | None, machine: Machine) -> tuple[str, str]:
    if level is None:
        return UNKNOWN, UNKNOWN
    whole = capacity(whole_capacity_bytes(level, machine))
    return whole, rate_text(level.rate(basis="theoretical") or level.rate())


def _peaks(machine: Machine) -> tuple[str, ...]:
    fp64, fp32, bf16, fp16 = (machine.peak(name, basis="theoretical") for name in ("fp64", "fp32", "bf16", "fp16"))
    return tuple(rate_text(rate) for rate in (fp64, fp32, bf16 or fp16))
