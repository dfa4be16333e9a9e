"""An engine's linear layer as the rows of the tables `gemm_CARD_ENGINE.csv` were measured: its kernels."""

from __future__ import annotations

import collections
import dataclasses
from typing import NamedTuple

import engine_tables
import numpy as np
from layer_rows import TRITON, Row, Table, launched, timed

from rooflab.model.device import cache_residency
from rooflab.model.engines.engine import Engine
from rooflab.model.serving import kernels, row_kernels
from rooflab.model.serving.kernels import Kernel
from rooflab.work.llm.formats import weight_format

_GEMM = {"bfloat16": "bf16", "sq": "int8"}


def linear(table: Table, ours: Engine) -> tuple[np.ndarray, np.ndarray]:
    """A linear layer: activations brought to its format, the product; rows of one library together."""
    found, spreads = np.zeros(len(table.rows)), np.zeros(len(table.rows))
    kinds = collections.defaultdict(list)
    for number, row in enumerate(table.rows):
        kinds[product_library(row, table.engine)].append(number)
    for library, numbers in kinds.items():
        part = table._replace(rows=[table.rows[number] for number in numbers])
        m, n, k = (part.column(name) for name in "mnk")
        word = table.rows[0]["gemm_dtype"]
        stored = weight_format(_GEMM.get(word, word))
        made = [kernels.product("linear", "product", 1.0, m, n, k, stored, library=library)]
        if stored.activations and word != "sq":
            made.append(_scaled(m, k, table.engine == "vllm" and word == "fp8"))
            if (table.engine, word, table.device.constants.family) == ("sglang", "fp8_block", "blackwell"):
                made += _scales_laid_out(n, k)
            # One scale of the whole: cleared, found, inverted, before the cast.
            if (table.engine, word) == ("trtllm", "fp8"):
                made += [
                    row_kernels.pointwise("linear", "clear", 1.0, np.ones_like(m), reads=4.0, writes=4.0),
                    row_kernels.norm("linear", "largest", 1.0, m, k, reads=2.0, writes=0.0, warm=2.0),
                    row_kernels.pointwise("linear", "invert", 1.0, np.ones_like(m), reads=4.0, writes=4.0),
                ]
        found[numbers], spreads[numbers] = timed(_in_turn(made, word, part), part)
        if _is_plugin(part):
            found[numbers] += _PROFILED_S
        if (table.engine, word) == ("vllm", "fp8_block"):
            packs = table.device.constants.family == "blackwell"
            calls = np.array([_block_calls(row, packs) for row in part.rows])
            found[numbers], spreads[numbers] = launched(found[numbers], spreads[numbers], calls)
    return found, spreads


# What TensorRT's profiler, whose events stand around each layer of one run, adds to a plugin's time: kernels that
# end within 3 us in a replayed graph on the same card take 10 us there.
_PROFILED_S = 7e-6


def _is_plugin(table: Table) -> bool:
    return table.rows[0]["kernel_source"].startswith("trt_flow")


def _scaled(m: np.ndarray, k: np.ndarray, compiled: bool) -> Kernel:
    """Activations brought to 8 bits; `compiled`: by a Triton kernel of PyTorch's, a block of 1024 threads a row.

    It walks over its row twice, 2048 numbers at a time, however short the row is (vllm-project/vllm,
    QuantFP8 where nothing calls for its own kernel: forward_native, compiled).
    """
    if compiled:
        turns = np.ceil(k / 2048.0) - 1.0
        return row_kernels.rows_of_blocks("linear", "scale activations", 1.0, m, 1024.0, m * k * 2.0, m * k, turns)
    return row_kernels.norm("linear", "scale activations", 1.0, m, k, reads=2.0, writes=1.0, warm=2.0)


def _scales_laid_out(n: np.ndarray, k: np.ndarray) -> list[Kernel]:
    """Weights' scales repeated for each row and packed, in each call whose weights were not laid out when loaded.

    deepseek-ai/DeepGEMM, csrc/apis/layout.hpp, on Blackwell: numbers of rows counted and divided, scales picked by
    them, four exponents packed into one number.
    """
    each = n * np.ceil(k / _SCALED_K)
    return [
        row_kernels.pointwise("linear", "count rows", 1.0, n, reads=0.0, writes=8.0),
        row_kernels.pointwise("linear", "divide", 1.0, n, reads=8.0, writes=8.0),
        row_kernels.pointwise("linear", "repeat scales", 1.0, each, reads=4.0, writes=4.0, casts=True),
        row_kernels.pointwise("linear", "pack scales", 1.0, each, reads=4.0, writes=1.0, casts=True),
    ]


