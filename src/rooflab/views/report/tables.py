"""What the terminal and the page say of a report, as plain rows of text: one definition for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rooflab.errors import UnknownNameError
from rooflab.model.energy import least_flop_per_joule, most_joules, power_limit_w
from rooflab.types.groups import ITSELF, Group, GroupBy, grouped, names_of
from rooflab.types.report import Report, Row
from rooflab.units import duration, percent, si
from rooflab.views.common.table import UNKNOWN, Table
from rooflab.views.report import own_times
from rooflab.views.report.alike import Line, lines_of, merge_alike
from rooflab.views.report.nearest import nearest
from rooflab.work.peak_memory import fits_sentence

SORTS = ("order", "time", "flop", "bytes", "intensity")
# What the field would call memory-bound by its intensity, and is not.
_INSTRUCTIONS = (
    "Instructions: issuing them (addresses, conversions, exponentials beside the FLOP) takes longer than moving "
    "the bytes"
)
TOP = 12  # lines of the table of operations where none are asked for


def coverage(report: Report) -> tuple[str, ...]:
    """How much was counted; then what was not, by name, and what could not be followed."""
    counted = report.coverage
    share = counted.bytes_share
    moved = "" if share in (None, 1.0) else f", which touch {_share(share)} of tensor bytes"
    lines = [
        f"Coverage {_share(counted.share)}: {counted.counted:,} of {_count(counted.ops, 'operation')} "
        f"counted{moved}."
    ]
    if counted.uncounted:
        names = "; ".join(
            (name if times == 1 else f"{name} × {times}")
            + (f" ({counted.reasons[name]})" if name in counted.reasons else "")
            for name, times in counted.uncounted.items()
        )
        lines.append(f"Not counted, so missing from every total: {names}.")
    lines += [f"Not followed: {reason}." for reason in counted.unknown]
    return tuple(lines)


def facts(report: Report, *, suspects: bool = False) -> tuple[tuple[str, str], ...]:
    """The totals: (name, value) pairs in reading order; an empty name goes on with the one before.

    Args:
        suspects: also what would explain a measured time, where no table of its own says so.
    """
    held = [("peak memory", memory(report))]
    if report.machine is not None:
        held.append(("", f"{fits_sentence(report.memory, report.machine)}."))
    if report.rows and not report.coverage.counted:
        return (("FLOP, bytes", "unknown: no operation was counted"), *held)
    parts = [f"{one.dtype} {one.engine} {si(one.count, 'FLOP')}" for one in report.flop_by]
    # A sum without what is not counted is no sum.
    whole = report.coverage.complete
    least = "" if whole else "> "
    rows = [
        *times(report),
        *own_times.facts(report, suspects),
        ("FLOP", _with_parts(f"{least}{si(report.flop, 'FLOP')} ({report.flop:,.0f})", parts)),
    ]
    if report.macs:
        rows.append(("MAC", f"{least}{si(report.macs, 'MAC')} ({report.macs:,.0f})"))
    both = (f"{si(report.read_bytes, 'B')} read", f"{si(report.write_bytes, 'B')} written")
    rows.append(("bytes", _with_parts(least + si(report.nbytes, "B"), both)))
    rows.append(("accessed", UNKNOWN if report.accessed_bytes is None else least + si(report.accessed_bytes, "B")))
    if report.wire_bytes:
        rows.append(("on the wire", f"{least}{si(report.wire_bytes, 'B')} a rank"))
    known = report.intensity if whole else None
    rows.append(("intensity", UNKNOWN if known is None else f"{known:.4g} FLOP/byte"))
    if report.parameters:
        rows.append(("parameters", f"{report.parameters:,} ({si(report.parameter_bytes, 'B')})"))
    return (*rows, *held)


def times(report: Report) -> tuple[tuple[str, str], ...]:
    """Predicted time with its error bar, what binds, the floor and how it was taken to run; none without one."""
    prediction, setting = report.prediction or report.predicted_part, report.setting
    if prediction is None or setting is None or report.machine is None:
        return ()
    bar = f"{duration(prediction.low_s)} to {duration(prediction.high_s)}"
    how = f"{setting.mode} mode, {setting.cache} caches, {setting.power} clocks"
    changed = "".join(f", {name} × {factor:.4g}" for name, factor in setting.what_if.items())
    on = f"predicted on {report.machine.name}: {how}{changed}"
    if report.prediction is None:
        rows = [("time", f"> {duration(prediction.time_s)}: {report.missing}; the rest {on}")]
        rows.append(("bound", f"{UNKNOWN} ({report.missing})"))
        rows.append(("floor", f"> {duration(prediction.floor_s)}"))
        return tuple(rows)
    rows = [("time", f"{duration(prediction.time_s)} ({bar}), {on}")]
    parts = [f"arithmetic {duration(prediction.compute_s)}"] if prediction.compute_s else []
    parts += [f"{name} {duration(seconds)}" for name, seconds in prediction.memory_s.items() if seconds]
    parts.append(f"overhead {duration(prediction.overhead_s)}")
    rows.append(("bound", f"{words(prediction.bound, prediction.binds)}; {', '.join(parts)}"))
    if prediction.binds == "instructions":
        rows.append(("", f"{_INSTRUCTIONS}."))
    share = UNKNOWN if not prediction.time_s else _share(prediction.floor_s / prediction.time_s)
    rows.append(("floor", f"{duration(prediction.floor_s)}, {share} of the time"))
    roof = nearest(report)
    if roof is not None:
        cached = "; a cache serves it" if roof[1] > 1 else ""
        rows.append(("roof", f"{_share(roof[1])} of {roof[0]}, the nearest{cached}"))
    joules, limit_w = most_joules(report), power_limit_w(report.machine)
    if joules is not None and limit_w is not None:
        each = least_flop_per_joule(report)
        work = "" if each is None else f", {si(each, 'FLOP')} or more a joule"
        bound = f"a bound, at the device's limit of {limit_w:,.0f} W"
        rows.append(("energy", f"{joules:.3g} J or less{work}: {bound}"))
    return tuple(rows)


def memory(report: Report) -> str:
    """The most held at one moment, with each kind at its own most."""
    held = report.memory
    kinds = (
        ("parameters", held.parameters_bytes),
        ("buffers", held.buffers_bytes),
        ("gradients", held.gradients_bytes),
        ("optimizer state", held.optimizer_state_bytes),
        ("activations", held.activations_bytes),
        ("KV cache", held.kv_cache_bytes),
        ("inputs", held.inputs_bytes),
    )
    return _with_parts(si(held.most_bytes, "B"), [f"{name} {si(nbytes, 'B')}" for name, nbytes in kinds if nbytes])


def groups(report: Report, key: GroupBy, sort: str = "flop", top: int | None = None) -> Table:
    """Subtotals by module (a tree, alike neighbours on one line), kind or operation; all without `top`."""
    if key == "module":
        # A tree keeps its order: its subtotals add up line by line.
        subtotals = list(grouped(merge_alike(report.rows), "module"))
        names = [_branch(group, report.name) for group in subtotals]
    else:
        subtotals = _sorted(
            report.by(key), sort, lambda group: (group.time_s, group.flop, group.nbytes, group.intensity)
        )
        if sort == "order":
            first = {name: number for number, name in enumerate(dict.fromkeys(names_of(report.rows, key)))}
            subtotals.sort(key=lambda group: first[group.name])
        names = [group.name for group in subtotals]
    whole = (report.flop, report.nbytes) if report.coverage.complete else None
    time_s = report.time_s or 0.0
    rows = [_group_row(name, group, whole, time_s) for name, group in zip(names[:top], subtotals, strict=False)]
    columns = (key, "ops", "FLOP", "MAC", "bytes", "FLOP/byte", "of FLOP", "of bytes", "time", "of time")
    if report.time_at_least_s is None:
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    return Table(f"By {_KEY_WORDS[key]}", columns, tuple(rows), note=_left_out(len(subtotals), top))


def operations(report: Report, sort: str = "bytes", top: int | None = TOP) -> Table:
    """The operations with the most bytes (or as `sort` says), equal ones on one line."""
    lines = _sorted(lines_of(report), sort, lambda line: (_time(line), line.flop, line.nbytes, line.row.intensity))
    rows = [
        (
            line.name,
            line.module or UNKNOWN,
            f"{line.times:,}",
            _amount(line.flop, "FLOP"),
            _amount(line.nbytes, "B"),
            intensity(line.row.intensity),
            intensity(line.row.ridge),
            duration(line.time_s) if line.time_s is not None else UNKNOWN,
            # Of a time that leaves something out nothing is a known part.
            UNKNOWN if line.time_s is None else _part(line.time_s, report.time_s or 0.0),
            bound(line.row),
            UNKNOWN if line.measured_s is None else duration(line.measured_s),
        )
        for line in lines[:top]
    ]
    columns = ("operation", "module", "times", "FLOP", "bytes", "FLOP/byte", "ridge", "time", "of time", "bound")
    columns = (*columns, "measured")
    inside = any(line.module for line in lines)
    timed = [10] if any(line.measured_s is not None for line in lines) else []
    with_machine = [6, *([7, *timed, 8] if report.time_at_least_s is not None else timed), 9]
    kept = [0, *([1] if inside else []), 2, 3, 4, 5, *(with_machine if report.machine is not None else [])]
    note = f"{views_note(report)} {_left_out(len(lines), top)}".strip()
    if report.machine is not None:
        note = f"{ridge_note(report)} {note}"
    if any(line.row.binds == "instructions" for line in lines[:top]):
        note = f"{note.strip()} {_INSTRUCTIONS}."
    cells = tuple(tuple(row[i] for i in kept) for row in rows)
    return Table(_BY_SORT[sort], tuple(columns[i] for i in kept), cells, 2 if inside else 1, note.strip())


def _time(line: Line) -> float | None:
    """Seconds of `line`; of what takes none that is known."""
    return line.time_s if line.time_s is not None or line.row.takes_time else 0.0


def views_note(report: Report) -> str:
    """Which operations are counted and not listed; empty for none."""
    views = sum(1 for row in report.rows if row.op.kind == "view")
    if not views:
        return ""
    return f"{views:,} view{'' if views == 1 else 's'}, which move{'s' if views == 1 else ''} nothing, not listed."


def ridge_note(report: Report) -> str:
    """What the column called ridge says of a report with a machine."""
    rates = ", at the rates predicted" if report.time_at_least_s is not None else ""
    name = "the machine" if report.machine is None else report.machine.name
    return f"Ridge: the FLOP/byte at which {name} computes as long as it moves bytes{rates}."


def reasons(report: Report) -> tuple[str, ...]:
    """Why rows have no bound although a machine is given, each reason once."""
    times: dict[str, int] = {}
    for row in report.rows:
        if row.unbound is not None and (row.cost is None or row.nbytes):
            times[row.unbound] = times.get(row.unbound, 0) + 1
    total = _count(len(report.rows), "operation")
    return tuple(f"No bound for {count:,} of {total}: {reason}." for reason, count in times.items())


def bound(row: Row) -> str:
    """What binds `row`: "memory: HBM", "compute: bf16 matrix", "balanced: HBM"; a dash where unknown."""
    return UNKNOWN if row.bound is None else words(row.bound, row.binds)


def words(bound: str, binds: str | None) -> str:
    """What binds, as "memory: HBM" for "memory-bound" by HBM."""
    return f"{bound.removesuffix('-bound')}: {binds}"


def _branch(group: Group, whole: str) -> str:
    last = ITSELF if group.name.endswith(ITSELF) else group.name.rpartition(".")[2]
    return "  " * group.depth + (last if group.depth else whole)


def _group_row(name: str, group: Group, whole: tuple[float, float] | None, time_s: float) -> tuple[str, ...]:
    """A line of the groups; `whole` has the program's FLOP and bytes, where every operation was counted."""
    if group.ops and not group.counted:
        return (name, f"{group.ops:,}", *[UNKNOWN] * 8)
    # A sum without its uncounted rows is no sum.
    least = "" if group.counted == group.ops else "> "
    return (
        name,
        f"{group.ops:,}",
        least + _amount(group.flop, "FLOP"),
        least + _amount(group.macs, ""),
        least + _amount(group.nbytes, "B"),
        intensity(group.intensity),
        UNKNOWN if whole is None else _part(group.flop, whole[0]),
        UNKNOWN if whole is None else _part(group.nbytes, whole[1]),
        UNKNOWN if group.time_s is None else ("" if group.timed else "> ") + duration(group.time_s),
        UNKNOWN if group.time_s is None else _part(group.time_s, time_s),
    )


