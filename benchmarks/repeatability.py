"""How well whole runs of `rooflab measure` agree with each other, or say themselves that they do not.

    python benchmarks/repeatability.py [--runs 5] [--quick]

Each run is a process of its own. Printed per figure: the runs, and (largest − smallest) / largest; the
bound is 3 % for L1, L2 and FMA and 8 % for DRAM. A run whose own "spread" check failed said "noisy".
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

FIGURES = (
    ("L1 read, core", "L1", "read", "core", 0.03),
    ("L1 read, all", "L1", "read", "all", 0.03),
    ("L2 read, core", "L2", "read", "core", 0.03),
    ("L2 read, all", "L2", "read", "all", 0.03),
    ("fp64 FMA, core", None, "fma", "core", 0.03),
    ("fp64 FMA, all", None, "fma", "all", 0.03),
    ("DRAM read, core", "DRAM", "read", "core", 0.08),
    ("DRAM read, all", "DRAM", "read", "all", 0.08),
)


def measured(quick: bool) -> tuple[dict, float]:
    """One run as a dictionary, and its wall time in seconds."""
    command = [sys.executable, "-m", "rooflab", "measure", "--json", *(["--quick"] if quick else [])]
    start = time.perf_counter()
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(text), time.perf_counter() - start


def figure(machine: dict, level: str | None, what: str, scope: str) -> float | None:
    """The attained rate in GB/s or GFLOP/s; None where the run has none."""
    rates = machine["peaks"] if level is None else []
    for one in machine["levels"]:
        if one["name"] == level:
            rates = one["rates"]
    for rate in rates:
        fits = (rate["what"], rate["scope"], rate["basis"]) == (what, scope, "attained")
        if fits and rate["dtype"] in (None, "fp64") and rate["engine"] in (None, "vector"):
            return rate["value"] / 1e9
    return None


def main() -> None:
    """Run, then compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    machines = []
    for _ in range(given.runs):
        machine, seconds = measured(given.quick)
        failed = [check["name"] for check in machine["checks"] if not check["ok"]]
        environment = machine["environment"]
        print(
            f"{seconds:5.1f} s  others {environment.get('others_share', 0):.1%}  stolen "
            f"{environment.get('stolen_share', 0):.1%}  failed checks: {', '.join(failed) or 'none'}",
            flush=True,
        )
        machines.append(machine)
    noisy = sum(
        not check["ok"] for machine in machines for check in machine["checks"] if check["name"] == "spread"
    )
    for name, level, what, scope, bound in FIGURES:
        values = [value for machine in machines if (value := figure(machine, level, what, scope)) is not None]
        if not values:
            print(f"{name:16s} not measured")
            continue
        spread = (max(values) - min(values)) / max(values)
        listed = " ".join(f"{value:.1f}" for value in values)
        print(f"{name:16s} {listed}  spread {spread:.1%}  bound {bound:.0%}: {'yes' if spread <= bound else 'NO'}")
    print(f"{noisy} of {len(machines)} runs said themselves that they were noisy")


if __name__ == "__main__":
    main()
