"""JAX functions as graphs: counts by hand beside each row. Nothing is computed."""

from __future__ import annotations

import math

import pytest

import rooflab
from rooflab.errors import MissingExtraError, RooflabError, UnknownNameError
from rooflab.types.work import Graph
from rooflab.work import vocabulary
from rooflab.work.capture.jax import capture
from rooflab.work.capture.jax.recipes import RECIPES
from rooflab.work.capture.jax.walk import RULES
from rooflab.work.costs import costs, uncosted
from rooflab.work.formulas import kinds

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
lax = jax.lax


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


def i32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def flop(graph: Graph, *of: str) -> float:
    """FLOP of all operations, or of those of the kinds named."""
    pairs = zip(graph.ops, costs(graph), strict=True)
    return sum(op.count * cost.total_flop for op, cost in pairs if cost is not None and (not of or op.kind in of))


def nbytes(graph: Graph) -> float:
    """Compulsory bytes of all operations."""
    pairs = zip(graph.ops, costs(graph), strict=True)
    return sum(op.count * cost.compulsory.nbytes for op, cost in pairs if cost is not None)


def kind_names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if op.kind != "view"]


def attention(q, k, v):
    return jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), axis=-1) @ v.transpose(0, 2, 1, 3)


FLOP = [
    # 2·64³
    ("matmul", lambda a, b: a @ b, (bf16(64, 64), bf16(64, 64)), 2 * 64**3),
    # 2·k, and 2·m·k
    ("dot", jnp.dot, (f32(100), f32(100)), 200),
    ("matrix and vector", jnp.dot, (f32(30, 100), f32(100)), 2 * 30 * 100),
    # one product of a complex multiply-add: 8 real FLOP
    ("complex", jnp.dot, (jax.ShapeDtypeStruct((64, 64), jnp.complex64),) * 2, 2_097_152),
    # 3 batches of (4, 5) · (5, 6)
    ("batched", jnp.matmul, (f32(3, 4, 5), f32(3, 5, 6)), 3 * 2 * 4 * 5 * 6),
    ("vmap equals batched", jax.vmap(jnp.dot), (f32(3, 4, 5), f32(3, 5, 6)), 3 * 2 * 4 * 5 * 6),
    # one operand without the mapped dimension
    ("vmap of one side", jax.vmap(jnp.dot, (0, None)), (f32(3, 4, 5), f32(5, 6)), 3 * 2 * 4 * 5 * 6),
    # a contraction of two dimensions at once: 2·(i·l)·(j·k)
    ("einsum", lambda a, b: jnp.einsum("ijk,jkl->il", a, b), (f32(2, 3, 4), f32(3, 4, 5)), 2 * 2 * 5 * 12),
    # three operands, left to right: 2·2·3·4 + 2·2·4·5
    (
        "einsum of three",
        lambda a, b, c: jnp.einsum("ij,jk,kl->il", a, b, c, optimize=False),
        (f32(2, 3), f32(3, 4), f32(4, 5)),
        2 * 2 * 3 * 4 + 2 * 2 * 4 * 5,
    ),
    # scores and values: 2 products of b·h·q·k·d multiply-adds
    ("attention", attention, (f32(2, 8, 3, 4),) * 3, 2 * 2 * 2 * 3 * 8 * 8 * 4),
    # rows of all groups: 8·4·5 multiply-adds, whatever the groups' sizes
    ("ragged", lax.ragged_dot, (f32(8, 4), f32(3, 4, 5), i32(3)), 2 * 8 * 4 * 5),
]


@pytest.mark.parametrize(("fn", "args", "expected"), [row[1:] for row in FLOP], ids=[row[0] for row in FLOP])
def test_products_count_two_flop_a_multiply_add(fn, args, expected):
    graph = capture(fn, args)
    assert flop(graph, "matmul", "grouped_matmul") == expected
    assert uncosted(graph) == {}
    assert graph.unknown == ()
    # compiled or not is the same work
    assert flop(capture(jax.jit(fn), args)) == flop(graph)


def convolution(stride, padding, groups=1):
    def fn(x, w):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, w, (stride, stride), padding, dimension_numbers=numbers, feature_group_count=groups
        )

    return fn


