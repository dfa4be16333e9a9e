"""What numba's decorators made of a function is told without importing numba."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from numba import guvectorize, njit, vectorize

from rooflab.loops.read import decorated


def plain(x):
    return x + 1.0


def test_each_kind_of_function_is_told():
    ours = njit(fastmath=True, nogil=True)(plain)
    assert decorated.is_compiled(ours)
    assert decorated.options(ours)["fastmath"]
    assert decorated.has_options(ours)
    assert not decorated.has_options(njit(nogil=True)(plain))
    assert decorated.python_function(ours) is plain
    assert not decorated.is_compiled(plain)
    assert decorated.options(plain) == {}
    assert decorated.python_function(plain) is plain


def test_each_kind_of_ufunc_is_told():
    def copied(a, b):
        b[:] = a

    assert decorated.is_ufunc(np.add)
    assert decorated.is_ufunc(vectorize(plain))
    assert decorated.is_ufunc(guvectorize(["float64[:], float64[:]"], "(n)->(n)")(copied))
    assert not decorated.is_ufunc(plain)
    assert not decorated.is_ufunc(njit(plain))


def test_numba_is_not_imported_to_tell():
    said = (
        "import sys\nfrom rooflab.loops.read import decorated\n"
        "print(decorated.has_options(len), decorated.is_ufunc(len), 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]
