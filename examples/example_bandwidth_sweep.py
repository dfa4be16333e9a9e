"""A kernel turns from memory-bound to compute-bound as bandwidth or intensity grows.

Run `python examples/example_bandwidth_sweep.py`. A core of 10 GFLOP/s reads from a memory with a latency of 50 ns
and computes when all has come (the two times add up).
"""

from rooflab import lab, units

# "10 MB" as readers of this example know it: 10 MiB, 10 × 2^20 bytes.
SIZE_BYTES = 10 * units.MIB
CORE = lab.ComputeCore(peak_flop_per_s=10 * units.GIGA)

CASES = (
    ("Low bandwidth", 1.0, 1.0),
    ("High bandwidth", 100.0, 1.0),
    ("Low arithmetic intensity", 10.0, 0.1),
    ("High arithmetic intensity", 10.0, 100.0),
)


def show(title: str, gbit_per_s: float, ops_per_byte: float) -> None:
    memory = lab.Memory(bandwidth_bytes_per_s=units.parse(f"{gbit_per_s} Gbit/s", "byte/s"), latency_s=50e-9)
    kernel = lab.StreamingKernel(nbytes=SIZE_BYTES, ops_per_byte=ops_per_byte)
    found = lab.run(kernel, lab.System(core=CORE, memory=memory))
    print(f"=== {title} ===")
    print(f"Problem size: {SIZE_BYTES / units.MIB:.0f} MB")
    print(f"Bandwidth: {gbit_per_s:.1f} Gbit/s")
    print(f"Ops per byte: {ops_per_byte:.1f}")
    print(f"Memory time: {found.memory_s:.6e} s")
    print(f"Compute time: {found.compute_s:.6e} s")
    print(f"Total time: {found.total_s:.6e} s")
    print(f"Regime: {found.regime}")


if __name__ == "__main__":
    for number, case in enumerate(CASES):
        if number:
            print()
        show(*case)
