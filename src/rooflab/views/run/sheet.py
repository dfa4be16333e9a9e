"""What is shown of a run: the time and the verdict first, then what the system and the counters say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflab import units
from rooflab.types.run import Run
from rooflab.types.usage import Usage
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, quantity, without_empty

if TYPE_CHECKING:
    from rooflab.types.profile import Profile

_LONGEST = 70  # letters of a command in a heading


def sheet_of(run: Run) -> Sheet:
    """What is shown of `run`: what a framework's profiler says of it comes first."""
    inner = recorded(run)
    counted = () if run.profile is None or inner is not None else _counted(run.profile)
    profile_notes = () if run.profile is None or inner is not None else run.profile.notes
    return Sheet(
        _headline(run),
        "a run",
        sentences=(*(inner.sentences if inner else ()), *run.verdict, *_placed(run)),
        tables=(*(inner.tables if inner else ()), _usage(run), *counted, _counts(run)),
        warnings=tuple(_warnings(run, inner)),
        notes=(
            *run.lacks,
            *run.notes,
            *profile_notes,
            *(inner.notes if inner else ()),
            *_conventions(run),
        ),
        advice=None if inner is None else inner.advice,
    )


def recorded(run: Run) -> Sheet | None:
    """What is shown of the profile that a framework's profiler recorded; None without."""
    if run.profiles is not None:
        from rooflab.views.profiles.sheet import sheet_of as several

        return several(run.profiles)
    if run.profile is None or run.counts:
        return None
    from rooflab.views.profile.sheet import sheet_of as one

    return one(run.profile)


def _counted(profile: Profile) -> tuple[Table, ...]:
    from rooflab.views.profile import kernels

    return kernels.tables_of(profile)


def _headline(run: Run) -> str:
    name = run.name if len(run.name) <= _LONGEST else f"{run.name[: _LONGEST - 1]}…"
    several = f", the median of {len(run.usage)} runs" if len(run.usage) > 1 else ""
    return f"{name}: {units.duration(run.time_s)}{several}, {run.cores:.2f} cores busy"


def _warnings(run: Run, inner: Sheet | None) -> list[str]:
    lines = []
    if run.signal is not None:
        lines.append(f"Killed by {run.signal}: the numbers are those until then (exit code {run.exit_code}).")
    elif run.exit_code:
        lines.append(f"It failed with exit code {run.exit_code}: the numbers are those until then.")
    if inner is not None:
        lines += inner.warnings
    elif run.profile is not None:
        lines += run.profile.warnings
    return lines


def _placed(run: Run) -> list[str]:
    """What the counters say in a sentence."""
    if run.profile is None or not run.profile.rows or run.profile.rows[0].counted is None:
        return []
    row = run.profile.rows[0]
    parts = [
        text
        for text in (
            None if row.flop is None else f"{units.si(row.flop, 'FLOP')} ({quantity(row.flop_per_s, 'FLOP/s')})",
            None
            if row.nbytes is None
            else f"{units.si(row.nbytes, 'B')} of DRAM ({quantity(row.bytes_per_s, 'B/s')})",
            None if row.intensity is None else f"{row.intensity:.3g} FLOP/B",
        )
        if text
    ]
    if not parts:
        return []
    by = f" Bound by {row.binds} on {run.profile.machine.name}." if row.binds and run.profile.machine else ""
    return [f"Counted: {', '.join(parts)}.{by}"]


def _usage(run: Run) -> Table:
    """A line for each figure, a column for each execution."""
    several = len(run.usage) > 1
    columns = ("figure", *(f"run {n + 1}" if several else "value" for n in range(len(run.usage))))
    lines = [(label, *(write(one) for one in run.usage)) for label, write in _FIGURES]
    kept = tuple(line for line in lines if any(cell != UNKNOWN for cell in line[1:]))
    return Table("What the system says", columns, kept)


def _memory(one: Usage) -> str:
    if one.peak_memory_bytes is None:
        return f"under {units.si(one.least_memory_bytes, 'B')}"
    return units.si(one.peak_memory_bytes, "B")


_FIGURES = (
    ("time", lambda one: units.duration(one.wall_s)),
    ("CPU time in the program", lambda one: units.duration(one.user_s)),
    ("CPU time in the kernel", lambda one: units.duration(one.system_s)),
    ("cores busy", lambda one: f"{one.cores:.2f}"),
    ("memory of the largest process", _memory),
    ("page faults", lambda one: f"{one.minor_faults:,}"),
    ("page faults that read a disk", lambda one: f"{one.major_faults:,}"),
    ("times it waited", lambda one: f"{one.voluntary_switches:,}"),
    ("times it was made to wait", lambda one: f"{one.involuntary_switches:,}"),
    ("read from storage", lambda one: quantity(one.storage_read_bytes, "B")),
    ("written to storage", lambda one: quantity(one.storage_written_bytes, "B")),
    ("read, caches and pipes too", lambda one: quantity(one.read_bytes, "B")),
    ("written, caches and pipes too", lambda one: quantity(one.written_bytes, "B")),
)


def _counts(run: Run) -> Table:
    rows = [
        (
            one.event,
            UNKNOWN if one.value is None else f"{one.value:,.4g} {one.unit}".rstrip(),
            units.percent(one.running) if one.value is not None else UNKNOWN,
            str(one.run) if len(run.usage) > 1 else UNKNOWN,
        )
        for one in run.counts
    ]
    note = "counted: share of the time; below 100 % the value is extrapolated, as events took turns."
    return without_empty("Events", ("event", "count", "counted", "in run"), rows, note=note)


def _conventions(run: Run) -> list[str]:
    lines = [
        "CPU time, faults and waits are those of the command and of the children that it waited for, as the "
        "kernel reports them (getrusage); cores busy is CPU time over time"
    ]
    if any(one.storage_read_bytes is not None for one in run.usage):
        lines.append("bytes are those of /proc/PID/io; memory is resident, other processes' not added")
    return lines


def lines(run: Run) -> Lines:
    """A line for each execution, in base units; unknown is empty."""
    columns = tuple(name for name in Usage.__struct_fields__)
    rows = [
        (n + 1, *(getattr(one, name) for name in columns), one.cpu_s, one.cores) for n, one in enumerate(run.usage)
    ]
    return Lines(("run", *columns, "cpu_s", "cores"), rows)
