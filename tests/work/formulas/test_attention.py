"""Attention against loops that count: every pair, every head, every byte."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.work.formulas import cost
from rooflab.work.formulas.attention import visible_pairs

small = st.integers(1, 3)


def sees(query, key, queries, keys, *, causal=False, causal_from="top_left", window=None, window_right=None):
    """Whether a query attends to a key: written out, unlike the closed form."""
    at = query + (keys - queries if causal_from == "bottom_right" else 0)
    if window is not None and key < at - window + 1:
        return False
    if window_right is not None and not causal:
        return key <= at + window_right
    if causal or window is not None:
        return key <= at
    return True


sight = st.fixed_dictionaries(
    {},
    optional={
        "causal": st.booleans(),
        "causal_from": st.sampled_from(["top_left", "bottom_right"]),
        "window": st.integers(1, 6),
        "window_right": st.integers(0, 5),
    },
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.integers(0, 9), st.integers(0, 9), sight)
def test_pairs_are_those_counted_one_by_one(queries, keys, given_sight):
    pairs = [
        (query, key)
        for query in range(queries)
        for key in range(keys)
        if sees(query, key, queries, keys, **given_sight)
    ]
    found, keys_seen = visible_pairs(queries, keys, **given_sight)
    assert found == len(pairs)
    assert keys_seen >= len({key for _, key in pairs})
    if pairs and len({query for query, _ in pairs}) == queries:
        assert keys_seen == len({key for _, key in pairs})


@pytest.mark.parametrize(
    ("queries", "keys", "given_sight", "pairs", "keys_seen"),
    [
        (4096, 4096, {"causal": True}, 4096 * 4097 // 2, 4096),  # S(S + 1)/2
        (4096, 4096, {"causal": True, "window": 512}, 512 * 513 // 2 + 3584 * 512, 4096),  # w(w+1)/2 + (S−w)·w
        (4096, 4096, {"window": 512}, 512 * 513 // 2 + 3584 * 512, 4096),  # a window looks back
        (8, 8, {"window": 2, "window_right": 1}, 7 + 8 + 7, 8),  # one to each side and itself
        (1, 4096, {}, 4096, 4096),  # decoding
        (1, 4096, {"causal": True, "causal_from": "bottom_right"}, 4096, 4096),
        (1, 4096, {"causal": True}, 1, 1),  # top left: the first key alone
        (1, 4096, {"window": 128, "causal_from": "bottom_right"}, 128, 128),  # the cache's last 128
        (512, 4096, {"causal": True, "causal_from": "bottom_right"}, 512 * 3584 + 512 * 513 // 2, 4096),
    ],
)
def test_pairs_of_known_shapes(queries, keys, given_sight, pairs, keys_seen):
    assert visible_pairs(queries, keys, **given_sight) == (pairs, keys_seen)


def forward(tally, q, k, v, out, group, given_sight, mask=None, dropout=False):
    """Attention as one thread per query and head runs it; q's row is loaded once, its scale is k's."""
    batch, heads, queries, size = q.shape
    keys, v_size = v.shape[2:]
    for b, h, row in ((b, h, row) for b in range(batch) for h in range(heads) for row in range(queries)):
        query = [q[b, h, row, i] for i in range(size)]
        total = peak = tally.number()
        result = [tally.number() for _ in range(v_size)]
        for key in range(keys):
            if not sees(row, key, queries, keys, **given_sight):
                continue
            score = tally.number()
            for i in range(size):
                score = score + query[i] * k[b, h // group, key, i]
            if mask is not None:
                score = score + mask[row, key]
            peak = peak.larger(score)
            weight = (score - peak).exp()
            total = total + weight
            if dropout:
                weight = weight * tally.number() * tally.number()
            for i in range(v_size):
                result[i] = result[i] + weight * v[b, h // group, key, i]
        for i in range(v_size):
            out[b, h, row, i] = result[i] / total


@settings(max_examples=60)
@given(small, small, small, small, small, small, small, sight, st.booleans(), st.booleans())
def test_fused_attention_is_what_its_loops_count(
    by_hand, batch, kv_heads, group, queries, keys, size, v_size, given_sight, masked, dropout
):
    tally, heads = by_hand.Tally(), kv_heads * group
    q, k = tally.array(batch, heads, queries, size), tally.array(batch, kv_heads, keys, size)
    v, out = tally.array(batch, kv_heads, keys, v_size), tally.array(batch, heads, queries, v_size)
    mask = tally.array(queries, keys)
    forward(tally, q, k, v, out, group, given_sight, mask if masked else None, dropout)
    inputs = tuple(by_hand.spec(*array.shape) for array in (q, k, v, *((mask,) if masked else ())))
    attrs = {**given_sight, "mask": masked, "dropout": dropout}
    found = cost("attention", inputs, (by_hand.spec(*out.shape),), attrs)
    assert by_hand.flop(found, "matrix") + by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special
    assert found.accessed.read_bytes == 4 * (q.loads + k.loads + v.loads + mask.loads)
    assert found.accessed.write_bytes == 4 * out.stores
    assert found.compulsory.write_bytes == 4 * len(out.written)
    assert found.compulsory.read_bytes >= 4 * (len(q.read) + len(k.read) + len(v.read) + len(mask.read)) * 0.999


@given(small, small, small, small, small, st.booleans())
def test_unfused_attention_is_two_products_and_a_softmax(by_hand, batch, heads, queries, keys, size, dropout):
    spec = by_hand.spec
    q, kt, k = spec(batch, heads, queries, size), spec(batch, heads, size, keys), spec(batch, heads, keys, size)
    scores, out = spec(batch, heads, queries, keys), spec(batch, heads, queries, size)
    parts = [
        cost("matmul", (q, kt), (scores,), {"k": size}),
        cost("softmax", (scores,), (scores,)),
        cost("matmul", (scores, k), (out,), {"k": keys}),
    ]
    if dropout:
        mask = spec(batch, heads, queries, keys, dtype="bool")
        parts.append(cost("dropout", (scores,), (scores, mask), {"p": 0.1}))
    found = cost("attention", (q, k, k), (out,), {"fused": False, "dropout": dropout})
    assert found.total_flop == sum(part.total_flop for part in parts)
    assert found.compulsory.read_bytes == sum(part.compulsory.read_bytes for part in parts)
    assert found.compulsory.write_bytes == sum(part.compulsory.write_bytes for part in parts)
    assert found.accessed.read_bytes == sum(part.accessed.read_bytes for part in parts)
    assert found.accessed.write_bytes == sum(part.accessed.write_bytes for part in parts)


def test_unfused_computes_and_stores_what_causality_hides(by_hand):
    x = [by_hand.spec(1, 2, 16, 8)] * 3
    hidden = cost("attention", tuple(x), (x[0],), {"fused": False, "causal": True})
    full = cost("attention", tuple(x), (x[0],), {"fused": False})
    assert (hidden.flop, hidden.compulsory) == (full.flop, full.compulsory)


def backward(tally, arrays, group, given_sight):
    """Five products per visible pair, the scores computed again; dO·O once per output element."""
    grad, q, k, v, out = arrays
    batch, heads, queries, size = q.shape
    keys, v_size = v.shape[2:]
    n = tally.number
    for b, h, row in ((b, h, row) for b in range(batch) for h in range(heads) for row in range(queries)):
        delta = n()
        for i in range(v_size):
            delta = delta + grad[b, h, row, i] * out[b, h, row, i]
        for key in range(keys):
            if not sees(row, key, queries, keys, **given_sight):
                continue
            score, grad_weight = n(), n()
            for i in range(size):
                score = score + q[b, h, row, i] * k[b, h // group, key, i]
            weight = (score - n()).exp()  # minus logsumexp
            for i in range(v_size):
                n() + weight * grad[b, h, row, i]  # dv
                grad_weight = grad_weight + grad[b, h, row, i] * v[b, h // group, key, i]
            grad_score = weight * (grad_weight - delta)
            for i in range(size):
                n() + grad_score * k[b, h // group, key, i]  # dq
                n() + grad_score * q[b, h, row, i]  # dk


@settings(max_examples=40)
@given(small, small, small, small, small, small, small, sight)
def test_the_gradient_is_what_its_loops_count(
    by_hand, batch, kv_heads, group, queries, keys, size, v_size, given_sight
):
    tally, heads = by_hand.Tally(), kv_heads * group
    shapes = (
        (batch, heads, queries, v_size),
        (batch, heads, queries, size),
        (batch, kv_heads, keys, size),
        (batch, kv_heads, keys, v_size),
        (batch, heads, queries, v_size),
    )
    backward(tally, [tally.array(*shape) for shape in shapes], group, given_sight)
    inputs = tuple(by_hand.spec(*shape) for shape in shapes)
    found = cost("attention_backward", inputs, inputs[1:4], given_sight)
    assert by_hand.flop(found, "matrix") + by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special
    assert found.compulsory.write_bytes == sum(spec.nbytes for spec in inputs[1:4])


@given(small, small, small, small, small)
def test_the_unfused_gradient_is_four_products_and_softmax_s(by_hand, batch, heads, queries, keys, size):
    spec = by_hand.spec
    rows, columns = spec(batch, heads, queries, size), spec(batch, heads, keys, size)
    scores = spec(batch, heads, queries, keys)
    parts = [
        cost("matmul", (scores, rows), (columns,), {"k": queries}),  # dv
        cost("matmul", (rows, columns), (scores,), {"k": size}),  # dP
        cost("softmax_backward", (scores, spec(*scores.shape)), (scores,)),
        cost("matmul", (scores, columns), (rows,), {"k": keys}),  # dq
        cost("matmul", (scores, rows), (columns,), {"k": queries}),  # dk
    ]
    inputs = (rows, rows, columns, columns, rows)
    found = cost("attention_backward", inputs, (rows, columns, columns), {"fused": False})
    assert found.total_flop == sum(part.total_flop for part in parts)
    assert found.compulsory.read_bytes == sum(part.compulsory.read_bytes for part in parts)
    assert found.compulsory.write_bytes == sum(part.compulsory.write_bytes for part in parts)
    assert found.accessed.read_bytes == sum(part.accessed.read_bytes for part in parts)
    assert found.accessed.write_bytes == sum(part.accessed.write_bytes for part in parts)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=4), sight)
def test_sequences_of_many_lengths_are_those_alone_added(by_hand, lengths, given_sight):
    spec, heads, size = by_hand.spec, 4, 8
    queries, keys = (sum(pair[i] for pair in lengths) for i in (0, 1))
    packed = (spec(queries, heads, size), spec(keys, 2, size), spec(keys, 2, size))
    attrs = {"layout": "thd", "lengths": tuple(lengths), **given_sight}
    found = cost("attention", packed, (packed[0],), attrs)
    alone = [
        cost(
            "attention",
            (spec(1, heads, q, size), spec(1, 2, k, size), spec(1, 2, k, size)),
            (spec(1, heads, q, size),),
            given_sight,
        )
        for q, k in lengths
    ]
    assert found.total_flop == sum(one.total_flop for one in alone)
    assert found.compulsory.nbytes == pytest.approx(sum(one.compulsory.nbytes for one in alone))
    assert found.accessed.nbytes == pytest.approx(sum(one.accessed.nbytes for one in alone))


def test_a_paged_cache_is_read_where_sequences_lie_and_its_table_once(by_hand):
    spec = by_hand.spec
    cache = spec(100, 16, 8, 128, dtype="fp16")  # 100 blocks of 16 tokens
    table = spec(2, 64, dtype="int32")
    q = spec(2, 32, 128, dtype="fp16")
    attrs = {"layout": "thd", "kv_layout": "bshd", "lengths": ((1, 1000), (1, 200))}
    found = cost("attention", (q, cache, cache, table), (q,), attrs)
    assert by_hand.flop(found, "matrix") == 4 * 32 * 128 * 1200
    assert found.compulsory.read_bytes == pytest.approx(q.nbytes + 2 * 1200 * 8 * 128 * 2 + table.nbytes)
    assert found.compulsory.write_bytes == q.nbytes


def test_padding_is_not_counted_where_lengths_are_given(by_hand):
    x = by_hand.spec(2, 4, 8, 16)  # two sequences padded to 8
    found = cost("attention", (x, x, x), (x,), {"lengths": ((8, 8), (3, 3))})
    assert by_hand.flop(found, "matrix") == 4 * 4 * 16 * (64 + 9)
    assert found.compulsory.read_bytes == 3 * 4 * 16 * 11 * 4


def test_latent_attention_has_another_size_of_value(by_hand):
    spec = by_hand.spec
    q, v = spec(1, 128, 64, 192, dtype="bf16"), spec(1, 128, 64, 128, dtype="bf16")
    found = cost("attention", (q, q, v), (v,), {"causal": True})
    assert by_hand.flop(found, "matrix") == 2 * 128 * (64 * 65 // 2) * (192 + 128)
    # absorbed: one latent head of 512 + 64, its first 512 the value, read once
    q, latent, value = (spec(1, h, s, d, dtype="bf16") for h, s, d in ((128, 1, 576), (1, 64, 576), (1, 64, 512)))
    found = cost("attention", (q, latent, value), (spec(1, 128, 1, 512, dtype="bf16"),), {"v_in_k": True})
    assert found.compulsory.read_bytes == q.nbytes + latent.nbytes
    assert by_hand.flop(found, "matrix") == 2 * 128 * 64 * (576 + 512)


def test_one_tensor_given_as_several_operands_is_read_once(by_hand):
    x, other = (msgspec.structs.replace(by_hand.spec(1, 2, 8, 4), storage=number) for number in (0, 1))
    reads = {
        given: cost("attention", given, (other,), {}).compulsory.read_bytes
        for given in ((x, x, x), (other, x, x), (x, other, x))
    }
    assert list(reads.values()) == [x.nbytes, 2 * x.nbytes, 2 * x.nbytes]


def test_layouts_differ_in_name_only(by_hand):
    spec = by_hand.spec
    one = cost("attention", (spec(2, 8, 5, 4), spec(2, 2, 7, 4), spec(2, 2, 7, 4)), (spec(2, 8, 5, 4),))
    other = cost(
        "attention",
        (spec(2, 5, 8, 4), spec(2, 7, 2, 4), spec(2, 7, 2, 4)),
        (spec(2, 5, 8, 4),),
        {"layout": "bshd"},
    )
    assert one == other


def test_softmax_runs_in_fp32_and_an_additive_mask_adds(by_hand):
    spec = by_hand.spec
    x, out = spec(1, 2, 8, 16, dtype="bf16"), spec(1, 2, 8, 16, dtype="bf16")
    plain = cost("attention", (x, x, x), (out,))
    assert {(one.engine, one.dtype) for one in plain.flop} == {
        ("matrix", "bf16"),
        ("vector", "fp32"),
        ("special", "fp32"),
    }
    added = cost("attention", (x, x, x, spec(8, 8, dtype="bf16")), (out,), {"mask": True})
    chosen = cost("attention", (x, x, x, spec(8, 8, dtype="bool")), (out,), {"mask": True})
    assert by_hand.flop(added, "vector") == by_hand.flop(plain, "vector") + 2 * 64
    assert chosen.flop == plain.flop
    assert chosen.compulsory.read_bytes == plain.compulsory.read_bytes + 64


@pytest.mark.parametrize(
    ("attrs", "error", "message"),
    [
        ({"layout": "sbhd"}, UnknownNameError, "unknown layout of attention 'sbhd'; did you mean bshd"),
        ({"causal_from": "left"}, UnknownNameError, "unknown causal_from of attention 'left'"),
        ({"window": 0}, RooflabError, "window is 0, expected 1 or more"),
    ],
)
def test_attributes_it_does_not_know_are_named(by_hand, attrs, error, message):
    x = by_hand.spec(1, 2, 8, 16)
    with pytest.raises(error, match=message):
        cost("attention", (x, x, x), (x,), attrs)
