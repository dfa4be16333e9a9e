"""Classic, hierarchical and cache-aware bounds on published numbers."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model.roofline import hierarchical
from rooflab.types.machine import Level, Link, Machine, Rate, Source
from rooflab.types.work import Flop

SOURCE = Source(kind="assumed", ref="test")


def rate(value, per_s="byte", what="any", **more):
    return Rate(value=value, per_s=per_s, what=what, basis="theoretical", source=SOURCE, **more)


def machine(name, levels, peaks, links=()):
    return Machine(
        name=name,
        kind="gpu",
        source=SOURCE,
        levels=tuple(Level(name=each, source=SOURCE, rates=(rate(value),)) for each, value in levels.items()),
        peaks=tuple(rate(value, "flop", "fma", dtype=dtype, engine=engine) for (dtype, engine), value in peaks),
        links=links,
    )


# Yang et al., "Hierarchical Roofline analysis for GPUs"; cyanguwa/nersc-roofline, Plotting/data_hierarchical.txt
V100 = machine("V100", {"L1": 14336e9, "L2": 2996.77e9, "HBM": 828.758e9}, ((("fp64", "vector"), 7068.86e9),))
# nw, FLOP/byte of HBM, L2 and L1, GFLOP/s attained, share of the lowest roof, what binds
GPP = (
    (1, 2.584785579, 2.250285265, 0.865326481, 2085.756683, 0.974, "memory-bound"),
    (2, 4.738878073, 3.34359685, 1.556526957, 3593.593112, 0.915, "memory-bound"),
    (3, 6.892970567, 3.245471837, 2.222121895, 4381.739349, 0.767, "memory-bound"),
    (4, 9.047063062, 3.766406852, 2.863508257, 4625.535516, 0.654, "balanced"),  # 7069 against 7498 of HBM
    (5, 11.08619259, 4.356477696, 3.446245893, 4599.764097, 0.651, "compute-bound"),
    (6, 13.21154434, 5.182021625, 4.034947498, 4692.209405, 0.664, "compute-bound"),
)


@pytest.mark.parametrize(("nw", "hbm", "l2", "l1", "gflop_per_s", "share", "bound"), GPP)
def test_the_published_points_of_gpp(nw, hbm, l2, l1, gflop_per_s, share, bound):
    flop = 1e12
    found = hierarchical.hierarchical(
        V100, [Flop("vector", "fp64", flop)], {"L1": flop / l1, "L2": flop / l2, "HBM": flop / hbm}
    )
    assert gflop_per_s * 1e9 / found.flop_per_s == pytest.approx(share, abs=6e-4)
    assert found.verdict == (bound, "HBM" if bound == "memory-bound" else "fp64 vector")
    if nw == 1:
        # the parser's note in the published case: L2 30.9 %, L1 16.8 %
        shares = found.shares(flop / (gflop_per_s * 1e9))
        assert (shares["HBM"], shares["L2"], shares["L1"]) == pytest.approx((0.974, 0.309, 0.168), abs=6e-4)


def test_a_kernel_is_bound_by_memory_arithmetic_or_the_host():
    # Horace He, Making Deep Learning Go Brrrr: A100 with 19.5 TFLOP/s of vector fp32 and 1.5 TB/s; a unary fp32 op
    # reads and writes 8 bytes an element: memory-bound to 19.5e12 / 1.5e12 × 8 = 104 FLOP an element.
    a100 = machine("A100", {"HBM": 1.5e12}, ((("fp32", "vector"), 19.5e12),))
    n = 10**9
    below, above = (hierarchical.classic(a100, [Flop("vector", "fp32", k * n)], 8 * n) for k in (93, 116))
    assert below.verdict == ("memory-bound", "HBM")
    assert above.verdict == ("compute-bound", "fp32 vector")
    assert hierarchical.classic(a100, [Flop("vector", "fp32", 104 * n)], 8 * n).verdict.bound == "balanced"
    # 3.57 µs a PyTorch operation (280,000 a second) for 1000 elements: the host
    small = hierarchical.classic(a100, [Flop("vector", "fp32", 1000)], 8000, overhead_s=1 / 280e3)
    assert small.verdict == ("overhead-bound", "launch")
    assert small.time_s == pytest.approx(3.57e-6, rel=1e-3)


def test_a_link_is_one_more_roof():
    # jax-ml scaling-book: weights over PCIe at 1.5e10 B/s on a v6e of 9.2e14 FLOP/s: 2·B FLOP for each 2-byte
    # weight, bound by arithmetic only from B > 9.2e14 / 1.5e10 = 61,333 on.
    pcie = Link(name="PCIe", to="host", source=SOURCE, each_way_bytes_per_s=1.5e10)
    v6e = machine("TPU v6e", {"HBM": 1.64e12}, ((("bf16", "matrix"), 9.2e14),), (pcie,))
    weights = 10**9

    def at(batch):
        flop = [Flop("matrix", "bf16", 2 * batch * weights)]
        return hierarchical.hierarchical(v6e, flop, {"HBM": 2 * weights}, link_bytes={"PCIe": 2 * weights})

    assert at(55_000).verdict == ("memory-bound", "PCIe")
    assert at(61_333).verdict.bound == "balanced"
    assert at(69_000).verdict == ("compute-bound", "bf16 matrix")


def test_loading_weights_takes_their_bytes_over_the_bandwidth():
    # jax-ml scaling-book, TPUs, question 1: 200 G parameters of bf16 over 32 TPU v4p of 1.23e12 B/s: 10.2 ms
    v4p = machine("TPU v4p", {"HBM": 1.23e12}, ((("bf16", "matrix"), 2.75e14),))
    assert hierarchical.classic(v4p, [], 2 * 200e9 / 32).time_s == pytest.approx(10.2e-3, rel=5e-3)


def test_cache_aware_bounds_share_one_count_of_bytes():
    flop = [Flop("vector", "fp64", 2e9)]
    found = hierarchical.cache_aware(V100, flop, 24e9)
    assert list(found) == ["L1", "L2", "HBM"]
    # 24 GB at 14.3 TB/s, 3 TB/s, 829 GB/s
    assert [each.time_s for each in found.values()] == pytest.approx([24 / 14336, 24 / 2996.77, 24 / 828.758])
    assert found["HBM"].verdict == ("memory-bound", "HBM")


def test_attained_rates_where_they_are_asked_for():
    h200 = rooflab.machine("h200-sxm")
    theory, attained = (
        hierarchical.classic(h200, [], 1e12, basis=each).time_s for each in ("theoretical", "attained")
    )
    assert theory == pytest.approx(1 / 4.8)
    assert attained > theory


BAD = (
    (lambda: hierarchical.hierarchical(V100, [], {"L3": 1}), UnknownNameError, "unknown level of V100 'L3'"),
    (
        lambda: hierarchical.hierarchical(V100, [Flop("matrix", "bf16", 1)], {"HBM": 1}),
        RooflabError,
        "V100 states no bf16 matrix peak",
    ),
    (
        lambda: hierarchical.hierarchical(V100, [], {"L2": 1}, basis="attained"),
        RooflabError,
        "V100 states no attained bandwidth of L2 for scope 'all' (its rates: any all theoretical)",
    ),
    (
        lambda: hierarchical.classic(machine("none", {}, ()), [], 1),
        RooflabError,
        "none has no main memory: add a level",
    ),
    (
        lambda: hierarchical.classic(V100, [], 1).shares(0),
        RooflabError,
        "a run of 0 s, expected a positive time",
    ),
)


@pytest.mark.parametrize(("made", "kind", "said"), BAD)
def test_what_is_missing_is_named(made, kind, said):
    with pytest.raises(kind) as error:
        made()
    assert str(error.value).startswith(said)
