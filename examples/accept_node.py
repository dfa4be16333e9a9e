"""Is this node as fast as the one that was accepted? Compares two saved measurements, for a cluster's gate.

A level or peak more than `TOLERANCE` below the accepted one fails, unless the runs of either spread further
than that: then it is noise until it is measured again. Exit code 1 where something is slower.

Run: python examples/accept_node.py ACCEPTED.toml CANDIDATE.toml
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import rooflab
from rooflab.types.machine import Rate
from rooflab.units import si

TOLERANCE = 0.08


def attained(machine: rooflab.Machine) -> Iterator[tuple[str, Rate]]:
    """What was measured on all cores, each with a name that two machines share."""
    for level in machine.levels:
        for rate in level.rates:
            if rate.basis == "attained" and rate.scope == "all":
                yield " ".join(filter(None, (level.name, rate.what, rate.stores))), rate
    for rate in machine.peaks:
        if rate.basis == "attained" and rate.scope == "all":
            yield " ".join(filter(None, (rate.dtype, rate.what, rate.engine))), rate


def main(accepted_path: str, candidate_path: str) -> int:
    accepted = dict(attained(rooflab.machine(accepted_path)))
    candidate = dict(attained(rooflab.machine(candidate_path)))
    slower = 0
    for name in sorted(accepted.keys() & candidate.keys()):
        before, now = accepted[name], candidate[name]
        unit = "B/s" if before.per_s == "byte" else f"{before.per_s.upper()}/s"
        change = now.value / before.value - 1
        noise = max(before.spread or 0.0, now.spread or 0.0)
        if change < -max(TOLERANCE, noise):
            slower += 1
            print(f"slower: {name} {si(now.value, unit)}, accepted {si(before.value, unit)} ({change:+.0%})")
    missing = accepted.keys() - candidate.keys()
    if missing:
        print(f"not measured: {', '.join(sorted(missing))}")
    print(f"{len(accepted.keys() & candidate.keys())} rates compared, {slower} slower")
    return 1 if slower or missing else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