def _sorted(items: Sequence, sort: str, keys: Callable[..., tuple[float | None, ...]]) -> list:
    """`items` most first by that key, unknown ones in front: they may be the largest."""
    if sort not in SORTS:
        raise UnknownNameError("order", sort, SORTS)
    if sort == "order":
        return list(items)
    at = SORTS.index(sort) - 1

    def rank(item: object) -> tuple[bool, float]:
        value = keys(item)[at]
        # What moves no byte has no intensity: that is known, and last.
        return value is not None or sort == "intensity", -(value or 0.0)

    return sorted(items, key=rank)


_KEY_WORDS = {"module": "module", "kind": "kind of operation", "op": "operation"}
_BY_SORT = {
    "order": "Operations in order",
    "time": "Operations by predicted time",
    "flop": "Operations by FLOP",
    "bytes": "Operations by bytes",
    "intensity": "Operations by intensity",
}


def intensity(value: float | None) -> str:
    """FLOP/byte with three digits; a dash where unknown or where no byte is moved."""
    return UNKNOWN if value is None else f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _left_out(total: int, top: int | None) -> str:
    left = 0 if top is None else total - top
    return f"{_count(left, 'further line')} not shown (--top N shows more)." if left > 0 else ""


def _with_parts(total: str, parts: Sequence[str]) -> str:
    return f"{total}: {', '.join(parts)}" if parts else total


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    return "0" if value == 0 else si(value, unit).rstrip()


def _part(value: float, total: float) -> str:
    if not total:
        return UNKNOWN
    return "< 0.1 %" if 0 < value / total < 0.0005 else percent(value / total, 1)


def _share(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    if share in (0, 1):
        return percent(share)
    return percent(share, 1) if 0.0005 <= share < 0.9995 else f"{share * 100:.3g} %"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
