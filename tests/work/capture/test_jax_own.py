"""Pallas kernels and primitives of JAX, counted by a user's formula under their name."""

import pytest

jax = pytest.importorskip("jax")

from jax.experimental import pallas  # noqa: E402

import rooflab  # noqa: E402
from rooflab.work import own_formulas  # noqa: E402

SQUARE = jax.ShapeDtypeStruct((32, 32), "float32")


def scaled_add(a, b, out):
    """The kernel."""
    out[...] = a[...] + 2 * b[...]


def called(a, b, **how):
    return pallas.pallas_call(scaled_add, out_shape=SQUARE, **how)(a, b)


def named(a, b):
    return called(a, b, name="my_name")


@pytest.mark.parametrize(("program", "name"), [(called, "scaled_add"), (named, "my_name")])
def test_a_pallas_kernel_is_known_by_its_name(program, name):
    """2 FLOP an element on vector units; 2 · 4096 bytes read, 4096 written."""
    without = rooflab.analyze(program, SQUARE, SQUARE)
    assert without.coverage.uncounted == {f"pallas_call {name}": 1}

    @rooflab.formula(name)
    def formula(a, b, *, out):
        return {"flop": 2 * out.elements, "kind": "vector"}

    try:
        report = rooflab.analyze(program, SQUARE, SQUARE)
    finally:
        own_formulas.forget(name)
    assert report.coverage.complete
    assert (report.flop, report.nbytes) == (2 * 1024, 3 * 4096)
