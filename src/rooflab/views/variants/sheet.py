"""What is shown of one program on several machines or under several what-ifs: a line for each."""

from __future__ import annotations

from rooflab.types.variants import Variants
from rooflab.units import duration, percent, si
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table
from rooflab.views.report import tables

_SAME = 1.05  # FLOP of the same work differ by no more


def sheet_of(variants: Variants) -> Sheet:
    """What is shown of `variants`, the first being what the others are held against."""
    first, named = variants.reports[0], tuple(zip(variants.names, variants.reports, strict=True))
    coverage = tuple(tables.coverage(first))
    whole = first.coverage.complete
    return Sheet(
        variants.name,
        "predictions side by side",
        warnings=(
            *(() if whole else coverage),
            *(f"{name}: {warning}" for name, report in named for warning in report.warnings),
        ),
        sentences=coverage if whole else (),
        tables=(table(variants),),
    )


def table(variants: Variants) -> Table:
    """A line for each variant: time, error bar, speed against the first, what binds, how far from the floor."""
    base = variants.reports[0].prediction
    each = samples(variants)
    rows = []
    for number, (name, report) in enumerate(zip(variants.names, variants.reports, strict=True)):
        prediction = report.prediction
        if prediction is None:
            # A time without some of its operations is a lower bound, and its speed no speed-up.
            least, part = UNKNOWN, report.predicted_part
            if part is not None:
                least = f"> {duration(part.time_s)}"
            rows.append((name, least, *[UNKNOWN] * 4, si(report.peak_memory_bytes, "B")))
            continue
        rows.append(
            (
                name,
                duration(prediction.time_s),
                f"{duration(prediction.low_s)} to {duration(prediction.high_s)}",
                UNKNOWN if base is None else _speed(base.time_s, prediction.time_s, each, number),
                tables.words(prediction.bound, prediction.binds),
                percent(prediction.floor_s / prediction.time_s),
                si(report.peak_memory_bytes, "B"),
            )
        )
    columns = ("on", "time", "error bar", "speed", "bound", "floor", "memory")
    whose = "against the first line"
    if each is not None and len(set(each)) > 1:
        whose = f"{whose}, for each sample ({', '.join(f'{one:g}' for one in each)} of them a run)"
    elif each is None:
        whose = f"{whose}, where the work is the same"
    note = f"Speed: {whose}. Floor: the theoretical minimum, as a share of the time."
    return Table("Predicted", columns, tuple(rows), note=note)


def samples(variants: Variants) -> tuple[float, ...] | None:
    """How much one run of each variant does, by the leading size of its inputs; None where work differs otherwise.

    Variants that ask for the same FLOP do the same; with other batches FLOP differ, and so do inputs' first sizes.
    """
    reports = variants.reports
    sizes = [report.graph.leading_size for report in reports]
    known = [size for size in sizes if size]
    if len(known) == len(sizes):
        return tuple(known) if len(set(known)) > 1 else (1.0,) * len(reports)
    most, least = (pick(report.flop for report in reports) for pick in (max, min))
    # Padding and fusion move the FLOP of the same work by a little.
    return (1.0,) * len(reports) if most <= _SAME * least else None


def _speed(base_s: float, time_s: float, each: tuple[float, ...] | None, number: int) -> str:
    if each is None:
        return UNKNOWN if number else "1 ×"
    return f"{base_s / each[0] / (time_s / each[number]):.3g} ×"


def lines(variants: Variants) -> Lines:
    """A line for each variant, in base units; unknown is empty."""
    held = variants.to_dict()["variants"]
    return Lines(tuple(held[0]), [tuple(line.values()) for line in held])
