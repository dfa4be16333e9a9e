"""Which of these accelerators needs the highest arithmetic intensity to be busy?

The ridge point is peak / bandwidth: a kernel with fewer FLOP per byte waits for memory. Datasheet figures on
both sides (`basis="theoretical"`), dense, so that measured and printed numbers never meet in one division.

Run: python examples/compare_machines.py [NAME ...]
"""

from __future__ import annotations

import sys

import rooflab
from rooflab.model.roofline.roofline import ridge
from rooflab.units import si

NAMES = ("a100-sxm-80gb", "h100-sxm", "h200", "mi300x")


def main(names: tuple[str, ...]) -> None:
    print(f"{'machine':<24}{'memory':>12}{'bf16, dense':>16}{'ridge':>16}")
    for name in names:
        machine = rooflab.machine(name)
        memory = machine.level("memory").rate(basis="theoretical")
        peak = machine.peak("bf16", basis="theoretical")
        if memory is None or peak is None:
            print(f"{machine.name:<24}  its file states no bf16 peak or no memory bandwidth")
            continue
        meet = ridge(peak.value, memory.value)
        print(
            f"{machine.name:<24}{si(memory.value, 'B/s'):>12}{si(peak.value, 'FLOP/s'):>16}{meet:>6.0f} FLOP/byte"
        )


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or NAMES)