# name, function, x, w, forward multiply-adds
CONVOLUTIONS = [
    # 2·4·4·6 outputs of 2 channels · 9 taps
    ("strided, 2 groups", convolution(2, "SAME", 2), f32(2, 8, 8, 4), f32(3, 3, 2, 6), 2 * 16 * 6 * 2 * 9),
    # 2·6·6·6 outputs of 4·9
    ("unpadded", convolution(1, "VALID"), f32(2, 8, 8, 4), f32(3, 3, 4, 6), 2 * 36 * 6 * 4 * 9),
    # depthwise: one channel each
    ("depthwise", convolution(1, "SAME", 4), f32(1, 5, 5, 4), f32(3, 3, 1, 4), 25 * 4 * 9),
]


@pytest.mark.parametrize("row", CONVOLUTIONS, ids=[row[0] for row in CONVOLUTIONS])
def test_convolutions_and_their_gradients(row):
    _, fn, x, w, fma = row
    assert flop(capture(fn, (x, w)), "conv") == 2 * fma
    # two convolutions of the forward size; the sum's forward is dead
    both = capture(jax.grad(lambda x, w: fn(x, w).sum(), (0, 1)), (x, w))
    assert flop(both, "conv") == 2 * 2 * fma
    assert {op.phase for op in both.ops if op.kind == "conv"} == {"backward"}


def test_a_transposed_convolution_multiplies_no_zeros():
    # every input element meets 6 channels · 9 taps: 2·8·8·4 · 54
    graph = capture(lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (f32(2, 8, 8, 4), f32(3, 3, 4, 6)))
    assert flop(graph, "conv") == 2 * 2 * 64 * 4 * 6 * 9


def test_bytes_are_those_before_a_backend_widens_them():
    # D11: three 64 × 64 matrices of 2 bytes
    assert nbytes(capture(lambda a, b: a @ b, (bf16(64, 64), bf16(64, 64)))) == 3 * 64 * 64 * 2 == 24_576


@pytest.mark.parametrize("n", range(1, 10))
def test_case_a10_squeezed_product_with_bias(n):
    def fn(inputs, kernel, bias):
        return jnp.squeeze(inputs[..., None, :] @ kernel, -2) + bias

    graph = capture(jax.jit(fn), (f32(n, 73), f32(73, 256), f32(256)))
    assert flop(graph, "matmul") == 37_376 * n  # 2·73·256
    assert flop(graph) == 37_376 * n + 256 * n


def stack(after):
    def layers(params, x):
        def layer(x, weights):
            return after(after(x @ weights[0]) @ weights[1]), None

        return lax.scan(jax.checkpoint(layer), x, params)[0]

    return layers


def test_case_a11_a_scan_of_24_recomputed_layers():
    # 24·800 weights, 8 rows: 2·8·19,200 forward, twice that backward, and once more for the recomputation
    weights = (f32(24, 10, 40), f32(24, 40, 10))
    assert flop(capture(stack(jnp.tanh), (weights, f32(8, 10))), "matmul") == 307_200
    graph = capture(stack(jnp.tanh), (weights, f32(8, 10)), backward=True)
    assert flop(graph, "matmul") == 921_600 + 307_200
    # without activations the second product is recomputed for nothing, and JAX drops it
    linear = capture(stack(lambda x: x), (weights, f32(8, 10)), backward=True)
    assert flop(linear, "matmul") == 921_600 + 307_200 / 2
    assert {op.count for op in linear.ops if op.kind == "matmul"} == {24}


def test_case_a12_a_thousand_trips_over_four_arrays():
    def fn(x, y, z, w):
        return lax.fori_loop(0, 1000, lambda i, x: x + y + z + w, x)

    graph = capture(fn, (f32(1000, 1000),) * 4)
    assert flop(graph) == 3.0e9
    # what must cross at least: 4 arrays in, 1 out
    read = {graph.tensors[i].storage for op in graph.ops for i in op.inputs}
    made = {graph.tensors[i].storage for op in graph.ops for i in op.outputs}
    sizes = {spec.storage: spec.nbytes for spec in graph.tensors}
    given = {spec.storage for spec in graph.tensors if spec.role == "input"}
    assert sum(sizes[one] for one in (read & given) | (made - read)) == 2.0e7


