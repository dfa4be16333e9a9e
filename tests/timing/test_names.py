"""What callables are called: as they are used, not as they are implemented."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from rooflab.timing.names import name_of


class Callable:
    def __call__(self):
        return 1

    def method(self):
        return 2


def own():
    return 3


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (np.add, "numpy.add"),
        (np.matmul, "numpy.matmul"),
        (np.linalg.svd, "numpy.linalg.svd"),
        (np.ones(2).sum, "ndarray.sum"),
        (Callable(), "Callable"),
        (Callable().method, "Callable.method"),
        (own, "own"),
        (functools.partial(np.add, 1), "numpy.add with arguments"),
        (lambda: 1, "lambda"),
        (len, "len"),
    ],
)
def test_a_name_is_that_of_its_use(target, name):
    assert name_of(target) == name


def test_names_of_pytorch():
    torch = pytest.importorskip("torch")
    assert name_of(torch.relu) == "torch.relu"
    assert name_of(torch.mm) == "torch.mm"
    assert name_of(torch.nn.functional.gelu) == "torch.nn.functional.gelu"
    assert name_of(torch.nn.Linear(1, 1)) == "Linear"
    assert name_of(torch.ones(1).relu) == "Tensor.relu"


def test_names_of_jax():
    jax = pytest.importorskip("jax")
    assert name_of(jax.numpy.dot) == "jax.numpy.dot"
    assert name_of(jax.jit(own)) == "own"