_SCALED_K = 128.0  # of a block


class _Turns(NamedTuple):
    """How operands take turns in a table: copies of weights, 0 for cold ones; whether inputs have copies too."""

    copies: np.ndarray
    inputs: bool


def _turns(word: str, product: Kernel, table: Table) -> _Turns:
    """What takes turns, as the tables' makers wrote it (ai-dynamo/aiconfigurator, collector/*/collect_gemm.py).

    vLLM's layers: six copies, one of block formats and fp4. SGLang's: as many sets of all operands as fit in 45 %
    of the card's memory beside what making one takes, six at most. TensorRT-LLM's: as many copies as its last
    cache holds, five at most; its plugins (`trt_flow`) ran once, after other layers with 300 MB of weights.
    """
    rows, device = len(table.rows), table.device
    if _is_plugin(table):
        return _Turns(np.zeros(rows), False)
    weights = np.broadcast_to(np.asarray(product.weight_bytes, float), (rows,))
    if table.engine == "trtllm":
        return _Turns(np.clip(np.ceil(device.cache_bytes / weights), 1.0, 5.0), False)
    if table.engine == "vllm":
        return _Turns(np.full(rows, 1.0 if word in engine_tables.ONE_COPY else float(engine_tables.COPIES)), False)
    m, n, k = (table.column(name) for name in "mnk")
    making = {"fp8": 4.0, "fp8_block": 4.0, "nvfp4": 2.0}.get(word, 0.0) * n * k
    kept = weights + 2.0 * m * (n + k) + (m * k if word == "fp8" else 0.0)
    room = 0.45 * (device.memory_bytes or np.inf) - making
    return _Turns(np.clip(np.floor(room / kept), 1.0, float(engine_tables.COPIES)), True)


def _in_turn(made: list[Kernel], word: str, table: Table) -> list[Kernel]:
    """The kernels with what the last cache still holds of weights and inputs when their turn comes again."""
    product, device = made[0], table.device
    copies, inputs = _turns(word, product, table)
    m, n, k = (table.column(name) for name in "mnk")
    first, out = 2.0 * m * k, 2.0 * m * n
    weights = np.asarray(product.weight_bytes, float)
    passed = np.where(copies > 0, copies * (weights + first * inputs) + first * (not inputs) + out, np.inf)
    found = cache_residency.cached_share(passed, device)
    # What is found in the cache needs no memory: no floor stands on it.
    made[0] = dataclasses.replace(product, again_bytes=weights * found, weight_bytes=weights * (1.0 - found))
    if not inputs:
        return made
    # Who reads the inputs first finds what is left of them from their last turn; nobody has just written them.
    at = 0 if len(made) == 1 else 1
    again = np.asarray(made[at].again_bytes, float) + first * found
    made[at] = dataclasses.replace(made[at], warm_bytes=0.0, again_bytes=again)
    return made


# A wrapper of FlashInfer's in Python; DeepGEMM's call, which looks for its compiled kernel.
_WRAPPED, _COMPILES = 1.6, 1.3


def _block_calls(row: Row, packs: bool) -> float:
    """Operations of vLLM's block-scaled layer: rows scaled, then the product; see `CALL_S`.

    `packs`: whether DeepGEMM wants scales of two exponents packed, which a Triton kernel does.
    """
    source = row["kernel_source"]
    if "FlashInfer" in source:  # scales rows itself, within one call of a Python wrapper
        return _WRAPPED
    scales = TRITON if "Triton" in source or "Cutlass" in source or packs else 1.0
    return scales + (TRITON if "Triton" in source else _COMPILES if "DeepGemm" in source else 1.0)


def product_library(row: Row, maker: str) -> str:
    """Whose product ran: of `gpu_matmul.KERNELS`."""
    word, source = row["gemm_dtype"], row["kernel_source"].lower()
    if word in ("int8_wo", "int4_wo"):
        return "weight_only"
    if word == "nvfp4":
        return "trtllm_fp4" if maker == "trtllm" else "fp4"
    if word == "fp8_block" and "triton" in source:
        return "triton_block"
    if word == "fp8_block" and "cutlass" in source:
        return "cutlass"
    made_by = {
        "bfloat16": "",
        "sq": "smooth",
        "fp8_block": "deepgemm",
        "fp8": "trtllm_fp8" if maker == "trtllm" else "cutlass",
    }
    return made_by[word]