def mlp(params, x):
    for weights, bias in params:
        x = jax.nn.relu(x @ weights + bias)
    return x


def test_the_gradient_of_an_mlp_is_two_products_for_each_but_the_first_inputs():
    shapes = ((f32(8, 16), f32(16)), (f32(16, 4), f32(4)))
    first, second = 2 * 32 * 8 * 16, 2 * 32 * 16 * 4
    forward = capture(mlp, (shapes, f32(32, 8)))
    assert flop(forward, "matmul") == first + second
    graph = capture(mlp, (shapes, f32(32, 8)), backward=True)
    assert flop(graph, "matmul") == 3 * (first + second) - first
    assert [op.phase for op in graph.ops if op.kind == "matmul"] == ["forward"] * 2 + ["backward"] * 3
    names = sorted(spec.name for spec in graph.tensors if spec.role == "gradient")
    assert names == ["params.0.0", "params.0.1", "params.1.0", "params.1.1"]
    assert "backward: gradients of params.0.0, params.0.1, params.1.0, params.1.1" in graph.conventions[-1]
    parameters = [spec.name for spec in graph.held("parameter")]
    assert parameters == names


def test_gradients_without_parameters_are_of_all_floating_inputs():
    graph = capture(lambda x, y, i: (x @ y)[i], (f32(4, 5), f32(5, 6), i32(2)), backward=True)
    assert flop(graph, "matmul") == 3 * 2 * 4 * 5 * 6
    assert "backward: gradients of x, y, of the sum of the results" in graph.conventions


def test_gradients_of_closed_over_arrays():
    weights = jnp.ones((5, 6))
    graph = capture(lambda x: x @ weights, (f32(4, 5),), backward=True)
    # the product forward, and the gradient of the weights alone
    assert flop(graph, "matmul") == 2 * 2 * 4 * 5 * 6
    assert [(spec.name, spec.shape) for spec in graph.held("parameter")] == [("weights", (5, 6))]
    assert [spec.role for spec in capture(lambda x: x @ weights, (f32(4, 5),)).tensors][:1] == ["input"]


def test_a_jaxs_own_gradient_needs_no_setting():
    graph = capture(jax.grad(lambda w, x: jnp.tanh(x @ w).sum()), (f32(5, 6), f32(4, 5)))
    assert flop(graph, "matmul") == 2 * 2 * 4 * 5 * 6
    assert {op.phase for op in graph.ops if op.kind == "matmul"} == {"forward", "backward"}


def test_custom_derivatives_leave_no_dead_work():
    @jax.custom_vjp
    def product(x, w):
        return x @ w

    product.defvjp(lambda x, w: (product(x, w), (x, w)), lambda kept, g: (g @ kept[1].T, kept[0].T @ g))
    one = 2 * 4 * 5 * 6
    assert flop(capture(product, (f32(4, 5), f32(5, 6))), "matmul") == one
    grad = jax.grad(lambda x, w: product(x, w).sum(), (0, 1))
    assert flop(capture(grad, (f32(4, 5), f32(5, 6))), "matmul") == 2 * one  # the forward result is not used


def power(x, n):
    return lax.fori_loop(0, n, lambda i, x: x @ x, x)


def converge(x):
    return lax.while_loop(lambda x: jnp.abs(x).max() > 1, lambda x: x @ x, x)


@pytest.mark.slow
def test_a_loop_whose_trips_depend_on_data_is_counted_once_and_said_so():
    graph = capture(converge, (f32(8, 8),))
    assert flop(graph, "matmul") == 2 * 8**3
    (unknown,) = graph.unknown
    line = converge.__code__.co_firstlineno + 1
    assert unknown == (
        f"while at {__file__}:{line}: trip count not given, counted once; give it as trips={{'while 1': N}}"
    )


@pytest.mark.parametrize("name", ["while 1", "1", "newton", "test_jax.py:{line}"])
def test_trips_are_given_by_name(name):
    def fn(x):
        with jax.named_scope("newton"):
            return converge(x)

    name = name.format(line=converge.__code__.co_firstlineno + 1)
    graph = capture(fn, (f32(8, 8),), trips={name: 7})
    assert flop(graph, "matmul") == 7 * 2 * 8**3
    assert graph.unknown == ()
    # the test runs once more than the body
    assert {op.count for op in graph.ops if op.name == "reduce_max"} == {8}


