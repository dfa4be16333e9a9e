"""What binds loops of C and C++, by hand from code and size, against the report.

The loops and their sizes are those of benchmarks/c_kernels.py; what is below is of clang's code at -O3 for a Zen 4
whose caches are 32 KiB, 1 MiB and 14 MiB. Latencies: additions and products 3 cycles, a multiply-add 4, a division
13, a store handed on 6 and more (microarchitectures.toml).
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.c import compilers
from rooflab.loops.compiled.target import target_machine
from support.loops import bounds
from support.loops.bounds import ISSUE, Bound

ROOT = Path(__file__).resolve().parents[3]
MACHINE = rooflab.machine(ROOT / "examples" / "zen4-guest.toml")
EXAMPLES, C, CXX = "examples", "c", "cpp"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not target_machine().triple.startswith(("x86_64", "amd64")),
        reason="chains and resources are named as x86's code has them",
    ),
]

FMA = "fp multiply-add"
BOUNDS = (
    # 2 arrays of 16 MiB each
    Bound(EXAMPLES, "copy", 1 << 21, "level", ("DRAM",)),
    Bound(EXAMPLES, "triad", 1 << 21, "level", ("DRAM",)),
    # 2 arrays of 16 MiB, each once: three planes of 128 KiB lie in L2
    Bound(EXAMPLES, "stencil", 128, "level", ("DRAM",)),
    # x is 256 KiB: a line from L2, 2 cycles, for nearly each of its elements; the core takes 1 to 1.3
    Bound(EXAMPLES, "spmv", 1 << 15, "level", ("L2",)),
    # a row of C is 4 vectors, which begin with a line and to which the next k adds: 4 cycles, and the way through
    # memory
    Bound(EXAMPLES, "matmul", 192, "chain", (FMA, "store to load")),
    # each half is as likely: a coin at each step
    Bound(EXAMPLES, "search", 1 << 17, "branch", (), (66,), (0.4, 0.6)),
    # 15 steps a number, of which 8 come unrolled: 47 instructions, and chains of 60 cycles of which 6 lie beside
    Bound(EXAMPLES, "horner", 1 << 17, "either", (*ISSUE, FMA, "branches")),
    # 2 arrays of 4 MiB
    Bound(C, "saxpy", 1 << 20, "level", ("L3",)),
    # 4 cycles for 16 bytes, which memory brings in 2
    Bound(C, "dot", 1 << 20, "chain", (FMA,), (18,)),
    # five loads for a vector, four of which lie across lines; 2 MiB arrays come from L3 in less
    Bound(C, "jacobi", 512, "units", ("loads",), (27,)),
    # a number and its bin loaded, one added, stored: 1 to 1.3 cycles
    Bound(C, "histogram", 1 << 20, "units", ("stores", "loads", *ISSUE), (36,)),
    Bound(C, "prefix", 1 << 20, "chain", ("additions",), (42,)),
    # 10 loads of a butterfly, as each store may change what was read before: 5 cycles; 64 bytes of it, and two
    # lines
    # of its factors where they lie apart, come from L2 in 2 to 6
    Bound(C, "fft", 1 << 15, "units", ("loads",), (52,)),
    # a root and a division for each pair: 7.5 cycles; as sqrtf may be called (errno), what is in registers goes
    # through
    # memory beside it: 17 loads, 8.5
    Bound(C, "nbody", 1024, "units", ("division", "loads"), (66, 68)),
    # one letter of four fits: a quarter of the first comparisons is foretold wrongly
    Bound(C, "find", 1 << 20, "branch", (), (83, 84), (0.15, 0.32)),
    Bound(C, "gemv", 1024, "chain", (FMA,), (96,)),
    # stores 8 KiB apart: 1,024 lines in 16 sets of L2, of 8 ways; both arrays are 16 MiB
    Bound(C, "transpose", 1024, "level", ("L3", "DRAM")),
    # w waits for c of the element before: a multiply-add, a division, a product, perhaps through memory
    Bound(C, "thomas", 1 << 17, "either", (FMA, "divide fp64", "products", "store to load")),
    # 256 KiB at random: each step waits for L2
    Bound(C, "chase", 1 << 16, "level", ("L2",)),
    # 13 cycles and more for exp, the division 5
    Bound(C, "softmax", 512, "calls", ("exp",)),
    # moves of which none waits for another: a load, a comparison, a store, two branches, a step
    Bound(C, "sort", 2048, "units", ISSUE),
    # 1 M numbers looked at, of which 82 k are prime and surprise; 2.4 M places crossed out
    Bound(C, "sieve", 1 << 20, "units", (*ISSUE, "stores", "branches foretold wrongly")),
    # a sum and its remainder wait for those before
    Bound(C, "adler", 1 << 19, "either", ("remainder of a constant", "integer")),
    # three loads, as a store may change any: 1.5 cycles; a shorter way comes seldom, and surprises: 4 % of 25
    Bound(C, "floyd", 192, "units", ("loads", "branches foretold wrongly"), (186, 187)),
    Bound(C, "mandelbrot", 96, "either", ("products", "additions", FMA)),
    # within 1.6 of a box of 4: one in five or six, by chance, of more pairs than are learnt by heart
    Bound(C, "lj", 1 << 15, "branch", (), (216,), (0.12, 0.26)),
    # 9 loads that widen for 16 points, each a shuffle, as is what narrows their sum, and two shifts, on 2 units:
    # 13 cycles; a dozen additions have 2 more to themselves, the loads take 5
    Bound(C, "blur", 1024, "units", ("arithmetic", "shuffles", "results of a pass")),
    # t is a sum in a register, 4 cycles; y's update beside it 2
    Bound(C, "symv", 512, "chain", (FMA,)),
    # a product looked at for NaN: 19 instructions an element, the last two of them one operation, 3 cycles; 6 of
    # them load, on 2 units 3 cycles too; 64 bytes of it from L3 take 2 to 3
    Bound(C, "cmac", 1 << 16, "units", (*ISSUE, "loads")),
    # word by word: three loads, and four operations of whole numbers, 1.5 cycles each
    Bound(C, "hamming", 8192, "units", ("loads", *ISSUE)),
    # 13 operations of floating point and 7 of masks for a vector; 512 KiB from L2 take 4 cycles
    Bound(C, "advect", 1 << 15, "units", ("arithmetic", "additions", *ISSUE)),
    # 17 loads of a vector, all but one across lines, 17 multiply-adds
    Bound(CXX, "fir", 1 << 18, "units", ("loads",)),
    Bound(CXX, "variance", 1 << 16, "chain", ("additions",)),
    # in order, as nothing else was allowed: without -fopenmp-simd the pragma is a comment
    Bound(CXX, "residual", 1 << 16, "chain", (FMA,)),
    # rows of 80 in the mean, two loads and a store for a vector
    Bound(CXX, "ludec", 160, "units", ("loads", "stores", *ISSUE)),
    # two bins changed for each number, and it moved: 12 instructions
    Bound(CXX, "radix", 1 << 19, "units", ("stores", *ISSUE)),
    # three shifts and three exclusive ors, each waits for the one before
    Bound(CXX, "pi_mc", 1 << 18, "chain", ("integer", "integer shift")),
)


@cache
def benchmark():
    folder = ROOT / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("c_kernels", folder / "c_kernels.py")
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(folder))
    return made


@pytest.mark.parametrize("bound", BOUNDS, ids=[each.kernel for each in BOUNDS])
def test_a_loop_of_c_is_bound_by_what_follows_by_hand(bound):
    try:
        compilers.find(bound.file == CXX)
    except RooflabError as error:
        pytest.skip(str(error))
    held = benchmark()
    file, make = {
        EXAMPLES: (held.EXAMPLES, held.of_examples),
        C: (held.FILE, held.args),
        CXX: (held.FILE_CXX, held.args),
    }[bound.file]
    args = make(bound.n, bound.kernel)
    if bound.kernel == "matmul":
        args = [placed(each, 0) for each in args]
    report = rooflab.loop(
        f"{file}:{bound.kernel}", *args, machine=MACHINE, cflags="-O3 -march=native", advise=False
    )
    bounds.check(bound, bounds.predicted(report, MACHINE))


def placed(value, beyond):
    """An array's copy that begins so many bytes beyond the start of a line; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    room = np.zeros(value.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + beyond
    copied = room[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copied[...] = value
    return copied


def test_stores_across_lines_bind_a_product_whose_rows_begin_between_two():
    try:
        compilers.find(False)
    except RooflabError as error:
        pytest.skip(str(error))
    held = benchmark()
    args = [placed(each, 16) for each in held.of_examples(192, "matmul")]
    report = rooflab.loop(
        f"{held.EXAMPLES}:matmul", *args, machine=MACHINE, cflags="-O3 -march=native", advise=False
    )
    # a row of C is 4 vectors, each in two lines: 2 cycles for its store and 1.5 more across them, 14 for all of
    # them; the chain takes 10
    bounds.check(Bound(EXAMPLES, "matmul", 192, "units", ("stores",)), bounds.predicted(report, MACHINE))
