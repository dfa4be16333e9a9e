"""Products on a measured CPU: the library's own terms, its threads, what-ifs, and who computes what."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.machine import Curve, Level, Machine, Products, Rate, Source

MEASURED = Source("measured", "a test")
TERMS = {"call_s": 1e-6, "item_s": 2e-6, "multiply_add_s": 1e-10, "left_s": 1e-9}


def rate(value, scope, what="read", **more):
    return Rate(value=value, per_s="byte", what=what, basis="attained", source=MEASURED, scope=scope, **more)


def peak(value, scope, dtype="fp32"):
    return Rate(
        value=value,
        per_s="flop",
        what="fma",
        basis="attained",
        source=MEASURED,
        dtype=dtype,
        engine="vector",
        scope=scope,
    )


def box(*products):
    """Four cores of 96 GFLOP/s, a last cache of 30 MB, memory of 10 GB/s a core and 30 GB/s for all."""
    return Machine(
        name="box",
        kind="cpu",
        source=MEASURED,
        compute_units=4,
        levels=(
            Level(name="L1", source=MEASURED, capacity_bytes=32e3, shared_by=1, rates=(rate(200e9, "core"),)),
            Level(name="L3", source=MEASURED, capacity_bytes=30e6, shared_by=4, rates=(rate(50e9, "core"),)),
            Level(
                name="DRAM", source=MEASURED, capacity_bytes=64e9, rates=(rate(10e9, "core"), rate(30e9, "all"))
            ),
        ),
        peaks=(peak(96e9, "core"), peak(384e9, "all"), peak(192e9, "all", "fp64")),
        curves=(
            Curve(
                name="thread scaling",
                x_unit="thread",
                y_unit="byte/s",
                scope="all",
                x=(1, 2, 4),
                best=(10e9, 18e9, 30e9),
                median=(10e9, 18e9, 30e9),
                source=MEASURED,
            ),
        ),
        products=products,
    )


def fit(library="numpy", threads=1, routine="product", **changes):
    row = Products(
        library=library,
        routine=routine,
        dtype="fp32",
        threads=threads,
        terms=TERMS,
        source=MEASURED,
        blas="OpenBLAS 0.3",
        kernels="Haswell",
        spread=0.1,
        environment={"OPENBLAS_CORETYPE": "Haswell"},
    )
    return msgspec.structs.replace(row, **changes)


def seconds(machine, *shapes, kind="matmul", cache="warm", **setting):
    found = rooflab.op(kind, *shapes, machine=machine, cache=cache, advice=False, **setting).prediction
    assert found is not None
    return found.time_s


def test_the_time_is_the_sum_of_the_librarys_terms():
    # 1 µs, 2 µs, 100 · 50 · 80 multiply-adds of 0.1 ns, 100 · 80 elements of the left operand of 1 ns
    assert seconds(box(fit()), "100x80", "80x50") == pytest.approx(3e-6 + 40e-6 + 8e-6)
    assert seconds(box(fit()), "100x80", "50x80", kind="linear") == pytest.approx(51e-6)


def test_numpy_multiplies_a_stack_one_by_one_and_pytorch_folds_it():
    stack = ("4x25x80", "80x50")
    assert seconds(box(fit()), *stack) == pytest.approx(1e-6 + 4 * 2e-6 + 48e-6)
    assert seconds(box(fit("torch")), *stack, library="torch") == pytest.approx(51e-6)


def test_a_batch_is_a_routine_of_its_own_in_pytorch():
    slow = fit("torch", routine="batched product", terms={"item_s": 1e-3})
    assert seconds(box(fit("torch"), slow), "4x25x80", "4x80x50", library="torch") == pytest.approx(4e-3)


def test_who_is_not_measured_is_predicted_as_before():
    bare = box()
    assert seconds(box(fit("torch")), "100x80", "80x50") == seconds(bare, "100x80", "80x50")
    assert seconds(box(fit()), "100x80:fp64", "80x50:fp64") == seconds(bare, "100x80:fp64", "80x50:fp64")
    report = rooflab.op("matmul", "100x80", "80x50", machine=box(fit("torch")), advice=False)
    assert any("those of numpy were not measured" in line for line in report.conventions)


def test_the_report_says_whose_products_they_are():
    report = rooflab.op("matmul", "100x80", "80x50", machine=box(fit()), advice=False)
    (said,) = (line for line in report.conventions if line.startswith("products: "))
    assert "NumPy" in said
    assert "OpenBLAS 0.3, kernels for Haswell, OPENBLAS_CORETYPE=Haswell; 1 thread)" in said
    again = report.on(box())
    assert not any(line.startswith("products: ") for line in again.conventions)


def test_threads_lie_between_one_and_all():
    fast = fit(threads=4, terms={**TERMS, "multiply_add_s": 0.25e-10}, team_from=1000.0)
    machine = box(fit(), fast)
    shapes = ("100x80", "80x50")
    assert seconds(machine, *shapes) == pytest.approx(3e-6 + 10e-6 + 8e-6)
    assert seconds(machine, *shapes, threads=4) == seconds(machine, *shapes)
    assert seconds(machine, *shapes, threads=2) == pytest.approx(3e-6 + 20e-6 + 8e-6)
    assert seconds(machine, *shapes, threads=1) == pytest.approx(51e-6)
    assert seconds(machine, "8x8", "8x8") == pytest.approx(3e-6 + 512e-10 + 64e-9)  # 512 multiply-adds: one thread


def test_fewer_threads_have_the_memory_that_was_measured_for_them():
    # 1.6 GB: nothing of it stays in the cache
    at = {
        threads: seconds(box(), "20000x20000", kind="copy", threads=threads, library=None) for threads in (1, 2, 4)
    }
    torch = pytest.importorskip("torch")
    report = rooflab.analyze(lambda x: x.clone(), torch.empty(20000, 20000, device="meta"), device="cpu")
    for threads, share in ((1, 10 / 30), (2, 18 / 30)):
        found = report.on(box(), threads=threads).prediction, report.on(box(), threads=4).prediction
        moved = [each.memory_s["DRAM"] for each in found]
        assert moved[1] < moved[0] <= moved[1] / share * 1.001
    assert at[1] == at[4]  # NumPy copies on one core, however many there are


def test_a_compilers_kernels_too_have_the_memory_and_the_cores_of_their_threads():
    # 1.6 GB copied: all of it goes through memory, of which 1 and 2 threads have 10 and 18 of 30 GB/s
    big, flop = rooflab.op("copy", "20000x20000"), rooflab.op("mul", "20000x20000")
    for threads, of_memory, of_cores in ((1, 10 / 30, 1 / 4), (2, 18 / 30, 2 / 4)):
        for report, share, term in (
            (big, of_memory, lambda p: p.memory_s["DRAM"]),
            (flop, of_cores, lambda p: p.compute_s),
        ):
            few, every = (report.on(box(), mode="compiled", threads=n).prediction for n in (threads, 4))
            assert term(few) == pytest.approx(term(every) / share)
            assert few.floor_s <= few.time_s


def test_what_changes_nothing_is_said():
    report = rooflab.op("add", "64", "64")
    assert any(
        "threads: 3 were asked for; those are of CPUs" in line for line in report.on("h200", threads=3).conventions
    )
    assert any("cores: taken as a call of NumPy" in line for line in report.on(box()).conventions)
    assert not any(line.startswith(("cores: ", "threads: ")) for line in report.on("h200").conventions)


def test_what_ifs_move_their_own_terms():
    machine, shapes = box(fit()), ("100x80", "80x50")
    assert seconds(machine, *shapes, what_if="compute=2x") == pytest.approx(3e-6 + 20e-6 + 8e-6)
    assert seconds(machine, *shapes, what_if="dispatch=0.5x") == pytest.approx(1.5e-6 + 48e-6)
    assert seconds(machine, *shapes, what_if="cache_bandwidth=2x") == pytest.approx(3e-6 + 40e-6 + 4e-6)


def test_cold_operands_wait_for_memory():
    # 4 · (100 · 80 + 80 · 50 + 100 · 50) = 68 kB, by all cores at 30 GB/s
    cold = seconds(box(fit()), "100x80", "80x50", cache="cold")
    assert cold == pytest.approx(51e-6 + 68e3 / 30e9)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two"])
def test_threads_that_are_none_are_refused(threads):
    with pytest.raises(RooflabError, match="how many threads work"):
        seconds(box(), "8x8", "8x8", threads=threads)


def test_a_library_that_is_none_is_refused():
    with pytest.raises(RooflabError, match="unknown library"):
        seconds(box(), "8x8", "8x8", library="tourch")
