"""Checks of libraries and translations: each holds, and each fails with its cause."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec

from rooflab.machines.bench.experiments.products import TimedLibrary, TimedProduct
from rooflab.machines.bench.experiments.translations import Translations
from rooflab.machines.bench.result.library_checks import impossible, left_out, library_checks
from rooflab.types.machine import Machine, Products, Rate, Source

MEASURED = Source("measured", "a test")
PEAK = Rate(
    value=100e9, per_s="flop", what="fma", basis="attained", source=MEASURED, dtype="fp32", engine="vector",
    scope="core",
)  # fmt: skip
FIT = Products(
    library="numpy", routine="product", dtype="fp32", threads=1, terms={}, source=MEASURED,
    flop_per_s=90e9, error=0.1,
)  # fmt: skip


def checked(fit=FIT, libraries=(), translations=()):
    machine = Machine(name="box", kind="cpu", source=MEASURED, compute_units=2, peaks=(PEAK,), products=(fit,))
    found = SimpleNamespace(libraries=list(libraries), translations=list(translations))
    return {check.name: check for check in library_checks(machine, found)}  # type: ignore[arg-type]


def test_good_ones_hold():
    found = checked(translations=[Translations(4096, {16: 0.0, 32: 2e-9})])
    assert set(found) == {"products", "products under peaks", "translations"}
    assert all(check.ok for check in found.values())


def test_a_fit_that_misses_and_one_above_the_peak():
    found = checked(msgspec.structs.replace(FIT, error=0.4, flop_per_s=120e9))
    assert not found["products"].ok
    assert "numpy product fp32 on 1 thread 40 %" in found["products"].message
    assert not found["products under peaks"].ok
    assert "computes 120 GFLOP/s, the peak is 100 GFLOP/s" in found["products under peaks"].message


def test_waits_that_fall_and_a_library_that_failed():
    found = checked(translations=[Translations(4096, {16: 0.0, 32: 40e-9, 64: 2e-9})])
    assert not found["translations"].ok
    machine = Machine(name="box", kind="cpu", source=MEASURED)
    failed = SimpleNamespace(libraries=[TimedLibrary("torch", "", refused="it died")], translations=[])
    (check,) = library_checks(machine, failed)  # type: ignore[arg-type]
    assert (check.ok, check.message) == (False, "Products in torch were not timed: it died.")


def test_too_few_products_for_a_fit_are_said():
    timed = [TimedProduct(1, 8 + n, 8, 8, dtype, 1, 1e-6) for dtype in ("fp32", "fp64") for n in range(5)]
    timed += [TimedProduct(1, 8 + n, 8, 8, "fp32", 1, 1e-6) for n in range(5, 8)]  # eight of these are enough
    timed += [TimedProduct(1, 8, 1, 8, "fp64", 1, 1e-6)] * 9  # with a vector: another routine
    machine = Machine(name="box", kind="cpu", source=MEASURED)
    found = SimpleNamespace(libraries=[TimedLibrary("numpy", "2", timed=tuple(timed))], translations=[])
    (check,) = library_checks(machine, found)  # type: ignore[arg-type]
    assert not check.ok
    assert check.message.startswith("Only 5 in fp64 on 1 thread(s) of numpy's products were timed")


def test_fits_beyond_what_the_cores_can_compute_are_noise():
    theory = msgspec.structs.replace(PEAK, value=160e9, basis="theoretical")
    rows = [msgspec.structs.replace(FIT, flop_per_s=rate, threads=threads) for rate, threads in
            ((190e9, 1), (510e9, 1), (390e9, 2), (410e9, 2))]  # fmt: skip
    machine = Machine(name="box", kind="cpu", source=MEASURED, peaks=(PEAK, theory), products=tuple(rows))
    # More than 1.25 × 160 GFLOP/s a core.
    assert [row.flop_per_s for row in impossible(machine)] == [510e9, 410e9]
    (check,) = left_out(impossible(machine))
    assert not check.ok
    assert check.message.startswith(
        "Numpy product fp32 on 1, numpy product fp32 on 2: what was timed would be faster"
    )
    assert not list(left_out(()))
    # Without a peak by theory nothing is known to be impossible: the measured one may be too low.
    assert impossible(msgspec.structs.replace(machine, peaks=(PEAK,))) == ()
