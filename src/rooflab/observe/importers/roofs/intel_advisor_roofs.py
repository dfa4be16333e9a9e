"""Intel Advisor's report of roofs as CSV: a roof a line, in bytes or operations per second."""

from __future__ import annotations

import re
from pathlib import Path

from rooflab.errors import FileError
from rooflab.observe.importers.counters import advisor_roofs
from rooflab.observe.importers.counters.advisor_roofs import Roof
from rooflab.observe.reading.numerals import numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text
from rooflab.types.machine import Machine, Source

SOURCE = "Intel Advisor roofs"

_LINE = re.compile(
    r'"?(?P<name>[^",;\t]*(?:Bandwidth|Peak)[^",;\t]*)"?[,;\t]"?(?P<value>[\d.]+(?:[eE][+-]?\d+)?)"?[,;\t]'
    r'"?(?:memory|compute)"?[,;\t]"?(?P<device>[^",;\t]+)"?',
    re.IGNORECASE,
)
_ENOUGH = 2  # lines that make a report


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, has lines of roofs."""
    lines = plain_text(head).splitlines()[:200]
    return sum(_LINE.match(line.strip()) is not None for line in lines) >= _ENOUGH


def load(path: Path) -> Machine:
    """The machine whose roofs the file at `path` has, those of the CPU.

    Raises:
        FileError: no line of a roof that can be read.
    """
    roofs: list[Roof] = []
    devices: set[str] = set()
    for line in plain_text(content(path)).splitlines():
        match = _LINE.match(line.strip())
        value = numeral(match.group("value")) if match else None
        if match is None or value is None:
            continue
        devices.add(match.group("device").strip())
        if match.group("device").strip().upper() == "CPU":
            roofs.append(Roof(match.group("name").strip(), value))
    source = Source("reported", f"Intel Advisor's own benchmarks, in {path.name}")
    found = advisor_roofs.machine(roofs, f"the machine of {path.name}", source)
    if found is None:
        raise FileError(
            f"{path}: no roof of a CPU in Advisor's report that can be read; it has roofs of "
            f"{', '.join(sorted(devices)) or 'nothing'}"
        )
    return found
