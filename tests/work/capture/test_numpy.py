"""NumPy functions as graphs of work: what each call asks for, where arrays come from, what is not seen."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.work import counting
from rooflab.work.capture import numpy as front_end

WEIGHTS = np.full((4, 3), 0.5)
RANDOM = np.random.default_rng(1)


def rows(fn, *args, **kwargs):
    """Name, FLOP and compulsory bytes of each operation; None where there is no cost."""
    report = counting.report(front_end.capture(fn, args, kwargs), "it")
    return [
        (row.op.name, row.cost and row.cost.total_flop, row.cost and row.cost.compulsory.nbytes)
        for row in report.rows
    ]


X, Y = np.linspace(1, 2, 100), np.linspace(2, 3, 100)
M = np.ones((10, 20))
EACH = 800  # bytes of 100 numbers
SQUARE = np.ones((30, 30))


@pytest.mark.parametrize(
    ("fn", "args", "expected"),
    [
        # one multiplication each, two arrays read and one written; then a sum of 100, one number written
        (lambda a, b: (a * b).sum(), (X, Y), [("multiply", 100, 3 * EACH), ("add.reduce", 100, EACH + 8)]),
        (lambda a: a + a, (X,), [("add", 100, 2 * EACH)]),
        (lambda a: a + 1.0, (X,), [("add", 100, 2 * EACH)]),
        # in place: read and written
        (lambda a, b: np.add(a, b, out=a), (X, Y), [("add", 100, 3 * EACH)]),
        (lambda a, b: a.__iadd__(b), (X, Y), [("add", 100, 3 * EACH)]),
        # 10·11·20, one triangle; (200 + 100)·8: one matrix, read once
        (lambda m: m @ m.T, (M,), [("matmul", 2200, 1600 + 800)]),
        (lambda m: m.dot(M.T), (M,), [("dot", 4000, 2 * 1600 + 800)]),
        (lambda m: np.mean(m, axis=0), (M,), [("mean", 220, 1600 + 160)]),
        (lambda m: m.max(axis=1), (M,), [("maximum.reduce", 200, 1600 + 80)]),
        (lambda a: np.cumsum(a), (X,), [("add.accumulate", 100, 2 * EACH)]),
        (lambda a: a**2, (X,), [("square", 100, 2 * EACH)]),
        (lambda a: np.power(a, 2.5), (X,), [("power", 300, 2 * EACH)]),
        # points of a stencil: x[1:] and x[:-1] together touch x, once
        (lambda a: a[1:] - a[:-1], (X,), [("subtract", 99, EACH + 99 * 8)]),
        (lambda a: a + a[:], (X,), [("add", 100, 2 * EACH)]),
        # windows of ten are a view of 100 numbers: 91 sums of ten
        (
            lambda a: np.lib.stride_tricks.as_strided(a, (91, 10), (8, 8)).sum(1),
            (X,),
            [("add.reduce", 910, EACH + 91 * 8)],
        ),
        (lambda a: np.einsum("ii", a), (SQUARE,), [("einsum", 30, 240 + 8)]),  # the diagonal alone
        (lambda a: np.einsum("ii->i", a) + 1, (SQUARE,), [("add", 30, 240 + 240)]),  # is a view
        (lambda a: np.einsum("ij->ji", a) + 1, (SQUARE,), [("add", 900, 2 * 7200)]),
        (lambda a: np.diag(a) + 1, (SQUARE,), [("add", 30, 240 + 240)]),
        (lambda a: a.astype(np.float64, copy=False) + 1, (X,), [("add", 100, 2 * EACH)]),
        (lambda a: np.put(a, [1, 2], 3.0), (X,), [("put", 0, 16)]),
        (lambda a: np.add.at(a, [1, 2], 1.0), (X,), [("add.at", 2, 16 + 16)]),
        # views cost nothing, a copy of a transposed one does
        (lambda m: m.T[1:].reshape(-1)[::2] + 0.0, (M,), [("reshape", 0, 2 * 1520), ("add", 95, 2 * 760)]),
        (lambda a: a[a > 1.5], (X,), [("greater", 100, 900), ("ndarray[indices]", 0, 100 + 2 * 400)]),
        (lambda a: a.astype(np.float32), (X,), [("astype", 0, 800 + 400)]),
        (lambda a: np.concatenate([a, a, M[0]]), (X,), [("concatenate", 0, 800 + 160 + 1760)]),
        (lambda a: np.where(a > 1.5, a, 0.0), (X,), [("greater", 100, 900), ("where", 0, 100 + 2 * EACH)]),
        (lambda a: np.outer(a, a), (X,), [("outer", 10_000, EACH + 80_000)]),
        (lambda a: np.add.outer(a, a), (X,), [("add.outer", 10_000, EACH + 80_000)]),
        # 5·64·log₂ 64 / 2 for a real one
        (lambda a: np.fft.rfft(a[:64]), (X,), [("fft.rfft", 960, 512 + 33 * 16)]),
        (lambda a: np.sort(a), (X,), [("sort", 700, 2 * EACH)]),
        (lambda a: np.tensordot(a, a, 1), (X,), [("tensordot", 200, EACH + 8)]),
        # one loop over i, j, k: two operations each, and no product of matrices
        (lambda m: np.einsum("ij,kj->ik", m, M), (M,), [("einsum", 4000, 2 * 1600 + 800)]),
    ],
)
def test_each_call_is_an_operation_with_its_work(fn, args, expected):
    assert rows(fn, *args) == [(f"numpy.{name}", flop, nbytes) for name, flop, nbytes in expected]


class Layer:
    def __init__(self):
        self.inside = {"w": np.ones((5, 5))}

    def __call__(self, x):
        return self.inside["w"] @ (self.inside["w"] @ x)


def of_a_global(x):
    return (WEIGHTS * 2) @ x


def test_what_a_function_sees_from_outside_is_followed_and_left_as_it_was():
    assert [name for name, *_ in rows(of_a_global, np.ones(3))] == ["numpy.multiply", "numpy.matmul"]
    layer = Layer()
    assert [flop for _, flop, _ in rows(layer, np.ones(5))] == [50, 50]
    enclosed = np.ones(7)
    assert rows(lambda: enclosed * enclosed) == [("numpy.multiply", 7, 2 * 56)]
    assert {type(one) for one in (WEIGHTS, layer.inside["w"], enclosed)} == {np.ndarray}


def test_arrays_that_are_made_inside_are_followed():
    def fn():
        a = np.zeros(1000)
        a += RANDOM.random(1000)
        b = np.asarray([1.0] * 1000)
        return a * b

    names = [name.removeprefix("numpy.") for name, *_ in rows(fn)]
    assert names == ["zeros", "random.random", "add", "asarray", "multiply"]
    assert isinstance(RANDOM, np.random.Generator)
    assert np.zeros.__module__ == "numpy"  # and are NumPy's own again


def test_arguments_keep_what_they_hold():
    x = np.ones(10)

    def fill(a):
        a[:] = 7
        a[3:5] *= 2
        a[[1, 2]] = 0

    names = [name for name, *_ in rows(fill, x)]
    assert names == ["numpy.ndarray[…] =", "numpy.multiply", "numpy.ndarray[indices] ="]
    assert (x == 1).all()


def test_what_is_not_seen_lowers_coverage():
    report = rooflab.analyze(lambda a: np.apply_over_axes(np.sum, a, 0) + np.array_equiv(a, a), X)
    assert report.coverage.uncounted == {"numpy.apply_over_axes": 1, "numpy.array_equiv": 1}
    made = memoryview(bytearray(8000))
    report = rooflab.analyze(lambda a: a[0] * type(a).__base__(1000, buffer=made), X)
    assert "what made it is not seen" in report.coverage.unknown[0]
    strings = rooflab.analyze(lambda a: np.sort(a), np.array(["b", "a"]))
    assert strings.coverage.counted == 0


def test_what_a_library_in_c_writes_is_not_taken_for_zeros():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.eye(100))
    report = rooflab.analyze(lambda a: matrix @ a, X)  # its own C fills an array of numpy.zeros
    assert report.coverage.unknown == ("an array of shape (100,) that is returned: what wrote it is not seen",)
    report = rooflab.analyze(lambda a: (matrix @ a) * 2, X)
    assert "what wrote it is not seen" in report.coverage.unknown[0]

    def seen(a):
        b = np.zeros_like(a)
        b[...] = a
        b[3] = 5
        b[1:] += 1
        b *= 2
        np.multiply(b, 2, out=b)
        b.sort()
        np.random.shuffle(b)  # noqa: NPY002
        np.copyto(b, a)
        b[[1, 2]] = 7
        return np.cumsum(b, out=b)

    assert rooflab.analyze(seen, X).coverage.complete


@pytest.mark.parametrize(
    ("fn", "flop"),
    [
        (lambda m: m @ m.T, 2200),  # 10 · 11 / 2 sums of 20 products: BLAS computes one triangle
        (lambda m: np.dot(m, m.T), 2200),
        (lambda m: m.T @ m, 2 * 210 * 10),  # 20 · 21 / 2 of 10
        (lambda m: np.inner(m, m), 2200),
        (lambda m: np.tensordot(m, m, (1, 1)), 2200),
        (lambda m: np.tensordot(m, m, ([0], [0])), 2 * 210 * 10),
        (lambda m: np.einsum("ij,kj->ik", m, m, optimize=True), 2200),
        (lambda m: m[:, :5] @ m[:, :5].T, 2 * 55 * 5),
        (lambda m: m @ m.copy().T, 4000),  # another matrix
        (lambda m: m[:5] @ m[5:].T, 2 * 25 * 20),
        (lambda m: m[:, ::2] @ m[:, ::2].T, 2000),  # no matrix of BLAS
        (lambda m: m.astype(int) @ m.astype(int).T, 4000),
        (lambda m: (m + 0j) @ (m + 0j).T, 16_000 + 800),  # two arrays; an addition for each part
        (lambda m: np.einsum("ij,jk->ik", m[:, :10], m[:, :10], optimize=True), 2000),  # not transposed
    ],
)
def test_a_matrix_times_its_own_transpose_is_a_triangle(fn, flop):
    assert rooflab.analyze(fn, M).flop == flop


@pytest.mark.parametrize(
    ("fn", "attrs"),
    [
        (lambda x, m: x[m], {"runs": 3}),
        (lambda x, m: np.compress(m, x), {"rows": 6}),
        (lambda x, m: x.reshape(10, 1)[m], {"rows": 6}),
        (lambda x, m: x[np.flatnonzero(m)], {}),
    ],
)
def test_a_mask_says_what_it_picks(fn, attrs):
    mask = np.array([1, 1, 0, 1, 0, 0, 0, 1, 1, 1], dtype=bool)
    graph = rooflab.analyze(fn, np.arange(10.0), mask).graph
    assert [op.attrs for op in graph.ops if op.kind == "gather"] == [attrs]
    assert sum("count" in op.name for op in graph.ops) == 0  # nothing that only we asked for


@pytest.mark.parametrize(
    ("fn", "attrs"),
    [
        (lambda x, i: x[i], {}),  # rows
        (lambda x, i: x[:, i], {"pieces": 4 * 3, "piece": 5, "within": 6 * 5}),
        (lambda x, i: x[:, :, i], {"pieces": 4 * 6 * 3, "piece": 1, "within": 5}),
        (lambda x, i: x[i, i], {"pieces": 3, "piece": 5, "within": 4 * 6 * 5}),
        (lambda x, i: x[np.ix_(i, i)], {"pieces": 9, "piece": 5, "within": 6 * 5}),  # i stays along a row
        (lambda x, i: x[1, i], {"pieces": 3, "piece": 5, "within": 6 * 5}),
    ],
)
def test_indices_say_the_pieces_that_they_pick(fn, attrs):
    graph = rooflab.analyze(fn, np.zeros((4, 6, 5)), np.array([2, 0, 1])).graph
    assert [op.attrs for op in graph.ops if op.kind == "gather"] == [attrs]


def test_a_function_of_indices_is_counted():
    report = rooflab.analyze(lambda: np.fromfunction(lambda i, j: np.sin(i) * j, (10, 10)))
    assert report.flop == 200  # a sine and a product each


def test_a_generator_that_is_handed_on_stays_one():
    report = rooflab.analyze(lambda a: a + np.random.default_rng(np.random.default_rng(0)).normal(size=100), X)
    assert report.rows[-1].op.name == "numpy.add"
    assert report.coverage.complete


V = np.ones((50, 3))
POINTS = np.linspace(0, 3, 16)


@pytest.mark.parametrize(
    ("fn", "args", "flop"),
    [
        # mean 200 + 10, centred 200, a triangle 10·11·20, scaled 100; then √10, two quotients and a clip of 2 each
        (np.cov, (M,), 210 + 200 + 2200 + 100),
        (np.corrcoef, (M + np.eye(10, 20),), 2710 + 10 + 100 + 100 + 200),
        (np.cov, (M, None, False), 220 + 200 + 20 * 21 * 10 + 400),  # variables in columns
        (np.cross, (V, V), 50 * 9),  # two products and a difference a component
        (np.linalg.cross, (V, V), 50 * 9),
        (np.vander, (X, 4), 3 * 100),  # a product for each column but the ones
        (np.polymul, (X[:8], Y[:8]), 2 * 8 * 8),  # each coefficient by each other
        (np.convolve, (X, Y[:7]), 2 * 100 * 7),  # the same
        (lambda x, y: np.convolve(x, y, "valid"), (X, Y[:7]), 2 * 94 * 7),
        (
            lambda x, y: np.convolve(x, y, "same"),
            (X, Y[:4]),
            2 * (97 * 4 + 3 + 2 + 3),
        ),  # two ends before, one after
        (np.polyder, (X,), 99),
        # 5 comparisons, 3 FLOP a value, 15 slopes of 3; with fewer values than points each has a slope of its own
        (np.interp, (X, POINTS, POINTS), 100 * 8 + 15 * 3),
        (np.interp, (X[:10], POINTS, POINTS), 10 * (8 + 3)),
        (np.union1d, (X, X), 200 * 8),  # sorts both
        (np.fft.ihfft, (X[:64],), 960 + 33),  # that of the real transform, and 33 conjugates
        (lambda m: np.linalg.matrix_norm(m), (M,), 401),  # squares, sums, a root
        (np.linalg.vecdot, (V, V), 300),
    ],
)
def test_functions_made_of_others_are_counted_by_what_they_are_made_of(fn, args, flop):
    graph = front_end.capture(fn, args)
    report = counting.report(graph, "it")
    assert report.coverage.counted == report.coverage.ops
    assert not graph.unknown
    assert report.flop == pytest.approx(flop)


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (np.cross, (V, V[0])),
        (lambda m: np.cross(m, m, axis=0), (V.T.copy(),)),
        (lambda x: np.polyfit(x, x, 2, full=True)[0], (X,)),
        (lambda x: np.interp(x, POINTS, POINTS, period=2.0), (X,)),
        (lambda m: np.linalg.cond(m, 1), (np.eye(10),)),
        (lambda x: np.unwrap(x, period=1.0), (X,)),
    ],
)
def test_options_that_no_count_is_known_for_have_none(fn, args):
    report = counting.report(front_end.capture(fn, args), "it")
    assert report.coverage.counted < report.coverage.ops


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (np.cov, (RANDOM.random((5, 40)),)),
        (np.corrcoef, (RANDOM.random(40), RANDOM.random(40))),
        (np.cross, (RANDOM.random((50, 3)), RANDOM.random((50, 3)))),
        (np.vander, (X,)),
        (np.polyfit, (X, RANDOM.random(100), 3)),
        (np.polymul, ([1.0, 2.0], [3.0, 1.0])),
        (np.unwrap, (RANDOM.random((4, 50)) * 9,)),
        (np.interp, (RANDOM.random(100) * 3, POINTS, POINTS**2)),
        (np.histogram, (X, 50)),
        (np.fft.hfft, (X + 1j,)),
        (np.isin, (X, Y)),
        (np.piecewise, (X, [X < 1.5, X >= 1.5], [np.negative, np.sqrt])),
    ],
)
def test_functions_made_of_others_give_what_numpy_gives(fn, args):
    seen = []
    front_end.capture(lambda *each: seen.append(fn(*each)), args)
    mine, numpys = (one if isinstance(one, tuple) else (one,) for one in (seen[0], fn(*args)))
    for one, other in zip(mine, numpys, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)


def test_results_are_those_of_numpy():
    def fn(a, m):
        parts = (np.percentile(a, 30), np.median(m, axis=0), np.gradient(a), np.kron(m, m)[0], np.pad(a, 2))
        return np.concatenate([np.ravel(one) for one in parts]).sum()

    seen = []
    front_end.capture(lambda: seen.append(float(fn(X, M))))
    assert seen == [fn(X, M)]


def test_a_generator_is_read_and_an_operation_says_its_line():
    def pieces(a):
        for _ in range(3):
            yield a + 1

    graph = front_end.capture(pieces, (X,))
    assert len(graph.ops) == 3
    assert graph.ops[0].where.startswith(f"{__file__}:")


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda a: [a[i] for i in range(len(a))], "one by one"),
        (lambda a: [a + 1 for _ in range(len(a))], "operations of NumPy, the last at"),
        (lambda a: a + np.ones(3), "failed at .*ValueError"),
        (lambda a: a.reshape(10, 10)[2:4].ravel(), "asks NumPy for no operation"),
    ],
)
def test_what_cannot_be_captured_is_one_line(fn, says, monkeypatch):
    monkeypatch.setattr("rooflab.work.capture.numpy.notes.MOST_OPERATIONS", 50)
    monkeypatch.setattr("rooflab.work.capture.numpy.notes.MOST_ELEMENTS", 50)
    with pytest.raises(RooflabError, match=says):
        front_end.capture(fn, (X,))
    assert rows(lambda a: a + 1, X)  # nothing of it is left


def test_a_function_of_another_framework_is_not_numpys():
    jnp = pytest.importorskip("jax.numpy")
    scope = {"sine": jnp.sin}
    exec("def of_jax(x): return sine(x)", scope)
    assert rooflab.analyze(scope["of_jax"], X).graph.framework == "jax"
    assert rooflab.analyze(np.sin, X).graph.framework == "numpy"


def test_it_is_predicted_as_numpy_runs_it():
    """Two calls of 2 · 8 MB read and 8 MB written take twice what `rooflab op` says of one."""
    a, b = np.ones(1_000_000), np.ones(1_000_000)
    both = rooflab.analyze(lambda x, y: (x + y) * x, a, b, machine="Xeon 8480+")
    one = rooflab.op("add", "1000000", "1000000", dtype="fp64", machine="Xeon 8480+", cache="warm")
    assert both.time_s == pytest.approx(2 * one.time_s, rel=0.2)
    assert any("run on one core of 56" in line for line in both.conventions)
    on_gpu = both.on("h100-sxm")
    assert any("as CuPy would launch it" in line for line in on_gpu.conventions)
