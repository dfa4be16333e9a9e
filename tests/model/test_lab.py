"""The teaching model: every number by hand."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.model import lab
from rooflab.model.lab import ComputeCore, Memory, StreamingKernel, System, TwoTierMemory

CORE = ComputeCore(peak_flop_per_s=10e9)
MIB10 = StreamingKernel(nbytes=10 * 2**20)
MB10 = StreamingKernel(nbytes=10e6)


def one_tier(gbit_per_s):
    return Memory(bandwidth_bytes_per_s=gbit_per_s * 1e9 / 8, latency_s=50e-9)


def two_tiers(hit_rate):
    return TwoTierMemory(
        fast=Memory(bandwidth_bytes_per_s=62.5e9),
        slow=Memory(bandwidth_bytes_per_s=1.25e9, latency_s=100e-9),
        hit_rate=hit_rate,
    )


# 10 MiB = 83,886,080 bit; + 50 ns. Arithmetic: 10,485,760 operations at 10 GFLOP/s.
BANDWIDTH = (
    (1.0, ("8.388613e-02", "1.048576e-03", "8.493471e-02"), "memory-bound"),
    (100.0, ("8.389108e-04", "1.048576e-03", "1.887487e-03"), "compute-bound"),
)


@pytest.mark.parametrize(("gbit_per_s", "seconds", "regime"), BANDWIDTH)
def test_more_bandwidth_turns_a_memory_bound_kernel_compute_bound(gbit_per_s, seconds, regime):
    found = lab.run(MIB10, System(core=CORE, memory=one_tier(gbit_per_s)))
    assert tuple(f"{each:.6e}" for each in (found.memory_s, found.compute_s, found.total_s)) == seconds
    assert found.regime == regime


# hit × 10 MB / 62.5 GB/s + (1 − hit) × 10 MB / 1.25 GB/s + 100 ns; arithmetic 1 ms.
CACHE = (
    (0.10, ("7.216e-03", "1.000e-03", "8.216e-03"), "memory-bound"),
    (0.50, ("4.080e-03", "1.000e-03", "5.080e-03"), "memory-bound"),
    (0.95, ("5.521e-04", "1.000e-03", "1.552e-03"), "compute-bound"),
)


@pytest.mark.parametrize(("hit_rate", "seconds", "regime"), CACHE)
def test_a_higher_hit_rate_turns_a_memory_bound_kernel_compute_bound(hit_rate, seconds, regime):
    found = lab.run(MB10, System(core=CORE, memory=two_tiers(hit_rate)))
    assert tuple(f"{each:.3e}" for each in (found.memory_s, found.compute_s, found.total_s)) == seconds
    assert found.regime == regime


def test_a_first_byte_comes_from_the_furthest_tier_in_use():
    assert lab.memory_time_s(MB10, two_tiers(1.0)) == pytest.approx(10e6 / 62.5e9)  # the fast one has no latency
    assert lab.memory_time_s(MB10, two_tiers(0.0)) == pytest.approx(10e6 / 1.25e9 + 100e-9)


def test_overlapped_takes_as_long_as_the_longer_of_the_two():
    found = lab.run(MIB10, System(core=CORE, memory=one_tier(100.0), overlap=True))
    assert f"{found.total_s:.6e}" == "1.048576e-03"
    assert found.regime == "compute-bound"


# The shorter at least 0.9 of the longer.
REGIMES = (
    (1.0, 0.9, "balanced"),
    (0.9, 1.0, "balanced"),
    (1.0, 0.89, "memory-bound"),
    (0.89, 1.0, "compute-bound"),
)


@pytest.mark.parametrize(("memory_s", "compute_s", "regime"), REGIMES)
def test_the_ten_percent_rule(memory_s, compute_s, regime):
    assert lab.regime(memory_s, compute_s) == regime


# 1 MB in accesses of 8 bytes: 125,000 lines of 64 bytes.
RANDOM = (
    # latency hidden: 8 MB of lines at 8 GB/s
    (Memory(bandwidth_bytes_per_s=8e9, latency_s=0.0), 1e-3),
    # 125,000 × 100 ns / 10 at once + the first 100 ns
    (Memory(bandwidth_bytes_per_s=8e9, latency_s=100e-9, in_flight=10), 1.25e-3 + 100e-9),
    # one at a time: a chase of pointers
    (Memory(bandwidth_bytes_per_s=8e9, latency_s=100e-9, in_flight=1), 12.5e-3 + 100e-9),
)


@pytest.mark.parametrize(("memory", "seconds"), RANDOM)
def test_random_access_wastes_lines_and_waits(memory, seconds):
    kernel = StreamingKernel(nbytes=1e6, access_pattern="random")
    assert lab.memory_time_s(kernel, memory) == pytest.approx(seconds)


def test_random_accesses_of_whole_lines_waste_nothing():
    memory = Memory(bandwidth_bytes_per_s=8e9, in_flight=10)
    kernel = StreamingKernel(nbytes=1e6, access_pattern="random", access_bytes=128)
    assert lab.effective_bytes_per_s(kernel, memory) == pytest.approx(8e9)


def test_larger_tiles_of_a_product_move_fewer_bytes():
    # n³ multiply-adds; each element of A and B is read n / tile times, C written once.
    kernel = lab.tiled_matmul(1024, 32)
    assert kernel.nbytes == (2 * 1024**2 * (1024 / 32) + 1024**2) * 4
    assert kernel.nbytes * kernel.ops_per_byte == pytest.approx(2 * 1024**3)
    assert lab.tiles_bytes(32) == 12_288
    # One tile of everything: the compulsory traffic of 3 n² elements.
    assert lab.tiled_matmul(64, 64).nbytes == 3 * 64 * 64 * 4


def test_a_sweep_turns_where_both_times_are_equal():
    system = System(core=CORE, memory=Memory(bandwidth_bytes_per_s=1e9))
    found = lab.sweep(MB10, system, "bandwidth", (20e9, 5e9, 10e9))
    assert found.values == (5e9, 10e9, 20e9)
    assert [each.regime for each in found.results] == ["memory-bound", "balanced", "compute-bound"]
    # 10 GFLOP/s / 1 operation per byte
    assert found.turns_at == pytest.approx(10e9)
    assert lab.turning_point(MB10, system, "bandwidth", 1e9, 100e9) == pytest.approx(10e9)
    # ridge: 10 GFLOP/s / 1 GB/s
    assert lab.turning_point(MB10, system, "intensity", 0.1, 100) == pytest.approx(10)
    assert lab.turning_point(MB10, system, "intensity", 0.1, 1) is None
    assert lab.turning_point(MB10, system, "intensity", 10, 20) == 10  # at an end of the interval


def test_a_sweep_of_the_hit_rate():
    system = System(core=CORE, memory=two_tiers(0.5))
    found = lab.sweep(MB10, system, "hit-rate", (0.1, 0.95))
    assert [f"{each.memory_s:.3e}" for each in found.results] == ["7.216e-03", "5.521e-04"]
    # 1 ms = h × 0.16 ms + (1 − h) × 8 ms + 100 ns: h = 7.0001 / 7.84
    assert lab.turning_point(MB10, system, "hit-rate", 0, 1) == pytest.approx(7.0001 / 7.84)


def test_a_real_machine_as_a_lab_system():
    machine = rooflab.machine("h200-sxm")
    system = lab.of_machine(machine, "bf16")
    assert isinstance(system.memory, Memory)
    assert system.memory.bandwidth_bytes_per_s == machine.level("memory").rate(basis="theoretical").value
    assert system.core.peak_flop_per_s == machine.peak("bf16").value
    assert system.overlap


BAD = (
    (lambda: Memory(bandwidth_bytes_per_s=0), "lab: bandwidth_bytes_per_s is 0, expected a number above zero"),
    (lambda: Memory(bandwidth_bytes_per_s=1, latency_s=-1), "lab: latency_s is -1, expected zero or more"),
    (lambda: two_tiers(1.5), "lab: hit_rate is 1.5, expected a share from 0 to 1, such as 0.95"),
    (
        lambda: ComputeCore(peak_flop_per_s=float("nan")),
        "lab: peak_flop_per_s is nan, expected a number above zero",
    ),
    (
        lambda: StreamingKernel(nbytes=1, access_pattern="rand"),
        "unknown access pattern 'rand'; did you mean random?",
    ),
    (
        lambda: lab.tiled_matmul(100, 32),
        "lab: tile 32 does not divide n 100, expected such as n = 1024, tile = 32",
    ),
    (
        lambda: lab.sweep(MB10, System(core=CORE, memory=one_tier(1)), "hit-rate", (0.5,)),
        "lab: a sweep of the hit rate needs two tiers of memory: give the fast one's bandwidth",
    ),
    (
        lambda: lab.sweep(MB10, System(core=CORE, memory=one_tier(1)), "intensity", ()),
        "lab: a sweep of the intensity needs at least one value",
    ),
    (
        lambda: lab.sweep(MB10, System(core=CORE, memory=one_tier(1)), "bandwith", (1,)),
        "unknown lab parameter 'bandwith'; did you mean bandwidth?",
    ),
)


@pytest.mark.parametrize(("made", "said"), BAD)
def test_nonsense_is_refused_in_one_line(made, said):
    with pytest.raises(RooflabError) as error:
        made()
    assert str(error.value) == said


def test_a_peak_that_a_machine_does_not_state():
    with pytest.raises(RooflabError, match=r"^NVIDIA H200 SXM 141GB states no fp7 peak, expected one of: "):
        lab.of_machine(rooflab.machine("h200-sxm"), "fp7")
