"""How fast several cores are simulated: M accesses/s of MESI and MOESI on two cores, one thread, three levels.

Run: python benchmarks/coherence.py

Records are made while they are simulated, and count in the time; compiling does not. Each stream runs five times;
the best is printed, by cores in turns of 1 and of 64 operations, then with races looked for as well.
"""

from __future__ import annotations

import rooflab
from rooflab import Cache, core_streams
from rooflab.cachesim.coherence.stream import CoreStreams

LEVELS = [Cache(32 * 1024, 8), Cache(512 * 1024, 8), Cache(16 * 1024 * 1024, 16)]
TARGET_PER_S, ROUNDS = 25e6, 5
STREAMS = (
    core_streams.counters(2, 1 << 20, padding_bytes=64),
    core_streams.reduction(2, 1 << 21, padding_bytes=64),
    core_streams.reduction(2, 1 << 22, partial_in_memory=False),
    core_streams.triad(2, 1 << 20),
    core_streams.halo_exchange(2, 1024),
    core_streams.producer_consumer(1 << 18, slots=1 << 12),
    # The worst there is: with turns of 1 every access changes both cores' caches.
    core_streams.counters(2, 1 << 19),
)


def rate(streams: CoreStreams, quantum: int, protocol: str, races: bool) -> float:
    """Accesses per second, the best of a few."""
    found = [
        rooflab.simulate_cores(streams, levels=LEVELS, protocol=protocol, quantum=quantum, races=races)  # type: ignore[arg-type]
        for _ in range(ROUNDS)
    ]
    return max(each.accesses / each.seconds for each in found if each.seconds)


def main() -> None:
    settings = [("mesi", 1, False), ("mesi", 64, False), ("moesi", 64, False), ("mesi", 64, True)]
    names = [f"{protocol}, turns of {q}" + (", races" if races else "") for protocol, q, races in settings]
    print(f"{'M accesses/s':50}" + "".join(f"{name:>26}" for name in names))
    below = 0
    for streams in STREAMS:
        rates = [rate(streams, quantum, protocol, races) for protocol, quantum, races in settings]
        below += rates[0] < TARGET_PER_S
        print(f"{streams.name:50}" + "".join(f"{each / 1e6:26.1f}" for each in rates))
    print(
        f"MESI in turns of 1: {len(STREAMS) - below} of {len(STREAMS)} streams reach {TARGET_PER_S / 1e6:.0f} M/s"
    )


if __name__ == "__main__":
    main()
