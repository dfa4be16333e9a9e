"""Timing of products: the design's shapes, threads given back, PyTorch's answer read."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import asdict

import numpy as np
import pytest

from rooflab.machines.bench.experiments import products, torch_products
from rooflab.machines.bench.experiments.products import NumpyLibrary, TimedLibrary, TimedProduct


def test_the_design_fills_the_space_and_stays_small():
    shapes = list(itertools.islice(products.design(), 400))
    assert len(set(shapes)) > 390
    assert all(batch * m * n * k <= 2**26 or m == n == k for batch, m, n, k in shapes)
    logs = np.log2(np.array([shape[1:] for shape in shapes if shape[0] == 1 and min(shape[1:3]) > 1]))
    for column in logs.T:
        counted, _ = np.histogram(column, bins=[1, 3, 5, 7, 9, 12])
        assert counted.min() > 10  # no stretch of sizes is left out
    kinds = [sum(test(each) for each in shapes) for test in (lambda s: s[0] > 1, lambda s: 1 in s[1:3])]
    assert min(kinds) > 60


class Recorder:
    """A library that only remembers."""

    def __init__(self):
        self.given, self.multiplied = [], 0

    def threads(self):
        return 7

    def set_threads(self, count):
        self.given.append(count)

    def array(self, values):
        return values

    def multiply(self, a, b):
        assert a.shape[-1] == b.shape[-2]
        self.multiplied += 1


def test_each_shape_is_timed_in_both_formats_by_each_number_of_threads():
    library = Recorder()
    shapes = iter([(1, 4, 5, 6), (2, 3, 4, 5)])
    timed = products.collect(library, (1, 2), 1e9, shapes)
    assert [(each.dtype, each.threads) for each in timed] == [
        ("fp32", 1), ("fp32", 2), ("fp64", 1), ("fp64", 2),
    ] * 2  # fmt: skip
    assert timed[4][:4] == (2, 3, 4, 5)
    assert library.given[-1] == 7


def test_threads_are_given_back_after_an_interruption():
    library = Recorder()

    def tick():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        products.collect(library, (1,), 1e9, iter([(1, 4, 5, 6)]), tick)
    assert library.given == [1, 7]


def test_the_time_ends_it():
    ticks = itertools.count()
    timed = products.collect(Recorder(), (1,), 40.5, itertools.repeat((1, 2, 2, 2)), clock=lambda: next(ticks))
    assert len(timed) == 2 * 41  # the clock says 1, 2, … 41 seconds after the shapes, each in two formats


def test_so_many_shapes_are_timed_though_the_time_is_over():
    ticks = itertools.count()
    timed = products.collect(Recorder(), (1,), 20.5, itertools.repeat((1, 2, 2, 2)), clock=lambda: next(ticks))
    assert len(timed) == 2 * 32  # 32 seconds: less than twice the time
    slow = itertools.count(step=10)
    timed = products.collect(Recorder(), (1,), 10.5, itertools.repeat((1, 2, 2, 2)), clock=lambda: next(slow))
    assert len(timed) == 2 * 3  # 30 seconds are more than twice the time


def test_numpys_library_says_what_it_is():
    library = NumpyLibrary()
    before = library.threads()
    library.set_threads(1)
    assert library.threads() == 1 or library.blas is None
    library.set_threads(before)
    assert library.threads() == before
    a = np.arange(6.0).reshape(2, 3)
    assert library.multiply(a, a.T).tolist() == [[5, 14], [14, 50]]


def test_settings_are_those_that_decide(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "True")
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    found = products.settings()
    assert found["OPENBLAS_CORETYPE"] == "Haswell"
    assert not {"KMP_DUPLICATE_LIB_OK", "SOMETHING_ELSE"} & set(found)


@pytest.mark.parametrize(("most", "counts"), [(1, (1,)), (2, (1, 2)), (4, (1, 4)), (64, (1, 8, 64))])
def test_numbers_of_threads(most, counts):
    assert products.thread_counts(most) == counts


def test_what_a_child_says_is_read_back():
    said = TimedLibrary(
        "torch", "2", "MKL 1", "AVX2", (TimedProduct(1, 2, 3, 4, "fp32", 1, 1e-6),), (2e-6,), {"A": "b"}
    )
    assert torch_products.decoded("a warning\n" + json.dumps(asdict(said)) + "\n") == said


def test_a_child_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(torch_products.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    said = torch_products.timed_in_a_child(1.0, 1)
    assert said is not None
    assert said.refused == "its process ended with exit code 1: no message"


def test_without_pytorch_there_is_nothing(monkeypatch):
    monkeypatch.setattr(torch_products.importlib.util, "find_spec", lambda name: None)
    assert torch_products.timed_in_a_child(1.0, 1) is None


@pytest.mark.parametrize(
    ("built", "wanted"),
    [
        ("Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build\n USE_MKL=ON", "MKL 2024.2"),
        ("BLAS_INFO=open, USE_MKL=OFF", "open"),
        ("", None),
    ],
)
def test_pytorchs_library(built, wanted):
    assert torch_products.blas_of(built) == wanted


def test_of_two_times_of_a_product_the_shorter_counts():
    first = [TimedProduct(1, 2, 3, 4, "fp32", 1, 5e-6), TimedProduct(1, 2, 3, 4, "fp32", 2, 3e-6)]
    second = [TimedProduct(1, 2, 3, 4, "fp32", 1, 4e-6), TimedProduct(1, 2, 3, 4, "fp64", 1, 9e-6)]
    assert products.faster_of(first, second) == [second[0], first[1], second[1]]
