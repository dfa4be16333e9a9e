"""An engine's linear layer as the rows of the tables `gemm_CARD_ENGINE.csv` were measured: its kernels."""

from __future__ import annotations

import collections
import dataclasses

import engine_tables
import numpy as np
from layer_rows import TRITON, Row, Table, launched, timed

from rooflab.model.device import cache_residency
from rooflab.model.engines.engine import Engine
from rooflab.model.serving import kernels
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
        made = [_turned(kernels.product("linear", "product", 1.0, m, n, k, stored, library=library), word, part)]
        if stored.activations and word != "sq":
            made.append(_scaled(m, k, table.engine == "vllm" and word == "fp8"))
            # One scale of the whole: cleared, found, inverted, before the cast.
            if (table.engine, word) == ("trtllm", "fp8"):
                made += [
                    kernels.pointwise("linear", "clear", 1.0, np.ones_like(m), reads=4.0, writes=4.0),
                    kernels.norm("linear", "largest", 1.0, m, k, reads=2.0, writes=0.0, warm=2.0),
                    kernels.pointwise("linear", "invert", 1.0, np.ones_like(m), reads=4.0, writes=4.0),
                ]
        found[numbers], spreads[numbers] = timed(made, part)
        if (table.engine, word) == ("vllm", "fp8_block"):
            packs = table.device.constants.family == "blackwell"
            calls = np.array([_block_calls(row, packs) for row in part.rows])
            found[numbers], spreads[numbers] = launched(found[numbers], spreads[numbers], calls)
    return found, spreads


def _scaled(m: np.ndarray, k: np.ndarray, whole_blocks: bool) -> Kernel:
    """Activations brought to 8 bits; `whole_blocks`: by a block of 1024 threads for each row, however short."""
    if whole_blocks:
        return kernels.rows_of_blocks("linear", "scale activations", 1.0, m, 1024.0, m * k * 2.0, m * k)
    return kernels.norm("linear", "scale activations", 1.0, m, k, reads=2.0, writes=1.0, warm=2.0)


def _turned(product: Kernel, word: str, table: Table) -> Kernel:
    """The product with weights of copies that take turns: what the last cache holds of them all is found there."""
    copies = 1.0 if word in engine_tables.ONE_COPY else float(engine_tables.COPIES)
    share = cache_residency.cached_share(product.weight_bytes * copies, table.device)
    return dataclasses.replace(product, again_bytes=product.weight_bytes * share)


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
    block = "sglang_block" if maker == "sglang" else "trtllm_block"
    made_by = {
        "bfloat16": "",
        "sq": "smooth",
        "fp8_block": block,
        "fp8": "trtllm_fp8" if maker == "trtllm" else "cutlass",
    }
    return made_by[word]