def test_trips_of_a_loop_that_is_not_there():
    with pytest.raises(UnknownNameError, match=r"unknown while loop 'while 2'; did you mean while 1"):
        capture(converge, (f32(8, 8),), trips={"while 2": 3})


COUNTERS = [
    # start, test, step, trips
    ("upwards", 0, lambda i: i < 5, lambda i: i + 1, 5),
    ("inclusive", 1, lambda i: i <= 9, lambda i: i + 2, 5),  # 1 3 5 7 9
    ("downwards", 10, lambda i: i > 0, lambda i: i - 3, 4),  # 10 7 4 1
    ("bound first", 0, lambda i: jnp.greater(6, i), lambda i: 2 + i, 3),
    ("never", 5, lambda i: i < 5, lambda i: i + 1, 0),
    ("not equal", 0, lambda i: i != 4, lambda i: i + 1, 4),
]


@pytest.mark.parametrize("row", COUNTERS, ids=[row[0] for row in COUNTERS])
def test_counters_are_followed(row):
    _, start, test, step, trips = row

    def fn(x):
        return lax.while_loop(lambda s: test(s[0]), lambda s: (step(s[0]), s[1] @ s[1]), (start, x))

    graph = capture(fn, (f32(8, 8),))
    assert flop(graph, "matmul") == trips * 2 * 8**3
    assert graph.unknown == ()


def test_a_counter_that_runs_away_is_not_believed():
    def fn(x):
        return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] + 1, s[1] @ s[1]), (1, x))

    assert len(capture(fn, (f32(8, 8),)).unknown) == 1


def test_a_bound_given_as_a_number_is_known_and_one_given_as_an_array_is_not():
    assert flop(capture(power, (f32(8, 8), 5)), "matmul") == 5 * 2 * 8**3
    assert flop(capture(jax.jit(power), (f32(8, 8), 5)), "matmul") == 5 * 2 * 8**3
    assert len(capture(power, (f32(8, 8), i32())).unknown) == 1


def test_loops_inside_loops_multiply():
    def fn(x):
        return lax.scan(lambda x, _: (power(x, 3), None), x, None, length=4)[0]

    assert flop(capture(fn, (f32(8, 8),)), "matmul") == 12 * 2 * 8**3


def test_the_costliest_branch_counts_and_the_others_are_stated():
    def fn(p, x):
        return lax.cond(p, lambda x: x @ x, lambda x: x + 1, x)

    graph = capture(fn, (jax.ShapeDtypeStruct((), jnp.bool_), f32(8, 8)))
    assert [(op.name, op.count, op.branch) for op in graph.ops if op.branch] == [
        ("add", 0, "cond 1 of 2"),
        ("dot_general", 1, "cond 2 of 2"),
    ]
    assert flop(graph) == 2 * 8**3
    assert any(line.startswith("cond: the costliest branch counts") for line in graph.conventions)
    # a branch that is known is the one that runs
    assert flop(capture(fn, (False, f32(8, 8)))) == 64
    # of branches by platform the one for this one counts, else the default
    assert jax.default_backend() == "cpu"

    def by_platform(x, **others):
        return lax.platform_dependent(x, cuda=lambda x: x @ x, **others)

    graph = capture(lambda x: by_platform(x, cpu=lambda x: x + 1, default=lambda x: x @ x), (f32(8, 8),))
    assert flop(graph) == 64
    assert flop(capture(lambda x: by_platform(x, default=lambda x: x * 2), (f32(8, 8),))) == 64
    # all branches run where vmap makes a selection of them
    many = jax.vmap(fn)
    graph = capture(many, (jax.ShapeDtypeStruct((3,), jnp.bool_), f32(3, 8, 8)))
    assert flop(graph) == 3 * (2 * 8**3 + 64)


