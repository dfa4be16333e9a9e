"""C that would end this process, or never end: refused in one line, or run in a copy of the process first."""

from __future__ import annotations

import os
import platform

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.c import compilers, rehearsal
from rooflab.types.simulation import Cache

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))


@pytest.fixture(scope="module")
def count(request):
    """The report of a function of bad.c."""
    try:
        compilers.find(False)
    except RooflabError as error:
        pytest.skip(str(error))
    file = request.path.with_name("bad.c")

    def counted(name, *args, timed=False):
        return rooflab.loop(f"{file}:{name}", *args, levels=CACHES, timed=timed, time_limit_s=2.0)

    return counted


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("any_number", r"any_number takes any number of arguments"),
        ("thread", r"bad\.c:25: thread: pthread_create starts a thread"),
        ("killed", r"bad\.c:29: killed: kill ends the process"),
        ("asleep", r"asleep has no end within 2\.00 s when it is run.*: sleep"),
        ("own_code", r"own_code is ended by SIG(SEGV|BUS) when it is run.*line 33"),
        ("forbidden", r"forbidden is ended by SIG(SEGV|ILL) when it is run.*assembly in line 58"),
    ],
)
def test_what_would_end_this_process_is_one_line(count, name, said):
    if name == "forbidden" and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("assembly of x86")
    with pytest.raises(RooflabError, match=said) as caught:
        count(name, np.ones(16), 16)
    assert "\n" not in str(caught.value)


def test_a_copy_that_is_too_long_says_which_elements(count):
    with pytest.raises(RooflabError, match=r"elements 0 to 16 of b are read, which has 16 \(0 to 15\)"):
        count("too_far", np.zeros(16), np.zeros(16), 16)


def test_a_type_that_numpy_lacks_is_said(count):
    with pytest.raises(RooflabError, match=r"__int128 .*which NumPy has no type of elements for"):
        count("wide", np.zeros(4, np.int64), 2)


def test_vectors_in_an_array_that_is_not_aligned_to_them_are_counted_and_not_timed(count):
    room = np.zeros(40)
    start = (-room.ctypes.data // 8) % 4 + 1  # 8 bytes beyond a multiple of 32
    report = count("aligned", room[start : start + 16], 4, timed=True)
    assert report.complete
    assert not report.runs
    assert any("is ended by SIGSEGV: not run here" in each for each in report.warnings)


def test_a_second_call_that_goes_astray_is_said_and_ends_nothing(count):
    report = count("astray_later", np.zeros(16), 16, timed=True)
    assert report.complete
    assert not report.runs
    said = next(each for each in report.warnings if "called again" in each)
    assert (
        "called again and again on what the last call left it is ended by SIGSEGV, where a first call does not"
        in said
    )


def test_a_loop_behind_a_pointer_to_a_function_is_counted(count):
    assert count("through", np.ones(10), 10).accesses == 10


def test_a_copy_brings_its_result_its_error_or_how_it_ended():
    assert rehearsal.brought(lambda: [1, 2], 5.0) == ([1, 2], "")
    assert rehearsal.brought(os.abort, 5.0) == (None, "is ended by SIGABRT")
    with pytest.raises(RooflabError, match="no such"):
        rehearsal.brought(lambda: _refuse(), 5.0)


def _refuse():
    raise RooflabError("no such thing")


def test_a_rehearsal_says_how_it_ended_and_leaves_this_process():
    here = []
    assert rehearsal.ended(lambda: here.append(1), 5.0) == ""
    assert here == []
    assert rehearsal.ended(os.abort, 5.0) == "is ended by SIGABRT"
    assert rehearsal.ended(lambda: os._exit(3), 5.0) == "ends the process with code 3"
