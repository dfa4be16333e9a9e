"""What binds small loops, derived by hand from the published latencies of two cores, against what is found.

Latencies in cycles (AMD's and Intel's guides, as in microarchitectures.toml): additions 3 and 4, products 3 and 4,
on Zen 4 and Skylake-SP; a store that a load finds 6, a division 13 (usual ones).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import core_loops
from rooflab.machines import microarchitecture
from rooflab.model.loop import cores, in_core

pytestmark = pytest.mark.skipif(
    not target_machine().triple.startswith(("x86_64", "amd64")),
    reason="chains are named as x86's code has them",
)
N, MANY = 2000, 1 << 19
ADD = {"Zen 4": 3.0, "Skylake-SP": 4.0}
FORWARD, DIVIDE = 6.0, 13.0  # an addition takes as long as a product on both


def filtered(x, y):
    # y[i] waits for y[i-1]: a product, and two subtractions behind it; y[i-2] is there sooner
    before = older = 0.0
    for i in range(x.shape[0]):
        value = 0.2 * x[i] - 0.4 * before - 0.2 * older
        older = before
        before = value
        y[i] = value


def averaged(x, y):
    # s waits for itself: a subtraction, a product, an addition
    s = 0.0
    for i in range(x.shape[0]):
        s = s + 0.1 * (x[i] - s)
        y[i] = s


def summed(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    y[0] = s


def in_memory(x, y):
    # y[i] may be y[0], which goes through memory therefore: an addition and a store that the next load finds
    for i in range(x.shape[0]):
        y[i] = 2.0 * x[i]
        y[0] = y[0] + x[i]


def continued(x, y):
    # a division of what the division before has given, and an addition
    s = 1.0
    for i in range(x.shape[0]):
        s = 1.0 / (s + x[i])
        y[i] = s


def hashed(x, y):
    # whole numbers: an exclusive or (1) and a product (3), whatever the core
    h = 1469598103
    for i in range(x.shape[0]):
        h = (h ^ int(x[i] > 0.5)) * 1099511627
    y[0] = h & 255


def logged(x, y):
    # a call for each element, which nothing else of the loop takes as long as
    for i in range(x.shape[0]):
        y[i] = math.log(x[i])


def circled(x, y):
    # three numbers that turn round one another: from r to the next q a difference, a product, a difference, a
    # product and a sum, from q to the next r a product, a difference, a product and a sum
    p = q = r = 1.0
    for i in range(x.shape[0]):
        dp = 10.0 * (q - p)
        dq = p * (28.0 - r) - q
        dr = p * q - 2.5 * r
        p += 0.001 * dp
        q += 0.001 * dq
        r += 0.001 * dr
        y[i] = p


def followed(x, y):
    # a table says where it is looked at next: a load at an index (6 cycles: 5, and 1 for the index), a mask
    at = 0
    for i in range(x.shape[0]):
        at = (NEXT[at] + i) & 255
    y[0] = at


def eliminated(x, y):
    # a division by what the division before has left, a product and a difference behind it
    b = 4.0
    for i in range(x.shape[0]):
        b = 4.0 - 1.5 * (x[i] / b)
        y[i] = b


def parted(x, y):
    # a fair coin at each element, on a floating-point number: half is foretold wrongly
    low, high = 0, x.shape[0] - 1
    for i in range(x.shape[0]):
        if x[i] < 1.0:
            y[low] = x[i]
            low += 1
        else:
            y[high] = x[i]
            high -= 1


def common(x, y):
    # whole numbers whose remainder waits for the one before: a division of them, and nothing else as long
    a, b = 832040, 514229
    for _ in range(x.shape[0]):
        a, b = b, a % b
        if b == 0:
            a, b = 832040, 514229
    y[0] = a


def digits(x, y):
    # a number's digits one after the other: // floors, so that the sign of what remains decides. A division by 10
    # is the upper half of a product, a shift and a sign, what remains another product and a difference: 4 + 2 + 3
    # + 1, then the sign, the correction and i: 13 cycles (a Zen 4 takes 12.2: ten times a number is two additions)
    left = 1 << 62
    for i in range(x.shape[0]):
        y[i] = left % 10
        left = left // 10 + i


def cosines(x, y):
    # a call waits for the one before: all of the way through cos
    s = 0.5
    for i in range(x.shape[0]):
        s = math.cos(s + x[i])
        y[i] = s


def powers(x, y):
    # calls that wait for nothing
    for i in range(x.shape[0]):
        y[i] = x[i] ** -1.5


NEXT = np.random.default_rng(0).permutation(256)

CASES = (
    (filtered, "a chain of products, additions", lambda add: 3 * add),
    (averaged, "a chain of additions, products", lambda add: 3 * add),
    (summed, "a chain of additions", lambda add: add),
    (in_memory, "a chain of additions, store to load", lambda add: add + FORWARD),
    (continued, "a chain of additions, divide fp64", lambda add: add + DIVIDE),
    (hashed, "a chain of integer multiply", lambda _: 1.0 + 3.0),
    (logged, "calls of log", None),
    (circled, "a chain of additions, products", lambda add: 9 * add / 2),
    (followed, "a chain of loads", None),
    (eliminated, "a chain of divide fp64, products, additions", lambda add: DIVIDE + 2 * add),
    (parted, "branches foretold wrongly", None),
    (common, "a chain of integer divide", None),
    (digits, "a chain of remainder of a constant", None),
    (cosines, "a chain of additions, cos", None),
    (powers, "calls of pow", None),
)


@pytest.fixture(scope="module")
def profiled():
    def loops(fn):
        # of branches at random more than are learnt by heart in repeated runs
        count = MANY if fn is parted else N
        return core_loops.found_in(fn, (np.random.default_rng(0).random(count) + 0.5, np.zeros(count)))

    return {fn: loops(fn) for fn, _, _ in CASES}


@pytest.mark.parametrize("core", ["Zen 4", "Skylake-SP"])
@pytest.mark.parametrize(("fn", "bound", "by_hand"), CASES, ids=[fn.__name__ for fn, _, _ in CASES])
def test_what_binds_a_loop_is_what_follows_by_hand(profiled, core, fn, bound, by_hand):
    row = microarchitecture.named(core)
    timing = cores.with_room_of(row, cores.of_microarchitecture(row, 0.3e-9))
    cycles = in_core.of_loops(profiled[fn], timing)
    longest = max(cycles, key=lambda each: each.total)
    assert longest.why.startswith(bound)
    if bound.startswith("branches"):
        assert longest.loop.missed_share == pytest.approx(0.5, abs=0.05)
    if by_hand is not None:
        assert sum(each.total for each in cycles) / N == pytest.approx(by_hand(ADD[core]), rel=0.1)