def test_scopes_lines_and_roles():
    def encoder(params, x):
        with jax.named_scope("encoder"), jax.named_scope("layer.0"):
            return jax.jit(lambda x: jnp.tanh(x @ params["w"]))(x)

    graph = capture(encoder, ({"w": f32(4, 4)}, f32(2, 4)))
    assert {op.module for op in graph.ops} == {"encoder.layer.0"}
    assert {op.where for op in graph.ops} == {f"{__file__}:{encoder.__code__.co_firstlineno + 2}"}
    assert [(spec.name, spec.role) for spec in graph.tensors[:2]] == [("params.w", "parameter"), ("x", "input")]


def test_what_xla_reads_where_it_is_used_has_no_bytes():
    # a bias broadcast, a transposed operand, a mask from counters: operands and result of each product once
    def fn(x, w, b):
        return x @ w.T + b

    # 8·4 + 6·4 + 8·6 floats, then 8·6 read, 6 of the bias, 8·6 written
    assert nbytes(capture(fn, (f32(8, 4), f32(6, 4), f32(6)))) == 4 * (32 + 24 + 48 + 48 + 6 + 48)


RESULTS = [
    ("transposed", lambda x: x.T, 2 * 32 * 4),  # read and written
    ("one row", lambda x: x[0], 2 * 4 * 4),
    ("broadcast", lambda x: jnp.broadcast_to(x, (3, 8, 4)), 32 * 4 + 96 * 4),
    ("constant", lambda x: jnp.zeros((5,)), 20),
    ("counter", lambda x: jnp.arange(5), 20),
    ("reshaped", lambda x: x.reshape(4, 8), 0),
    ("unchanged", lambda x: x, 0),
    # the product is written in the order it is wanted: two looks at one operand, one result
    ("a product transposed", lambda x: (x @ x.T).T, 4 * (32 + 64)),
    # two halves, one of them transposed: each 16 numbers of x, apart
    ("halves", lambda x: x[:4] @ x[4:].T, 4 * (16 + 16 + 16)),
]


@pytest.mark.parametrize("row", RESULTS, ids=[row[0] for row in RESULTS])
def test_results_that_must_be_written(row):
    _, fn, expected = row
    assert nbytes(capture(fn, (f32(8, 4),))) == expected


def test_an_update_is_in_place_where_nothing_else_needs_the_operand():
    def cache(cache, new):
        return lax.scan(lambda c, i: (lax.dynamic_update_slice(c, new, (i, 0)), None), cache, jnp.arange(8))[0]

    updates = [op for op in capture(cache, (f32(8, 4), f32(1, 4))).ops if op.kind == "scatter"]
    assert [op.attrs["in_place"] for op in updates] == [True]
    once = capture(lambda c, new: lax.dynamic_update_slice(c, new, (2, 0)), (f32(8, 4), f32(1, 4)))
    assert [op.attrs["in_place"] for op in once.ops if op.kind == "scatter"] == [False]
    # the copy of the operand: 128 read, 128 written, and the row
    assert nbytes(once) == 128 + 128 + 16


ROWS = [
    ("sort", lambda x: jnp.sort(x), "sort", {"function": "sort", "n": 8}),
    ("top_k", lambda x: lax.top_k(x, 3), "sort", {"function": "topk", "n": 8, "k": 3}),
    ("cumsum", lambda x: jnp.cumsum(x, 1), "scan", {"function": "cumsum"}),
    ("argmax", lambda x: jnp.argmax(x, -1), "reduction", {"function": "argmax"}),
    ("fft", lambda x: jnp.fft.rfft(x), "fft", {"n": (8,), "real": True, "inverse": False}),
    ("fft", lambda x: jnp.fft.ifft2(x), "fft", {"n": (4, 8), "real": False, "inverse": True}),
    ("integer_pow", lambda x: x**7, "pointwise", {"vector": 4, "special": 0}),  # x², x³, x⁶, x⁷
    ("integer_pow", lambda x: x**-3, "pointwise", {"vector": 2, "special": 1}),
    ("logistic", jax.nn.sigmoid, "pointwise", {"function": "sigmoid"}),
    ("gather", lambda x: x[jnp.array([0, 2])], "gather", {}),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]} {row[3]}" for row in ROWS])
