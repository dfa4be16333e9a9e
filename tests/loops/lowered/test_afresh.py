"""Helpers wherever they stand: counted as they are written, and still the user's own afterwards."""

from __future__ import annotations

import subprocess
import sys

import numba
import numpy as np
import pytest

import rooflab
from rooflab.types.simulation import Cache
from support.loops import helpers
from support.loops.helpers import Walker, plain

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
N = 64


def of_a_module(a):
    s = 0.0
    for v in a:
        s += helpers.squared(v)
    return s


def plain_of_a_module(a):
    s = 0.0
    for v in a:
        s += helpers.plain(v)
    return s


def imported(a):
    s = 0.0
    for v in a:
        s += plain(v)
    return s


def kept_on_disk(a):
    s = 0.0
    for v in a:
        s += helpers.kept(v)
    return s


def around():
    @numba.njit
    def inner(x):
        return x * x + 2.0

    def outer(x):
        return inner(x) * 2.0

    def loop(a):
        s = 0.0
        for v in a:
            s += outer(v)
        return s

    return loop


def universal(a):
    return helpers.each(a).sum()


def walked(a):
    one = Walker(1.0)
    for v in a:
        one.step(v)
    return one.at


@pytest.fixture
def numbers():
    return np.linspace(0.0, 1.0, N)  # half of them above 0.5


# FLOP of an element with the sum that it is added to. squared: 3. plain: one more. outer: 2, doubled.
# each: a comparison; 3 for the upper half. step: 2.
@pytest.mark.parametrize(
    ("function", "flop"),
    [
        (of_a_module, 4 * N),
        (plain_of_a_module, 5 * N),
        (imported, 5 * N),
        (kept_on_disk, 2 * N),
        (around(), 4 * N),
        (universal, 2 * N + 3 * N // 2),
        (walked, 2 * N),
    ],
)
def test_helpers_are_counted_wherever_they_stand(function, flop, numbers):
    report = rooflab.loop(function, numbers, levels=CACHES)
    assert report.flop == flop
    assert report.checks[-1] == "plain Python gives the counted run's results"


def test_what_was_compiled_before_is_counted_as_it_is_written(numbers):
    """An optimised helper saves one addition: it is the written one that counts."""
    assert helpers.squared(2.0) == 9.0
    assert helpers.each(numbers).sum() > 0
    assert rooflab.loop(of_a_module, numbers, levels=CACHES).flop == 4 * N
    assert rooflab.loop(universal, numbers, levels=CACHES).flop == 2 * N + 3 * N // 2


def test_what_the_user_has_is_called_as_before(numbers):
    """Nothing that was compiled for counting alone is left behind in it: neither called, nor kept on disk."""
    fresh = numba.vectorize(lambda x: x * 2.0)

    def doubled(a):
        return fresh(a).sum()

    for function in (doubled, of_a_module, kept_on_disk, universal, walked):
        rooflab.loop(function, numbers, levels=CACHES, timed=False)
    assert fresh(numbers).sum() == pytest.approx(2 * numbers.sum())
    assert [helpers.squared(2.0), helpers.kept(2.0), helpers.plain(2.0)] == [9.0, 6.0, 8.0]
    assert helpers.each(np.array([0.0, 1.0])).tolist() == [0.0, 4.0]
    one = Walker(1.0)
    one.step(1.0)
    assert one.at == 1.5


def test_a_process_that_has_compiled_nothing_knows_what_numba_has():
    asks = (
        "import numpy as np\n"
        "from rooflab.loops.lowered import afresh\n"
        "def filled(n):\n"
        "    return np.full(n, np.inf)\n"
        "print(afresh.with_helpers(filled).__globals__['np'] is np)\n"
    )
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("True", "")
