"""Attention in ONNX and ONNX Runtime's operators: FLOP by query heads, bytes by heads of keys and values."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node
MS = "com.microsoft"
INT32 = onnx.TensorProto.INT32


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def attention_of(graph):
    (op,) = [one for one in graph.ops if one.kind == "attention"]
    return op


@pytest.mark.parametrize(
    ("attrs", "inputs", "expected"),
    [
        # two products of 128 × 128 × 16 in each of 4 heads
        ({}, {"q": [1, 4, 128, 16], "k": [1, 4, 128, 16], "v": [1, 4, 128, 16]}, 2_097_152),
        # the same, heads inside the last dimension
        (
            {"q_num_heads": 4, "kv_num_heads": 4},
            {"q": [1, 128, 64], "k": [1, 128, 64], "v": [1, 128, 64]},
            2_097_152,
        ),
        # causal, exactly: 128 · 129 / 2 pairs
        (
            {"is_causal": 1},
            {"q": [1, 4, 128, 16], "k": [1, 4, 128, 16], "v": [1, 4, 128, 16]},
            2 * 4 * 16 * 128 * 129 // 2,
        ),
        # 8 query heads share 2 of keys and values; 64 keys
        ({}, {"q": [2, 8, 32, 16], "k": [2, 2, 64, 16], "v": [2, 2, 64, 16]}, 2 * 2 * 8 * 32 * 64 * 16),
    ],
)
def test_attention_of_onnx_counts_its_visible_pairs(counted, multiply_adds, attrs, inputs, expected):
    graph = counted([node("Attention", ["q", "k", "v"], ["y"], **attrs)], inputs, opset=23)
    assert multiply_adds(graph) == expected


def test_onnx_attention_reads_keys_and_values_once_a_group(counted, moved):
    shapes = {"q": [2, 8, 32, 16], "k": [2, 2, 64, 16], "v": [2, 2, 64, 16]}
    graph = counted([node("Attention", ["q", "k", "v"], ["y"])], shapes, opset=23)
    assert moved(graph) == 4 * (2 * 2 * 8 * 32 * 16 + 2 * 2 * 2 * 64 * 16)


def test_onnx_attention_with_a_cache(counted, multiply_adds, moved):
    made = node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "ck", "cv"], is_causal=1)
    cache = {name: [1, 2, 60, 16] for name in ("pk", "pv")}
    shapes = {"q": [1, 4, 4, 16], "k": [1, 2, 4, 16], "v": [1, 2, 4, 16], **cache}
    graph = counted([made], shapes, ("y", "ck", "cv"), opset=23)
    # 4 new rows after 60 cached ones: each sees 61, 62, 63, 64 keys
    assert multiply_adds(graph) == 2 * 4 * 16 * (61 + 62 + 63 + 64)
    # q and y; the new rows into the cache (read and written), then the cache of 64 read
    assert moved(graph) == 4 * (2 * 4 * 4 * 16 + 2 * (2 * 2 * 4 * 16) + 2 * 2 * 64 * 16)
    assert any("cache" in line for line in graph.conventions)


def test_grouped_query_attention_decodes(counted, multiply_adds):
    made = node(
        "GroupQueryAttention",
        ["q", "k", "v", "pk", "pv", "lengths", "total"],
        ["y", "ck", "cv"],
        domain=MS,
        num_heads=8,
        kv_num_heads=2,
        do_rotary=1,
    )
    shapes = {"q": [1, 1, 128], "k": [1, 1, 32], "v": [1, 1, 32], "pk": [1, 2, 99, 16], "pv": [1, 2, 99, 16]}
    shapes |= {"lengths": (INT32, [1]), "total": (INT32, [1])}
    graph = counted([made], shapes, ("y", "ck", "cv"), domains=[MS])
    assert multiply_adds(graph) == 2 * 8 * 100 * 16  # 99 past keys and the new one
    op = attention_of(graph)
    assert graph.tensors[op.inputs[1]].shape == (1, 100, 2, 16)
    # three operations for each element of q and k that is turned
    assert [one.name for one in graph.ops][:3] == [
        "GroupQueryAttention.rotary_query",
        "GroupQueryAttention.rotary_key",
        "GroupQueryAttention.cache",
    ]


def test_grouped_query_attention_packed_with_a_window(counted, multiply_adds, moved):
    made = node(
        "GroupQueryAttention",
        ["q", "", "", "", "", "lengths", "total"],
        ["y"],
        domain=MS,
        num_heads=4,
        kv_num_heads=2,
        local_window_size=8,
    )
    shapes = {"q": [1, 32, (4 + 2 * 2) * 16], "lengths": (INT32, [1]), "total": (INT32, [1])}
    graph = counted([made], shapes, domains=[MS])
    pairs = 8 * 9 // 2 + (32 - 8) * 8  # w(w+1)/2 + (S − w)·w
    assert multiply_adds(graph) == 2 * 4 * 16 * pairs
    assert moved(graph) == 4 * (32 * 8 * 16 + 32 * 4 * 16)  # packed input once, output once


@pytest.mark.parametrize("packed", [False, True])
def test_multi_head_attention(counted, multiply_adds, packed):
    made = node("MultiHeadAttention", ["q"] if packed else ["q", "k", "v", "b"], ["y"], domain=MS, num_heads=4)
    shapes = {"q": [1, 32, 4, 3, 16]} if packed else {name: [1, 32, 64] for name in "qkv"}
    graph = counted([made], shapes, weights={} if packed else {"b": zeros(192)}, domains=[MS])
    assert multiply_adds(graph) == 2 * 4 * 32 * 32 * 16


@pytest.mark.parametrize("quantised", [False, True])
def test_attention_with_its_projection(counted, multiply_adds, quantised):
    code, dtype = (onnx.TensorProto.INT8, np.int8) if quantised else (onnx.TensorProto.FLOAT, np.float32)
    names = ["x", "w", "b", *(["s", "s"] if quantised else [])]
    made = node("QAttention" if quantised else "Attention", names, ["y"], domain=MS, num_heads=4, unidirectional=1)
    weights = {"w": zeros(64, 192, dtype=dtype), "b": zeros(192), "s": zeros(1)[0]}
    graph = counted([made], {"x": (code, [1, 32, 64])}, weights=weights, domains=[MS])
    # Q, K and V projected; 32 · 33 / 2 pairs in two products
    assert multiply_adds(graph) == 32 * 64 * 192 + 2 * 4 * 16 * 32 * 33 // 2


def test_grouped_query_attention_in_a_buffer_longer_than_its_use(counted, multiply_adds):
    names = ["q", "k", "v", "pk", "pv", "lengths", "total"]
    made = node("GroupQueryAttention", names, ["y", "ck", "cv"], domain=MS, num_heads=8, kv_num_heads=2)
    shapes = {"q": [1, 1, 128], "k": [1, 1, 32], "v": [1, 1, 32], "pk": [1, 2, 256, 16], "pv": [1, 2, 256, 16]}
    total = {"total": np.array(100, np.int32)}
    graph = counted([made], {**shapes, "lengths": (INT32, [1])}, ("y", "ck", "cv"), weights=total, domains=[MS])
    assert multiply_adds(graph) == 2 * 8 * 100 * 16  # 100 keys of the buffer's 256