def test_primitives_become_kinds(row):
    name, fn, kind, attrs = row
    graph = capture(fn, (f32(4, 8),))
    assert [(op.kind, dict(op.attrs)) for op in graph.ops if op.name == name] == [(kind, attrs)]
    assert uncosted(graph) == {}


def test_pooling_and_its_gradient():
    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    assert flop(capture(pool, (f32(1, 8, 8, 3),))) == 4 * 4 * 3 * 4  # a comparison per window element
    graph = capture(jax.grad(lambda x: pool(x).sum()), (f32(1, 8, 8, 3),))
    assert [op.kind for op in graph.ops if op.kind != "view"] == ["pool_backward"]


def test_factorisations_and_what_has_no_closed_form():
    graph = capture(jnp.linalg.cholesky, (f32(12, 12),))
    # potrf: n³/3 + n²/2 + n/6
    assert flop(graph, "cholesky") == pytest.approx(12**3 / 3 + 12**2 / 2 + 12 / 6)
    graph = capture(jnp.linalg.solve, (f32(12, 12), f32(12, 5)))
    # getrf: 2n³/3 − n²/2 + 5n/6, and n² for each triangle and right side
    assert flop(graph, "lu", "triangular_solve") == pytest.approx(2 * 12**3 / 3 - 72 + 10 + 2 * 12**2 * 5)
    graph = capture(jnp.linalg.qr, (f32(12, 5),))
    # geqrf, orgqr of m × n: 2mn² − 2n³/3 each, and their lower terms (LAPACK Working Note 41)
    m, n = 12, 5
    r = 2 * m * n**2 - 2 * n**3 / 3 + n**2 + m * n + 14 * n / 3
    q = 2 * m * n**2 - 2 * n**3 / 3 + 2 * n * n - n**2 + (n - m) * n - 4 * n / 3
    assert flop(graph, "qr") == pytest.approx(r + q)
    # tridiagonal form 4n³/3 and 10n³/3 for the vectors, more or less
    assert flop(capture(jnp.linalg.eigh, (f32(200, 200),)), "eigh") == pytest.approx(14 / 3 * 200**3, rel=0.02)
    assert flop(capture(jnp.linalg.svd, (f32(200, 200),)), "svd") == pytest.approx(22 * 200**3, rel=0.02)
    assert set(uncosted(capture(lax.linalg.hessenberg, (f32(4, 4),)))) == {"hessenberg"}


def test_random_numbers_are_no_flop_and_keys_are_inputs():
    graph = capture(lambda key: jax.random.bits(key, (64,)), (jax.random.key(0),))
    assert flop(graph) == 0
    assert "random_bits" in kind_names(graph)


def test_collectives_know_their_ranks():
    mesh = jax.sharding.AbstractMesh((4,), ("d",))
    spec = jax.sharding.PartitionSpec
    fn = jax.shard_map(lambda x: lax.psum(x @ x.T, "d"), mesh=mesh, in_specs=spec("d"), out_specs=spec())
    graph = capture(fn, (f32(8, 8),))
    # what one device does: its 2 rows of 8
    assert flop(graph, "matmul") == 2 * 2 * 2 * 8
    ((cost, op),) = [(c, op) for op, c in zip(graph.ops, costs(graph), strict=True) if op.kind == "collective"]
    assert (op.attrs["function"], op.attrs["ranks"]) == ("all_reduce", 4)
    assert cost is not None
    assert cost.wire_bytes == 2 * 3 / 4 * 16


def test_an_unknown_primitive_is_a_row_without_a_cost():
    graph = capture(lambda x: lax.reduce(x, 0.0, lambda a, b: a + 2 * b, (0,)), (f32(8),))
    assert [op.kind for op in graph.ops if op.name == "reduce"] == [None]
    assert uncosted(graph) == {"reduce": "not in the vocabulary"}


def needs_data(x):
    if x.sum() > 0:
        return x
    return -x


def mask(x):
    return x[x > 0]


def test_a_function_that_needs_real_data_says_where():
    line = needs_data.__code__.co_firstlineno + 1
    with pytest.raises(RooflabError, match=rf"needs_data needs real data at .*test_jax.py:{line}: a Python `if`"):
        capture(needs_data, (f32(3),))
    with pytest.raises(RooflabError, match=r"mask needs real data .*a boolean mask makes a shape depend on data"):
        capture(mask, (f32(3),))
    with pytest.raises(RooflabError, match="needs real data"):
        capture(lambda x: x * float(x.sum()), (f32(3),))


