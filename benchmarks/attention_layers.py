"""The attention layer of a serving engine as the graph of the kernels that it runs.

What an engine's layer runs beside attention: TensorRT-LLM applies RoPE and writes the paged cache from q, k and v
joined; vLLM and SGLang write the cache; vLLM quantises the queries of a prefill first where its cache is fp8.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from rooflab.dtypes import dtype as number_format
from rooflab.types.report import Report
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting

SORTS = ("context_attention", "generation_attention", "encoder_attention", "context_mla", "mla_generation")
ALSO_CALLED = {"mla_context": "context_mla", "generation_mla": "mla_generation"}


class Layer(NamedTuple):
    """One call of an engine's attention layer; without the name of an engine, of attention alone.

    Attributes:
        sort: one of `SORTS`.
        sizes: sequences, new tokens of each, tokens in the cache, heads of q, heads of k and v, size of a head.
        values: size of a head of v.
        window: 0 for none.
        dtype, cached: number formats of the queries and of the cache.
        kernel: as the engine calls it.
    """

    sort: str
    sizes: tuple[int, int, int, int, int, int]
    values: int
    window: int
    dtype: str
    cached: str
    engine: str = ""
    kernel: str = ""


def latent(sort: str, heads: int) -> tuple[int, int, int]:
    """Heads of k and v, sizes of a head of k and of v in DeepSeek's latent attention (arXiv:2405.04434).

    A prefill expands the latent vector to keys of 128 + 64 and values of 128; decoding meets the vector itself,
    512 + 64, which all heads share.
    """
    return (heads, 192, 128) if sort == "context_mla" else (1, 576, 512)


class _Maker:
    """A graph in the making: tensors by what they are, operations in order."""

    def __init__(self) -> None:
        self.tensors: list[TensorSpec] = []
        self.ops: list[Op] = []

    def tensor(self, shape: tuple[int, ...], dtype: str) -> int:
        count = 1
        for each in shape:
            count *= each
        nbytes = count * number_format(dtype).bits / 8
        self.tensors.append(TensorSpec(shape, dtype, nbytes, storage=len(self.tensors)))
        return len(self.tensors) - 1

    def op(self, name: str, kind: str, inputs: tuple[int, ...], outputs: tuple[int, ...], **attrs: Any) -> None:
        self.ops.append(Op(name=name, kind=kind, inputs=inputs, outputs=outputs, attrs=attrs))


@functools.cache
def report(layer: Layer) -> Report:
    """What `layer` asks for, kernel by kernel."""
    make = _Maker()
    sequences, new, before, heads, kv_heads, size = layer.sizes
    decoding = layer.sort in ("generation_attention", "mla_generation")
    if _has_narrow_queries(layer, decoding):
        layer = layer._replace(dtype="fp8")
    if layer.engine and "mla" not in layer.sort and layer.sort != "encoder_attention":
        _before(make, layer, decoding)
    # A prefill without a cached part reads its keys and values where the layer got them.
    stored = layer.cached if before or decoding or layer.engine != "TRTLLM" else layer.dtype
    q = make.tensor((sequences, heads, new, size), layer.dtype)
    k = make.tensor((sequences, kv_heads, before + new, size), stored)
    v = make.tensor((sequences, kv_heads, before + new, layer.values), stored)
    out = make.tensor((sequences, heads, new, layer.values), "bf16")
    attrs: dict[str, Any] = dict(_KERNELS.get(layer.kernel, {}).get("decode" if decoding else "prefill", {}))
    if layer.sort != "encoder_attention":
        attrs |= {"causal": True, "causal_from": "bottom_right"}
    if layer.window:
        attrs["window"] = layer.window
    if layer.sort == "mla_generation":
        attrs["v_in_k"] = True
    make.op("attention", "attention", (q, k, v), (out,), **attrs)
    graph = Graph(framework="hand", tensors=tuple(make.tensors), ops=tuple(make.ops))
    return counting.report(graph, "attention layer")


def _has_narrow_queries(layer: Layer, decoding: bool) -> bool:
    """Whether the measured kernel takes 8-bit queries beside an 8-bit cache.

    TensorRT-LLM's of a prefill: the kernel before writes them so. vLLM's of a decode but Triton's: the queries are
    cast before the clock starts (aiconfigurator, collector/vllm/collect_attn.py), and no kernel does it then.
    """
    if layer.cached != "fp8":
        return False
    if layer.engine == "TRTLLM":
        return not decoding
    return layer.engine == "VLLM" and layer.sort == "generation_attention" and "triton" not in layer.kernel


# What is known of a kernel: whether the query heads of a group share a tile, how many blocks share a unit, whether
# the tiles were planned before the layer ran (FlashInfer's plan) or need none (TensorRT-LLM's of Blackwell, which
# vLLM calls through FlashInfer: a block reads its sequence off its own place; two of them held their fixed times
# apart in two thirds of the B200's rows).
_KERNELS: dict[str, dict[str, dict[str, Any]]] = {
    "torch_flow": {"prefill": {"packs": 0, "head_sizes": (64, 128, 256)}, "decode": {"resident": 8}},
    "flashinfer": {"prefill": {"planned": True}, "decode": {"planned": True, "resident": 4}},
    "vllm_flashinfer_fiprefill": {"prefill": {"planned": True}},
    "vllm_flashinfer_fidecode": {"decode": {"planned": True, "resident": 4}},
    "triton": {"prefill": {"planned": True}, "decode": {"planned": True, "resident": 4}},
    "vllm_flashinfer_trtllmdecode": {"decode": {"planned": True, "resident": 2}},
    "vllm_flash_attn_fa2": {"prefill": {"planned": True}, "decode": {"planned": True}},
}


def _before(make: _Maker, layer: Layer, decoding: bool) -> None:
    """The kernels that run before attention."""
    sequences, new, _, heads, kv_heads, size = layer.sizes
    tokens, row = sequences * new, kv_heads * size
    fresh, cached = make.tensor((tokens, 2 * row), "bf16"), make.tensor((tokens, 2 * row), layer.cached)
    if layer.engine == "TRTLLM":
        if not decoding:
            _offsets(make, sequences)
            q_in, q_out = (
                make.tensor((tokens, heads, size), "bf16"),
                make.tensor((tokens, heads, size), layer.dtype),
            )
            # Blocks of 256 threads, 16 bytes each, of one head of one sequence.
            blocks = sequences * -(-new // max(1, 2048 // size)) * heads
            make.op("rope and cache", "kernel", (q_in, fresh), (q_out, cached), blocks=blocks, threads=256)
        return
    threads = min(row, 512) if layer.engine == "VLLM" else 128
    make.op("write cache", "kernel", (fresh,), (cached,), blocks=tokens, threads=threads)
    if layer.cached == "fp8" and layer.engine == "VLLM" and not decoding:
        q_in, q_out = make.tensor((tokens, heads, size), "bf16"), make.tensor((tokens, heads, size), "fp8")
        threads = min(512, heads * size)
        make.op("quantize queries", "kernel", (q_in,), (q_out,), blocks=tokens, threads=threads)


def _offsets(make: _Maker, count: int) -> None:
    lengths, made = make.tensor((count,), "int32"), make.tensor((count,), "int32")
    make.op("sequence offsets", "kernel", (lengths,), (made,), blocks=1, threads=128)
