"""What calls of BLAS take of the core, from the lines that make them; by hand."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.model.device.constants import load_family
from rooflab.model.loop import blas_calls, cores
from rooflab.types.loop import CoreLoop, LineCounts, LoopReport
from rooflab.types.simulation import Cache, LevelCounts, Simulation
from rooflab.types.work import Flop

TIMING = cores.usual(1e-9)


@pytest.fixture(scope="module")
def guest(root):
    return rooflab.machine(root / "examples" / "zen4-guest.toml")


def report(lines, loops):
    """`lines`: (FLOP, elements) by line; `loops`: operations by line."""
    level = LevelCounts(
        name="L1",
        cache=Cache(32 * 1024, 8, name="L1"),
        hits=0,
        misses=0,
        evictions=0,
        writebacks=0,
        read_bytes=0,
        write_bytes=0,
    )
    return LoopReport(
        name="t",
        where="t.py:1",
        arguments={},
        flop_by=(Flop("vector", "fp64", sum(flop for flop, _ in lines.values())),),
        accesses=0,
        accessed_bytes=0,
        stored_bytes=0,
        simulation=Simulation(name="t", levels=(level,), accesses=0),
        lines=tuple(
            LineCounts(line=line, text="", flop=flop, accesses=number, misses={})
            for line, (flop, number) in lines.items()
        ),
        core_loops=tuple(
            CoreLoop(line=line, passes=1, entries=1, operations=operations, innermost=True)
            for line, operations in loops
        ),
    )


def start_cycles():
    return load_family("cpu")("loop.product_start_s") / TIMING.cycle_s


def test_a_dot_product_takes_its_start_and_its_loads(guest):
    # 100 products of 1,000 pairs: 16 bytes for 2 FLOP, which L1 takes longer for than the core
    given = report({4: (200_000, 200_000)}, [(4, {"call numba_xxdot": 100.0, "slot": 50.0})])
    rate = guest.level("L1").rate("read", scope="core", basis="attained").value
    each = 16_000 / rate / TIMING.cycle_s
    made = blas_calls.with_calls(given, guest, TIMING)
    assert made.throughput["call numba_xxdot"] == pytest.approx(start_cycles() + each)
    assert made.latency["call numba_xxdot"] == made.throughput["call numba_xxdot"]


def test_a_matrix_product_takes_what_lines_compute_that_no_loop_does(guest):
    # line 4 is computed by a compiled loop, line 6 by the product, whose call stands in a function of its own
    given = report(
        {4: (1_000_000, 10), 6: (2_000_000, 30_000)},
        [(3, {"fp add": 1e6}), (5, {"integer": 10.0}), (0, {"call numba_xxgemm": 2.0})],
    )
    rows = [(each.dtype, each.scope, each.engine, each.what, each.value) for each in guest.peaks]
    # of multiply-adds alone: additions beside them, which a higher peak counts, a product has none
    peak = max(value for *kind, value in rows if kind == ["fp64", "core", "vector", "fma"])
    assert peak < 0.7 * guest.peak("fp64", scope="core").value
    made = blas_calls.with_calls(given, guest, TIMING)
    assert made.throughput["call numba_xxgemm"] == pytest.approx(start_cycles() + 1e6 / peak / TIMING.cycle_s)


def test_without_products_nothing_is_added(guest):
    given = report({4: (1_000_000, 10)}, [(3, {"fp add": 1e6, "call exp fp64": 5.0})])
    assert blas_calls.with_calls(given, guest, TIMING) is TIMING
