"""What binds thirty loops of other sorts of programs, by hand from code and size, against the report.

The machine is a Zen 4 whose caches are 32 KiB, 1 MiB and 14 MiB, of six instructions a cycle and a window of 320.
Latencies: additions and products 3 cycles, a division 13 (one in 5), a root 18 (one in 6), stores handed on 6.
A bound's place is named by a part of the line.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import rooflab
from rooflab.loops.compiled.target import target_machine
from support.loops import bounds, numeric, tables
from support.loops.bounds import ISSUE, Bound

ROOT = Path(__file__).resolve().parents[2]
MACHINE = rooflab.machine(ROOT / "examples" / "zen4-guest.toml")
FILES = {"numeric": numeric, "tables": tables}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not target_machine().triple.startswith(("x86_64", "amd64")),
        reason="chains and resources are named as x86's code has them",
    ),
]


def bound(file, kernel, n, kind, names, *texts, shares=(0.0, 1.0)):
    """A bound on the lines of the kernel that hold one of the texts."""
    lines, first = inspect.getsourcelines(getattr(FILES[file], kernel))
    found = tuple(first + at for at, line in enumerate(lines) if any(text in line for text in texts))
    assert len(found) >= len(texts)
    return Bound(file, kernel, n, kind, names, found, shares)


ADD = ("additions",)
SUMS = ("additions", "products")
BOUNDS = (
    # |z|² and z² + c: a product, a difference, a sum, of real and imaginary part alike: 9 cycles for 12
    # instructions; some tens of passes a pixel, of whose ends one is missed
    bound("numeric", "julia", 128, "chain", SUMS, "a, b = a * a"),
    # the left neighbour goes through both minima, a sum, and perhaps through memory
    bound("numeric", "dtw", 256, "either", (*ADD, "fp select", "fp compare", "store to load"), "d[i, j] = c"),
    # the left neighbour is the third of six terms: four sums, a product, one more sum: 18 cycles
    bound("numeric", "sor", 128, "chain", SUMS, "r = u", "u[i, j] +="),
    # a row's sum, 3 cycles; two loads and a store of L2's data beside it take 1 to 2
    bound("numeric", "integral_image", 128, "chain", ADD, "row +="),
    # a row: 11 terms of 9 instructions (places may be negative), and some 25 around: 125, 21 cycles. Its sums
    # take 33, but the window holds two rows and a half, whose sums begin with 0 each
    bound("numeric", "banded_mv", 4096, "units", ISSUE, "t = 0.0", "for j in range(k)", "t += ab", "y[i] = t"),
    # a division, 5 cycles; 25 to 28 instructions are as long within a tenth
    bound(
        "numeric", "deposit", 8192, "units", ("division", *ISSUE), "s = pos", "i = int", "grid[i]", "grid[i + 1]"
    ),
    # 40 divisions a row, of 5 cycles; 5 sums of 8 terms take 120 and begin anew; exp 5 times 13 and more
    bound("numeric", "gmm_estep", 4096, "units", ("division",), "s -= 0.5"),
    # 64 terms, 3 cycles each, of which little more than one row lies in the window; what follows works on vectors
    bound("numeric", "attention_row", 512, "chain", ADD, "a += q"),
    # p1 through a product, a difference and the division: 19 cycles a step, two numbers beside each other in the
    # window; 15 instructions and a division take less
    bound("numeric", "legendre", 4096, "chain", (*SUMS, "divide fp64"), "p0, p1 = p1"),
    # two columns: 512 lines 4 KiB apart share 32 sets of L2, of 8 ways each: half of them comes from L3
    bound("numeric", "jacobi_rot", 512, "level", ("L3",)),
    # sums of 128 terms in L1, 3 cycles each
    bound("numeric", "pcovariance", 128, "chain", ADD, "s += (x"),
    # three shifts, three exclusive ors: 6 cycles, of 15 instructions; the count is a sum of a comparison
    bound("numeric", "pmc", 1024, "either", ("integer", "integer shift"), "s ^= s"),
    # two sines and two cosines against one arc sine; the root and 20 instructions are less
    bound("numeric", "haversine", 4096, "calls", ("sin", "cos"), "h = math"),
    # erf takes a polynomial of ten terms and an exponential; a logarithm, three divisions and a root take less
    bound("numeric", "pblack", 4096, "calls", ("erf",), "math.erf"),
    # each step waits for sin and cos of the last, a product, differences and the division
    bound(
        "numeric",
        "kepler",
        2048,
        "either",
        ("sin", "cos", *SUMS, "divide fp64", "store to load", "calls of sin", "calls of cos"),
        "d = (e",
    ),
    # two tangents, each an exponential and a division at least, and three exponentials
    bound("numeric", "lstm_cell", 64, "calls", ("tanh",), "math.tanh"),
    # 3.9 · x beside 1 - x, 3 cycles, then their product
    bound("numeric", "p_logistic_map", 64, "either", SUMS, "x = 3.9"),
    # 768 terms in a row, 3 cycles each; the scaling works on vectors
    bound("numeric", "p_l2rows", 64, "chain", ADD, "s += x[i, j]"),
    # a complex sum, 3 cycles a term, of four products, four sums, three loads and steps: 17 instructions
    bound("numeric", "p_channelize", 4096, "either", (*ADD, *ISSUE), "acc += iq"),
    # 72 terms, 3 cycles each: 216, of some 250 instructions
    bound("numeric", "p_conv_relu", 1024, "chain", ADD, "s += w"),
    # v through four sections, a product and a sum each: 24 cycles; or a section's state through w back into
    # itself: two sums, a product, a difference, and memory: 15 to 18
    bound("numeric", "biquads", 8192, "either", (*SUMS, "store to load"), "w = sos", "state[s, 0] ="),
    # b waits for its own remainder, as a does: a sum, a product, shifts, a difference
    bound(
        "tables",
        "adler",
        65536,
        "either",
        ("remainder of a constant", "division by a constant", "integer multiply", "integer", "integer shift"),
        "a = (a",
        "b = (b",
    ),
    # two lines at random of 480 KB, brought from L2 and back: 8 cycles; 14 instructions
    bound("tables", "groupby_sum", 262144, "level", ("L2",)),
    # the last one kept is the number before: as often larger as smaller; one is thrown out an element. Half a
    # million numbers are more than a predictor learns by heart, here and below
    bound("tables", "slide_min", 1 << 19, "branch", (), "while t > h", shares=(0.2, 0.55)),
    # one letter in four
    bound("tables", "find_word", 1 << 19, "branch", (), "while j < m", shares=(0.18, 0.32)),
    # 38 % lie above, of which four of five are larger than the one before
    bound("tables", "peaks", 1 << 19, "branch", (), "if x[i] > thr", shares=(0.2, 0.42)),
    # three loads, four look-ups, four stores, shifts and masks, places that may be negative: 35 instructions and
    # more
    bound("tables", "base64", 65536, "units", ISSUE, "v = (np", "out[k"),
    # which half is next: a coin
    bound("tables", "inversions", 16384, "branch", (), "if a[i] <= a[j]", shares=(0.35, 0.55)),
    # m: a difference, a product, a sum, 9 cycles; of v a sum and a product, 6; one branch in fifty is missed at
    # most
    bound("tables", "p_ewm", 768, "chain", SUMS, "d = x - m", "m += alpha"),
    # three divisions and a root for each number: 21 cycles; s takes two sums, 6
    bound("tables", "rolling_z", 16384, "units", ("division",), "mu = s", "var = ss", "out[i] = (price"),
)


@pytest.mark.parametrize("bound", BOUNDS, ids=[each.kernel for each in BOUNDS])
def test_a_kernel_is_bound_by_what_follows_by_hand(bound):
    held = FILES[bound.file]
    args = getattr(held, f"{bound.kernel}_args")(bound.n)
    report = rooflab.loop(getattr(held, bound.kernel), *args, machine=MACHINE, advise=False)
    bounds.check(bound, bounds.predicted(report, MACHINE))
