"""Constants found again from times that were made with them, noise and outliers included."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rooflab.machines import products
from rooflab.machines.bench.experiments import products as timed_products
from rooflab.machines.bench.experiments.products import TimedLibrary, TimedProduct
from rooflab.machines.bench.result.products_fitted import fitted, nonnegative
from rooflab.types.machine import Products, Source

SOURCE = Source("measured", "made up")
CACHES = [(512e3, 8e6)]
TRUE = {"call_s": 1e-6, "multiply_add_s": 2e-11, "left_s": 2e-10, "right_s": 3e-10, "edge_columns_s": 1e-10}


def true_row(threads, terms, team_from=0.0):
    return Products(
        library="numpy", routine="product", dtype="fp32", threads=threads, terms=terms, tile=(8, 4), tail="halves",
        team_from=team_from, cache_bytes=CACHES[0], source=SOURCE,
    )  # fmt: skip


def library(noise=0.0, outliers=0, team_from=2.0**18):
    """NumPy's products of the design, timed by a machine that follows the terms."""
    rng = np.random.default_rng(5)
    fast = {name: value / 2 if name != "call_s" else 5e-6 for name, value in TRUE.items()}
    rows = {1: true_row(1, TRUE), 2: true_row(2, fast, team_from)}
    shapes = [each for each in itertools.islice(timed_products.design(), 200) if min(each[1:3]) > 1]
    timed = []
    for number, shape in enumerate(shapes):
        for threads in (1, 2):
            x = products.shapes_of([shape], 4)
            seconds = float(products.library_seconds(rows, threads, x)[0]) * np.exp(noise * rng.standard_normal())
            seconds *= 8 if number < outliers else 1
            timed.append(TimedProduct(*shape, "fp32", threads, seconds))
    return TimedLibrary("numpy", "2", "OpenBLAS 0", "Haswell", tuple(timed))


def test_constants_are_found_again():
    alone, together = fitted(library(), CACHES, SOURCE)
    assert (alone.threads, together.threads) == (1, 2)
    for name, value in TRUE.items():
        assert alone.terms[name] == pytest.approx(value, rel=0.05), name
    assert alone.flop_per_s == pytest.approx(2 / 2e-11, rel=0.02)
    assert together.team_from == 2**18
    assert together.flop_per_s == pytest.approx(2 / 1e-11, rel=0.05)
    assert alone.error < 0.01


def test_a_few_disturbed_times_move_little():
    alone, _ = fitted(library(noise=0.05, outliers=8), CACHES, SOURCE)
    assert alone.flop_per_s == pytest.approx(2 / 2e-11, rel=0.08)
    assert 0.02 < alone.error < 0.12
    assert alone.spread < 0.2


def test_the_spread_holds_four_of_five():
    alone, _ = fitted(library(noise=0.2), CACHES, SOURCE)
    assert alone.spread == pytest.approx(0.2, rel=0.3)


def test_too_few_products_leave_the_terms_open():
    few = library()
    assert not list(fitted(TimedLibrary("numpy", "2", timed=few.timed[:14]), CACHES, SOURCE))


def test_a_term_does_not_exceed_what_is_possible():
    free, _ = fitted(library(), CACHES, SOURCE)
    bound, _ = fitted(library(), CACHES, SOURCE, {"left_s": 1e-10})
    assert free.terms["left_s"] > 1.9e-10
    assert bound.terms["left_s"] == pytest.approx(1e-10)


def test_nonnegative_least_squares():
    columns = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    assert nonnegative(columns, np.array([1.0, 3.0, 5.0])) == pytest.approx([1.0, 2.0])
    # The line that fits falls: the best without a negative slope is the mean.
    assert nonnegative(columns, np.array([3.0, 2.0, 1.0])) == pytest.approx([2.0, 0.0])
