"""Threads of the BLAS libraries that are loaded: held to one for as long as it is asked for."""

from __future__ import annotations

import pytest

from rooflab.loops.compiled import blas_threads
from rooflab.loops.compiled.blas_threads import Pool


@pytest.fixture
def libraries(monkeypatch):
    """Two libraries of 4 threads and 1, and what they were set to."""
    threads, said = [4, 1], []

    def change(number, count):
        said.append((number, count))
        threads[number] = count

    made = tuple(Pool(lambda n=n: threads[n], lambda count, n=n: change(n, count)) for n in range(2))
    monkeypatch.setattr(blas_threads, "pools", lambda: made)
    return threads, said


def test_libraries_have_one_thread_within_and_as_many_as_before_after_it(libraries):
    threads, said = libraries
    with blas_threads.at_most(1):
        assert threads == [1, 1]
    assert threads == [4, 1]
    # what has no more is left alone
    assert said == [(0, 1), (0, 4)]


def test_what_fails_within_leaves_them_as_they_were(libraries):
    with pytest.raises(ValueError, match="why"), blas_threads.at_most(1):
        raise ValueError("why")
    assert libraries[0] == [4, 1]


def test_the_library_of_this_process_is_found_and_obeys():
    import numpy as np

    found = blas_threads.pools()
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    if "openblas" not in blas or not found:
        pytest.skip(f"NumPy's BLAS is {blas}, no OpenBLAS of which threads can be set")
    before = [each.threads() for each in found]
    with blas_threads.at_most(1):
        assert {each.threads() for each in found} == {1}
    assert [each.threads() for each in found] == before


def test_files_that_are_not_there_are_passed_over(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r-xp 00000000 00:00 0   /nowhere/libopenblas.so (deleted)\n7f02-7f03 rw-p 0 00:00 0\n"
    )
    assert blas_threads.pools(maps) == ()
    assert blas_threads.pools(tmp_path / "none") == ()
