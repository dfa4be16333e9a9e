"""Tiling raises arithmetic intensity until arithmetic binds: `python examples/example_tiling.py`.

The product of two 1024 × 1024 fp32 matrices, tile by tile, on a core of 100 GFLOP/s with 20 GB/s of memory and a
cache of 32 KiB, which must hold a tile of each matrix; it computes while it reads.
"""

from rooflab import lab, units

N = 1024
CACHE_BYTES = 32 * units.KIB
SYSTEM = lab.System(
    core=lab.ComputeCore(peak_flop_per_s=100 * units.GIGA),
    memory=lab.Memory(bandwidth_bytes_per_s=20 * units.GIGA, latency_s=100e-9),
    overlap=True,
)


def show(tile: int) -> None:
    kernel = lab.tiled_matmul(N, tile)
    found = lab.run(kernel, SYSTEM)
    fits = "fits" if lab.tiles_bytes(tile) <= CACHE_BYTES else f"needs {units.iec(lab.tiles_bytes(tile))}"
    print(
        f"{tile:5}  {kernel.nbytes / units.MEGA:8.1f} MB  {kernel.ops_per_byte:6.2f} FLOP/byte"
        f"  {found.memory_s * 1e3:7.2f} ms  {found.compute_s * 1e3:6.2f} ms  {found.regime:13}  {fits}"
    )


if __name__ == "__main__":
    print(f" tile       traffic         intensity      memory    compute  regime         {units.iec(CACHE_BYTES)}")
    for power in range(8):
        show(2**power)
