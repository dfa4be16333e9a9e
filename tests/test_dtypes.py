"""Number formats: their names elsewhere, their bits, the FLOP of a multiply-add."""

from __future__ import annotations

import numpy as np
import pytest

from rooflab.dtypes import DTYPES, dtype
from rooflab.errors import UnknownNameError

SPELLINGS = (
    ("float64", "fp64"),
    ("torch.float32", "fp32"),
    ("FP16", "fp16"),
    ("half", "fp16"),
    ("torch.bfloat16", "bf16"),
    ("float8_e4m3fn", "fp8"),
    ("torch.float8_e5m2", "fp8"),
    ("mxfp4", "fp4"),
    ("uint8", "int8"),
    ("cdouble", "complex128"),
)


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS)
def test_a_format_is_found_by_its_names_elsewhere(spelling, name):
    assert dtype(spelling).name == name


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "bool"])
def test_bits_are_numpys(name):
    assert dtype(name).nbytes == np.dtype(name).itemsize


@pytest.mark.parametrize(("name", "nbytes"), [("fp4", 0.5), ("fp6", 0.75), ("int4", 0.5), ("tf32", 4)])
def test_bytes_of_formats_that_numpy_lacks(name, nbytes):
    assert dtype(name).nbytes == nbytes


@pytest.mark.parametrize(
    ("name", "flop"),
    # (a+bi)(c+di) + e+fi: 4 multiplications, 2 additions within the product, 2 with the sum
    [("fp64", 2), ("int8", 2), ("complex64", 8), ("complex128", 8)],
)
def test_flop_of_a_multiply_add(name, flop):
    assert dtype(name).flop_per_fma == flop


def test_every_format_has_a_name_of_its_own_and_is_found_by_it():
    assert [dtype(each.name) for each in DTYPES] == list(DTYPES)


def test_an_unknown_format_lists_near_ones():
    with pytest.raises(UnknownNameError, match=r"unknown dtype 'fp46'; did you mean .*fp64"):
        dtype("fp46")
