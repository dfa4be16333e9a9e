"""What limits a = b + s·c in NumPy on this machine, and what would help?

Measures the machine, times the two NumPy calls, and puts the result under the roofs by hand:

- as the algorithm counts: 2 FLOP and 24 bytes an element (b and c read once, a written once);
- as NumPy moves it: `multiply` reads c and writes a (16 bytes), `add` reads a and b and writes a (24 bytes).

Run: python examples/what_limits_my_triad.py [MACHINE.toml]      (a saved measurement instead of a new one)
"""

from __future__ import annotations

import sys
import time

import numpy as np

import rooflab
from rooflab.types.machine import Rate
from rooflab.units import si

ELEMENTS = 8_000_000  # three arrays of 64 MB: far beyond the caches of most machines
ROUNDS = 7
FLOP = 2 * ELEMENTS
COMPULSORY_BYTES = 24 * ELEMENTS
NUMPY_BYTES = (16 + 24) * ELEMENTS


def best_time_s() -> float:
    """Seconds of the best of `ROUNDS` runs; the arrays were touched before."""
    b, c, a, s = np.ones(ELEMENTS), np.ones(ELEMENTS), np.zeros(ELEMENTS), 3.0
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        np.multiply(c, s, out=a)
        np.add(a, b, out=a)
        taken.append(time.perf_counter() - start)
    assert a[0] == 4.0
    return min(taken)


def memory_triad(machine: rooflab.Machine) -> Rate:
    """The triad bandwidth of main memory on one core (NumPy's ufuncs use one), with ordinary stores."""
    rates = machine.level("memory").rates
    return next(
        rate
        for rate in rates
        if (rate.what, rate.scope, rate.stores, rate.basis) == ("triad", "core", "ordinary", "attained")
    )


def main(path: str | None) -> None:
    machine = rooflab.machine(path) if path else rooflab.measure(quick=True)
    roof, peak = memory_triad(machine), machine.peak("fp64", scope="core", basis="attained")
    if peak is None:
        sys.exit(f"{machine.name}: no fp64 peak of one core was measured")
    seconds = best_time_s()
    intensity = FLOP / COMPULSORY_BYTES
    limit = min(peak.value, intensity * roof.value)
    print(f"{machine.name}, one core: {si(roof.value, 'B/s')} triad from DRAM, {si(peak.value, 'FLOP/s')} fp64")
    print(f"a triad has {intensity:.3f} FLOP/byte: the roof over it is {si(limit, 'FLOP/s')}, memory-bound")
    print(f"NumPy reaches {si(FLOP / seconds, 'FLOP/s')}, {FLOP / seconds / limit:.0%} of it")
    moved, fused_s = NUMPY_BYTES / COMPULSORY_BYTES, COMPULSORY_BYTES / roof.value
    print(f"its two passes move {moved:.2f} × the bytes, at {si(NUMPY_BYTES / seconds, 'B/s')}")
    print(f"one fused pass would take {fused_s / seconds:.0%} of the time")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
