"""What binds fifty kernels as scientists write them, by hand from code and size, against the report.

The kernels lie beside the checkout, in shared/kernels; without them the tests are skipped. The machine is a Zen 4
whose caches are 32 KiB, 1 MiB and 14 MiB; latencies are those of its row in microarchitectures.toml: additions and
products 3 cycles, and the usual divisions 13 and stores handed on 6. Lines are those of the files.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import pytest

import rooflab
from rooflab.loops.compiled.target import target_machine
from support.loops import bounds
from support.loops.bounds import ISSUE, Bound

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT.parent / "shared" / "kernels"
MACHINE = rooflab.machine(ROOT / "examples" / "zen4-guest.toml")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not KERNELS.is_dir(), reason=f"the kernels are not beside the checkout: {KERNELS}"),
    pytest.mark.skipif(
        not target_machine().triple.startswith(("x86_64", "amd64")),
        reason="chains and resources are named as x86's code has them",
    ),
]


ADD = ("additions",)
IN_MEMORY = ("additions", "store to load")
ACCESSES = ("loads", "stores")
BOUNDS = (
    # each vector of C: two loads, one store, and B's row from L2 at half of what L1 gives
    Bound("poly", "gemm", 128, "units", ACCESSES, (13,)),
    # sums over k, as long as the rows: 3 cycles each, as two loads, a product and a sum take 1; columns of 32 KiB
    # lie in L1
    Bound("poly", "k2mm", 64, "chain", ADD, (26, 31)),
    # tmp[i] is a sum in a register: 3 cycles an element; the row's update beside it runs in vectors, below 1
    Bound("poly", "atax", 512, "chain", ADD, (44,)),
    # q[i] is written in each pass, as s may be q: a sum and what memory takes to hand it on, 9 cycles
    Bound("poly", "bicg", 512, "chain", IN_MEMORY, (60,)),
    # A down its columns: 512 lines 4 KiB apart share 32 sets of L2, of 8 ways each: half of them comes from L3
    Bound("poly", "mvt", 512, "level", ("L3",)),
    # A[j, k] lies 768 bytes apart for each element of a vector of C: loads one by one, and their places
    Bound("poly", "syrk", 96, "units", (*ACCESSES, *ISSUE), (85, 86)),
    # a sum over k, 3 cycles; two loads, a store as B may be what is read, two places stepped on: as long
    Bound("poly", "trmm", 96, "either", (*ADD, *ISSUE), (96, 97)),
    # dots over rows up to j: sums of 3 cycles; rows are 43 elements long in the mean
    Bound("poly", "cholesky", 128, "chain", ADD, (109,)),
    Bound("poly", "lu", 96, "chain", ADD, (125, 129)),
    # a sum over r and y backwards
    Bound("poly", "durbin", 512, "chain", ADD, (144,)),
    # down columns of 1 KiB steps: 128 lines in 4 sets of L1, of 8 ways: each access comes from L2
    Bound("poly", "gramschmidt", 128, "level", ("L2",)),
    # five loads for each vector, at one a cycle in vectors of 64 bytes; 2 MiB arrays come from L3 at half that
    Bound("poly", "jacobi2d", 512, "units", ("loads",), (180, 183)),
    # the left neighbour is the fourth of nine: six sums wait for it, and the division: 6 · 3 + 13
    Bound("poly", "seidel2d", 128, "chain", ("additions", "divide fp64"), (194, 195)),
    # six rows of 2 MiB arrays in each pass: more than L2 holds, less than L3
    Bound("poly", "fdtd2d", 512, "level", ("L3",)),
    # seven loads for each vector (three of them the same number); 2 MiB arrays
    Bound("poly", "heat3d", 64, "units", ("loads",), (225, 226)),
    # p[i, j - 1] comes back through memory into a product, a sum and the division
    Bound("poly", "adi", 128, "chain", ("products", "additions", "divide fp64", "store to load"), (244, 243)),
    # path[i, k] may be path[i, j]: scalar; three loads, a sum, a choice and a store an element
    Bound("poly", "floyd", 96, "units", (*ACCESSES, *ISSUE), (258, 259)),
    # indices that may be negative: seven operations of whole numbers for each access
    Bound("poly", "nussinov", 128, "units", ISSUE, (278, 279)),
    # a sum over s of 32 terms, C4 down a column of 8 KiB
    Bound("poly", "doitgen", 32, "chain", ADD, (292,)),
    # a power for each pair: 40 cycles and more, the rest 7
    Bound("misc", "nbody", 128, "calls", ("pow",), (12,)),
    # z goes through memory over the call of abs: two sums and a product behind it, as long as the call takes
    Bound("misc", "mandelbrot", 64, "either", ("products", *IN_MEMORY, "calls of hypot"), (31, 32)),
    # a division for each element: 5 cycles, the bins are 2 KiB
    Bound("misc", "histogram", 65536, "units", ("division",), (41, 42, 43, 44)),
    # a permutation of 4 MiB: beyond L2, within L3
    Bound("misc", "gather", 524288, "level", ("L3",)),
    Bound("misc", "scatter", 524288, "level", ("L3",)),
    # Rows of 16 elements in the mean, whose ends are learnt by heart, all 4,096; where not, a count decides them,
    # long before the sums are there. LLVM unrolls it by 8: 138 instructions for 8 elements (indices may be
    # negative), of which 12.4 a row come so; the other 3.6 take 19 each, what is around a row 22: 305 a row, 51
    # cycles at 6 a cycle. Its sums take 16 · 3 = 48, and each row's begin with 0. They wait within the 8 (24
    # cycles, 23 of instructions), but what is around enters meanwhile
    Bound("misc", "spmv", 4096, "units", ISSUE, (69, 70)),
    # nine directions unrolled: 141 operations whose sums wait for one another, and no more than two cells at once
    Bound("misc", "lbm", 64, "units", ("results of a pass", "arithmetic"), (85, 90)),
    # directions are data: 34 conversions and products of whole numbers a cell: 535 instructions
    Bound("misc", "lbm_arg", 64, "units", ISSUE, (109, 114)),
    # 10 operations, 8 accesses and 9 steps of indices for each pair: 30 instructions
    Bound("misc", "fft", 4096, "units", (*ISSUE, "stores"), (138, 139)),
    Bound("misc", "prefix", 8192, "chain", ADD, (152,)),
    # a load, a comparison, a store, two branches and a step for each place moved: none waits for another
    Bound("misc", "insertion_sort", 1024, "units", ISSUE, (162, 163)),
    # one letter in four: a quarter of the comparisons is foretold wrongly, of more than are learnt by heart
    Bound("misc", "match", 524288, "branch", (), (176,), (0.2, 0.32)),
    # sums of 72 terms in a register
    Bound("misc", "conv2d", 32, "chain", ADD, (199,)),
    # 13 cycles and more for exp, the division 5
    Bound("misc", "helper", 256, "calls", ("exp",), (207, 214)),
    Bound("misc", "softmax", 128, "calls", ("exp",), (227, 228)),
    # temporaries, then a copy, element by element with its checks
    Bound("misc", "slices", 128, "units", (*ACCESSES, *ISSUE), (238,)),
    # A call of dot for each row of 8 KiB, a view whose references are counted: 256 cycles to load both operands
    # from L1 and some 75 for its start, 6 locked changes of 7: 100 ns. A row from L3 at 95 GB/s: 86 ns.
    Bound("misc", "slicedot", 1024, "calls", ("numba_xxdot",), (245,)),
    Bound("misc", "rowsum", 256, "chain", ADD, (253,)),
    # s and s2: two chains side by side, 3 cycles each
    Bound("misc", "stats", 8192, "chain", ADD, (265, 266)),
    # a fair coin at each step
    Bound("misc", "bisection", 1 << 18, "branch", (), (282,), (0.4, 0.6)),
    # 36 bytes an element read and written: 54 MB
    Bound("misc", "struct", 1500000, "level", ("DRAM",)),
    Bound("misc", "struct2", 1500000, "level", ("DRAM",)),
    # 16 and 32 MB
    Bound("misc", "saxpy32", 4000000, "level", ("DRAM",)),
    Bound("misc", "caxpy", 1000000, "level", ("DRAM",)),
    # vectors, as LLVM knows the loop; 32 MB
    Bound("misc", "popcnt", 2000000, "level", ("DRAM",)),
    # columns of 1,024 lines, 8 KiB apart: in 16 sets of L2
    Bound("misc", "colsum", 1024, "level", ("L3",)),
    # the generator is numba's: shifts, masks and its state
    Bound("misc", "rng_pi", 20000, "units", ISSUE),
    # an object for each number of the list that is handed over
    Bound("misc", "lists", 10000, "calls", ("boxing",)),
    Bound("misc", "rowiter", 256, "chain", ADD, (370,)),
    # 3 accesses of each vector in L1 and 2 before; the matrix comes from L3 as fast as half of that
    Bound("misc", "localarr", 1024, "units", ACCESSES, (380, 382)),
    # selects in vectors; 32 MB
    Bound("misc", "nested_if", 2000000, "level", ("DRAM",)),
    # each load says where the next is: 2 MiB at random
    Bound("misc", "linked", 131072, "level", ("L3",)),
    # two loads and two stores, with the checks of four indices
    Bound("misc", "swap", 4096, "units", ("stores", *ISSUE), (421, 422)),
)


@cache
def module(file):
    spec = importlib.util.spec_from_file_location(file, KERNELS / f"{file}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def predicted(bound):
    """What binds it on that machine."""
    held = module(bound.file)
    args = getattr(held, f"{bound.kernel}_args")(bound.n)
    return bounds.predicted(
        rooflab.loop(getattr(held, bound.kernel), *args, machine=MACHINE, advise=False), MACHINE
    )


@pytest.mark.parametrize("bound", BOUNDS, ids=[each.kernel for each in BOUNDS])
def test_a_kernel_is_bound_by_what_follows_by_hand(bound):
    bounds.check(bound, predicted(bound))
