"""Locality turns a kernel from memory-bound to compute-bound: a fast tier before a slow one, by hit rate.

Run `python -m examples.example_cache_sweep`. A core of 10 GFLOP/s reads 10 MB (10^7 bytes) at one operation a
byte; 100 ns pass before the first byte, and it computes when all has come (the two times add up).
"""

from rooflab import lab, units

CORE = lab.ComputeCore(peak_flop_per_s=10 * units.GIGA)
KERNEL = lab.StreamingKernel(nbytes=10 * units.MEGA, ops_per_byte=1.0)
FAST_GBIT_PER_S, SLOW_GBIT_PER_S = 500.0, 10.0
FAST = lab.Memory(bandwidth_bytes_per_s=units.parse(f"{FAST_GBIT_PER_S} Gbit/s", "byte/s"))
SLOW = lab.Memory(bandwidth_bytes_per_s=units.parse(f"{SLOW_GBIT_PER_S} Gbit/s", "byte/s"), latency_s=100e-9)

CASES = (("Poor locality", 0.10), ("Moderate locality", 0.50), ("Good locality", 0.95))


def show(title: str, hit_rate: float) -> None:
    memory = lab.TwoTierMemory(fast=FAST, slow=SLOW, hit_rate=hit_rate)
    found = lab.run(KERNEL, lab.System(core=CORE, memory=memory))
    print(f"=== {title} ===")
    print(f"Hit rate: {hit_rate:.2f}")
    print(f"Fast BW: {FAST_GBIT_PER_S:.1f} Gbit/s")
    print(f"Slow BW: {SLOW_GBIT_PER_S:.1f} Gbit/s")
    print(f"Memory time: {found.memory_s:.3e} s")
    print(f"Compute time: {found.compute_s:.3e} s")
    print(f"Total time: {found.total_s:.3e} s")
    print(f"Regime: {found.regime}")


if __name__ == "__main__":
    for number, case in enumerate(CASES):
        if number:
            print()
        show(*case)
