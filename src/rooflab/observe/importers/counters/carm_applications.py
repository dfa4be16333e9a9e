"""carm-roofline's applications.csv: an application that it counted in each row, as rows of a profile."""

from __future__ import annotations

from pathlib import Path

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import attained
from rooflab.observe.importers.roofs.carm import DTYPES
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text, tables
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Dropped
from rooflab.types.work import Flop, Traffic

SOURCE = "carm-roofline"

_HEADER = ["Date", "Method", "Name", "ISA", "Precision", "Threads", "AI", "Gflops", "Bandwidth", "Time"]
_L1 = "L1"  # bytes are those of every load and store instruction, which is what the first cache serves


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of carm-roofline's applications: its header."""
    return ",".join(_HEADER).encode() in head[:4096]


def load(path: Path) -> Counters:
    """The applications in the file at `path`.

    Raises:
        FileError: no row with a time and a rate.
    """
    rows: list[Counted] = []
    dropped = doubtful = 0
    for table in tables(plain_text(content(path, 2**28)), lambda cells: [one.strip() for one in cells] == _HEADER):
        dropped += table.dropped
        for cells in table.rows:
            row, agrees = _row(dict(zip(_HEADER, cells, strict=True)))
            if row is None:
                dropped += 1
            else:
                rows.append(row)
                doubtful += not agrees
    if not rows:
        raise FileError(
            f"{path}: carm-roofline's table has no application with Time and Bandwidth ({dropped} lines could not "
            "be used); expected numbers above nothing; run the analysis again"
        )
    notes = [
        "bytes are those of every load and store instruction (the cache-aware roofline): they stand at L1, and "
        "what crossed main memory was not counted"
    ]
    if doubtful:
        notes.append(f"of {doubtful} rows AI is not Gflops over Bandwidth: Gflops and Bandwidth were taken")
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        dropped=(Dropped(dropped, "lines that are no application with a time and a rate"),) if dropped else (),
        notes=tuple(notes),
    )


def _row(cells: dict[str, str]) -> tuple[Counted | None, bool]:
    """The application, and whether its intensity is the quotient of its rates."""
    time_s = attained.positive(cells["Time"])
    flop_per_s = attained.positive(cells["Gflops"], 1e9)
    bytes_per_s = attained.positive(cells["Bandwidth"], 1e9)
    none = cells["Gflops"].strip() in ("0", "0.0")
    if time_s is None or (flop_per_s is None and not none) or (bytes_per_s is None and flop_per_s is None):
        return None, True
    dtype = DTYPES.get(cells["Precision"].strip(), "fp64")
    flop = () if none or flop_per_s is None else (Flop("vector", dtype, flop_per_s * time_s),)
    nbytes = None if bytes_per_s is None else bytes_per_s * time_s
    intensity = attained.positive(cells["AI"])
    agrees = True
    if intensity and flop_per_s and bytes_per_s:
        agrees = abs(intensity * bytes_per_s / flop_per_s - 1) <= attained.TOLERANCE
    metrics = {"AI": intensity, "Threads": attained.positive(cells["Threads"])}
    counted = Counted(
        name=cells["Name"].strip()[:200] or "application",
        time_s=time_s,
        flop=flop,
        # The split of reads and writes is not stated: all stand as reads.
        traffic=() if nbytes is None else (Traffic(_L1, nbytes, 0.0, "counted"),),
        metrics={name: value for name, value in metrics.items() if value is not None},
    )
    return counted, agrees
