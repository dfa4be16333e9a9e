"""How far away is the data? The memory hierarchy of a machine in time to move 1 GB, as bars.

One character of a bar is a factor of ten over a microsecond, so that registers and the internet fit on one page.

Run: python examples/ladder.py [NAME]
"""

from __future__ import annotations

import math
import sys

import rooflab
from rooflab.machines.ladder import ladder
from rooflab.units import duration

START_S = 1e-6
CELLS_PER_DECADE = 5


def main(name: str) -> None:
    machine = rooflab.machine(name)
    print(f"Moving 1 GB on {machine.name}; each {CELLS_PER_DECADE} cells are a factor of ten")
    for rung in ladder(machine):
        if rung.time_s is None:
            print(f"{rung.name:<42}{'unknown':>9}")
            continue
        cells = max(1, round(CELLS_PER_DECADE * math.log10(rung.time_s / START_S)))
        print(f"{rung.name:<42}{duration(rung.time_s):>9} {'█' * cells}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "h200")
