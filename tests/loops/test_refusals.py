"""What a user reads where a loop cannot be compiled, or its file not imported."""

from __future__ import annotations

import inspect
import sys
import warnings

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.read import source


def complex_store(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i] + 1j


def test_numbas_refusal_names_the_line_of_the_source(small):
    line = inspect.getsourcelines(complex_store)[1] + 2
    with pytest.raises(RooflabError) as caught:
        rooflab.loop(complex_store, np.ones(9), np.ones(9), levels=small)
    said = str(caught.value)
    assert f"test_refusals.py:{line}: complex_store: numba cannot compile it at 'b[i] = a[i] + 1j'" in said
    assert said.endswith("a complex128 cannot be stored in an array of float64")
    assert "\n" not in said


def named_str(a):
    for i in range(a.shape[0]):
        a[i] = len(str(i))


def test_names_of_python_are_not_asked_of_numpy(small):
    # np.str warns of its end when it is asked for
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert source.read(named_str).modules["str"] == "str"


@pytest.mark.parametrize(
    ("library", "said"),
    [
        ("jax", "needs jax: python -m pip install 'rooflab[jax]'"),
        ("nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
    ],
)
@pytest.mark.parametrize("words", [("loop", "--n", "5"), ("analyze",)], ids=lambda words: words[0])
def test_a_file_that_imports_what_is_not_installed(refused, tmp_path, monkeypatch, library, said, words):
    # None in sys.modules: as if it were not installed
    if library == "jax":
        monkeypatch.setitem(sys.modules, library, None)
    path = tmp_path / "asks.py"
    path.write_text(f"import {library}\n\ndef f(a):\n    a[0] = 1.0\n", "utf-8")
    line = refused(words[0], f"{path}:f", *words[1:])
    assert said in line
    assert f"{path}" in line
