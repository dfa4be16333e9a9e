"""An engine's layer of experts as the rows of the tables `moe_CARD_ENGINE.csv` were measured: its kernels."""

from __future__ import annotations

import collections

import expert_tables
import numpy as np
from layer_rows import Row, Table, timed

from rooflab.model.engines.engine import Engine
from rooflab.model.serving.feed_forward import Routed, expert_kernels, tile_rows
from rooflab.model.serving.kernels import Kernel
from rooflab.work.llm.formats import weight_format

_MOE = {"bfloat16": "bf16", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8"}


def experts(table: Table, ours: Engine) -> tuple[np.ndarray, np.ndarray]:
    """A layer of experts; rows of one library together."""
    found, spreads = np.zeros(len(table.rows)), np.zeros(len(table.rows))
    kinds = collections.defaultdict(list)
    for number, row in enumerate(table.rows):
        kinds[group_library(row), expert_tables.without_gate(row), widened(row)].append(number)
    for (library, *_), numbers in kinds.items():
        part = table._replace(rows=[table.rows[number] for number in numbers])
        found[numbers], spreads[numbers] = timed(_routed(part, ours, library), part)
    return found, spreads


def widened(row: Row) -> bool:
    """Whether MXFP4 weights were brought to bf16 when loaded: by SGLang, asked for neither of its own kernels.

    sgl-project/sglang, layers/quantization/mxfp4.py: upcast_from_mxfp where neither Triton's kernels for MXFP4 nor
    FlashInfer's were chosen, as its server does but the tables' maker did not.
    """
    return row["moe_dtype"] == "w4a16_mxfp4" and row["kernel_source"] == "sglang_fused_moe_triton"


def group_library(row: Row) -> str:
    """Whose products for groups of rows ran: of `gpu_matmul.KERNELS`."""
    source = row["kernel_source"]
    blackwell = any(each in row["device"] for each in ("B200", "B300"))
    if "trtllm" in source or "min_latency" in source or (blackwell and "mxfp4" in row["moe_dtype"]):
        return "trtllm_gen_groups"
    if "flashinfer" in source:
        own = {"fp8_block": "block_groups", "fp8": "flashinfer_fp8_groups"}
        return own.get(row["moe_dtype"], "flashinfer_groups")
    if row["framework"].upper() == "TRTLLM":
        return "block_groups" if row["moe_dtype"] == "fp8_block" else "cutlass_groups"
    if "marlin" in source or "oai" in source:
        return ""
    return "triton_default_groups" if expert_tables.default_tiles(row) else "triton_groups"


def _routed(table: Table, ours: Engine, library: str) -> list[Kernel]:
    word, plain = table.rows[0]["moe_dtype"], expert_tables.without_gate(table.rows[0])
    names = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    loads = [
        expert_tables.load(
            expert_tables.Layer._make(
                [*(int(row[name]) for name in names), row["distribution"], not plain, row["version"] in _EARLY]
            )
        )
        for row in table.rows
    ]
    tokens, hidden, inner, chosen, experts, ways, ranks = (table.column(name) for name in names)
    routed = Routed(
        tokens=tokens, rows=np.array([each.rows for each in loads], float),
        active=np.array([each.active for each in loads], float), chosen=chosen, experts=experts, hidden=hidden,
        inner=np.maximum(inner / ways, 1.0), ways=ranks, all_rows=library.startswith("triton"), library=library,
        tile_rows=np.array([expert_tables.tile_rows(row) for row in table.rows]),
    )  # fmt: skip
    stored = weight_format("bf16" if widened(table.rows[0]) else _MOE.get(word, word))
    tiles = np.broadcast_to(np.asarray(tile_rows(routed, stored), float), tokens.shape)
    usual = _TILES.get(library, 64.0)
    uneven = [expert_tables.uneven(each, tile or usual) for each, tile in zip(loads, tiles, strict=True)]
    return expert_kernels(ours, stored, routed._replace(uneven=np.array(uneven)), 1.0, gated=not plain)


# Rows of tiles by which groups are judged uneven, where neither the engine nor a rule says them.
_TILES = {"flashinfer_groups": 128.0, "flashinfer_fp8_groups": 128.0}
_EARLY = ("1.0.0", "0.14.0")  # of TensorRT-LLM and vLLM: see `expert_tables.load`