def test_a_size_that_depends_on_data():
    with pytest.raises(RooflabError, match="needs real data"):
        capture(lambda x: jnp.zeros(x.sum().astype(int)), (f32(3),))
    with pytest.raises(RooflabError, match="needs real data"):
        capture(lambda x, n: x[:n], (f32(3), i32()))
    # a Python number is one
    assert capture(lambda x, n: x[:n] + 1, (f32(3), 2)).tensors[-1].shape == (2,)


def test_a_sparse_product_meets_stored_elements_alone():
    sparse = pytest.importorskip("jax.experimental.sparse")

    def fn(data, indices, x):
        return sparse.BCOO((data, indices), shape=(8, 6)) @ x

    assert flop(capture(fn, (f32(5), i32(5, 2), f32(6, 4)))) == 2 * 5 * 4


def test_wrong_inputs_are_one_line():
    with pytest.raises(RooflabError, match=r"could not be traced with its argument.*missing 1 required") as caught:
        capture(mlp, (f32(3),))
    assert "\n" not in str(caught.value)
    with pytest.raises(RooflabError, match=r"dot could not be traced with its arguments: TypeError: .*same shape"):
        capture(jnp.dot, (f32(3, 4), f32(3, 4)))
    with pytest.raises(RooflabError, match="no result is floating-point"):
        capture(lambda i: i + 1, (i32(3),), backward=True)
    with pytest.raises(RooflabError, match="Reverse-mode differentiation"):
        capture(converge, (f32(8, 8),), backward=True)


def test_without_jax_one_line_says_what_to_install(monkeypatch):
    import importlib

    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"needs JAX: python -m pip install 'rooflab\[jax\]'"):
        capture(mlp, (f32(3),))


def test_every_row_of_the_vocabulary_can_be_counted():
    walked = {*RULES, "opaque"}
    for entry in vocabulary.load("jax").values():
        assert entry.kind in walked or entry.kind in kinds(), entry
        assert entry.recipe is None or entry.recipe in RECIPES, entry
    # what XLA's compiler knows, apart from asynchronous halves, references and vendors' wrappers
    assert len(vocabulary.load("jax")) > 200


def test_arrays_are_described_and_not_read():
    graph = capture(lambda x: x @ x, (jnp.ones((4, 4)),))
    assert graph.tensors[0].nbytes == 64
    import numpy as np

    # float64 is float32 in JAX, unless it is told otherwise
    assert capture(lambda x: x + x, (np.ones((4, 4)),)).tensors[0].dtype == "fp32"
    assert math.prod(graph.tensors[0].shape) == 16


def test_the_points_of_a_stencil_are_read_once():
    n = 64
    u = jax.ShapeDtypeStruct((n, n), jnp.float32)

    def stencil(u):
        return u[1:-1, 2:] + u[1:-1, :-2] + u[2:, 1:-1] + u[:-2, 1:-1] - 4 * u[1:-1, 1:-1]

    compiled = rooflab.analyze(stencil, u, machine="h100-sxm", mode="compiled")
    # all but the corners is touched: between the first element and the last, two of them
    assert compiled.read_bytes == 4 * (n * n - 2)
    assert compiled.write_bytes == 4 * (n - 2) ** 2

    x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    assert rooflab.analyze(lambda x: x[1:] - x[:-1], x).read_bytes == 4000
    assert rooflab.analyze(lambda x: x[::-1] + x, x).read_bytes == 4000
    assert rooflab.analyze(lambda x: x[::2] + x[1::2], x).read_bytes == 4000
    assert rooflab.analyze(lambda x: x[:500, None] + x[None, 500:], x).read_bytes == 4000
    assert rooflab.analyze(lambda x: x.reshape(10, 100)[1:] + x.reshape(10, 100)[:-1], x).read_bytes == 4000
    assert rooflab.analyze(lambda x: sum(jnp.split(x, 4)), x).rows[-1].read_bytes == 2000  # the sum, and a part
