"""Fits constants of libraries' kernels (`model/data`, topics `attention_NAME`, `matmul_NAME`) to engines' tables.

    python benchmarks/library_kernels.py [gen/h100_sxm/trtllm/trtllm_decode …] [--write]

A job is the sort of table (`ctx`, `gen`, `gemm`, `moe`), the card, the engines and the kernel. Half of its rows,
by a sum of what they state, fit the constants, the width of the bars too; the other half is printed beside it as
"aside". The mechanisms are those of `model/kernels/gpu`; a constant stays within what it can physically be. With
`--write` the numbers replace those in the families' files. Needs SciPy.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import engine_layers
import expert_layers
import known_tiles
import layer_rows
import linear_layers
import msgspec
import numpy as np
from layer_rows import Row, Table
from measured import SHARED
from scipy.optimize import minimize

import rooflab
from rooflab.model.device.constants import load_family
from rooflab.model.device.device import Device
from rooflab.model.engines.engine import engine
from rooflab.model.kernels.gpu import attention_libraries
from rooflab.model.serving.kernels import Kernel

JOBS = [
    "mlagen/h100_sxm/sglang/fa_latent_decode",
    "mlagen/h100_sxm/trtllm/trtllm_latent_decode",
    "mlactx/h100_sxm/sglang/fa_latent_prompts",
    "mlactx/h100_sxm/trtllm/trtllm_latent_prompts",
    "gen/h100_sxm/trtllm/trtllm_decode",
    "ctx/h100_sxm/trtllm/trtllm_prompts",
    "gen/h100_sxm/trtllm/trtllm_narrow_decode",
    "gen/h100_sxm/trtllm/masked_decode",
    "ctx/h100_sxm/vllm/vllm_fa_prompts",
    "gen/h100_sxm/vllm/vllm_fa_decode",
    "ctx/h100_sxm/sglang/fa_prompts",
    "ctx/h100_sxm/sglang/triton_prompts",
    "gen/h100_sxm/sglang/triton_decode",
    "gen/h100_sxm/sglang/fa_decode",
    "gen/a100_sxm/trtllm/trtllm_decode",
    "ctx/a100_sxm/trtllm/trtllm_prompts",
    "gen/a100_sxm/trtllm/masked_decode",
    "ctx/a100_sxm/vllm/fa2_prompts",
    "gen/a100_sxm/vllm/fa2_decode",
    "ctx/b200_sxm/trtllm/trtllm_prompts",
    "gen/b200_sxm/trtllm/trtllm_decode",
    "gen/b200_sxm/trtllm/masked_decode",
    "ctx/b200_sxm/vllm+sglang+trtllm/trtllm_gen_prompts",
    "gen/b200_sxm/vllm+sglang+trtllm/trtllm_gen_decode",
    "gen/b200_sxm/sglang+vllm/triton_decode",
    "gen/b200_sxm/sglang/flashinfer_decode",
    "ctx/b200_sxm/sglang/flashinfer_prompts",
    "ctx/b200_sxm/sglang+vllm/triton_prompts",
    "gen/l40s/vllm/vllm_flashinfer_decode",
    "gen/l40s/sglang/flashinfer_decode",
    "gen/l40s/sglang/flashinfer_plain_decode",
    "gen/l40s/sglang+vllm/triton_decode",
    "ctx/l40s/vllm/vllm_flashinfer_prompts",
    "ctx/l40s/sglang/flashinfer_prompts",
    "ctx/l40s/vllm/fa2_prompts",
    "ctx/l40s/sglang+vllm/triton_prompts",
    "gen/l40s/vllm/fa2_decode",
    "gemm/l40s/sglang+vllm/",
    "gemm/b200_sxm/sglang+vllm+trtllm/",
    "gemm/h100_sxm/vllm+sglang/cutlass",
    "gemm/h100_sxm/trtllm/trtllm_fp8",
    "gemm/h100_sxm/trtllm+sglang/deepgemm",
    "gemm/a100_sxm/trtllm/weight_only",
    "gemm/a100_sxm/trtllm/smooth",
    "gemm/l40s/vllm+sglang/cutlass",
    "gemm/b200_sxm/vllm+sglang/cutlass",
    "gemm/b200_sxm/trtllm/trtllm_fp8",
    "gemm/b200_sxm/trtllm/deepgemm",
    "gemm/b200_sxm/vllm+sglang/fp4",
    "gemm/b200_sxm/trtllm/trtllm_fp4",
    "moe/h100_sxm/vllm+sglang/triton_groups",
    "moe/h100_sxm/sglang/triton_default_groups",
    "moe/h100_sxm/vllm+trtllm/block_groups",
    "moe/h100_sxm/trtllm/cutlass_groups",
    "moe/h100_sxm/sglang/flashinfer_groups",
    "moe/h100_sxm/vllm/flashinfer_fp8_groups",
    "moe/a100_sxm/vllm/triton_groups",
    "moe/a100_sxm/vllm/triton_default_groups",
    "moe/a100_sxm/trtllm/cutlass_groups",
    "moe/b200_sxm/trtllm/trtllm_gen_groups",
]
# What a constant can be: seconds, clocks, shares, factors of the theoretical time.
BOUNDS = {
    "launch_s": (1e-6, 15e-6), "serving_tile_clocks": (300, 15000), "matrix_factor": (0.9, 6),
    "exp_factor": (0.2, 12),
    "row_factor": (0.3, 10), "widen_factor": (0.5, 4),
    "narrow_factor": (0.7, 4), "paged_share": (0.5, 0.95), "cache_share": (0.2, 1.2),
    "join_s": (0.3e-6, 8e-6), "edge_clocks": (50, 6000), "memory_share": (0.1, 0.97),
    "tile_clocks": (20, 10000), "step_clocks": (100, 2500),
    "store_bytes_per_clock": (2, 100), "share_fp8": (0.3, 1), "share_int8": (0.3, 1), "share_half": (0.15, 1),
    "grouped_share": (0.1, 1.5), "cluster": (1, 16), "alone_share": (0.1, 1),
    "launch_clocks": (100, 20000), "turn_clocks": (100, 8000), "join_clocks": (100, 15000),
    "part_clocks": (20, 1500), "shared_factor": (0.05, 20), "block_clocks": (1, 6000), "skip_clocks": (100, 6000),
    "window_factor": (0.5, 6), "idle_clocks": (20, 1500), "hidden_share": (0.02, 0.98),
    "long_factor": (0.3, 3), "masked_clocks": (300, 10000),
    "masked_fma_per_clock": (8, 128),
    "split_s": (1e-6, 6e-6), "joule_per_flop": (0.3e-12, 3e-12),
    "older_step_clocks": (100, 2500), "older_store_bytes_per_clock": (2, 100),
}  # fmt: skip
PROMPTS = [
    "launch_s",
    "serving_tile_clocks",
    "matrix_factor",
    "exp_factor",
    "row_factor",
    "widen_factor",
    "edge_clocks",
]
DECODE = (
    "launch_s serving_tile_clocks matrix_factor exp_factor paged_share join_s widen_factor row_factor cache_share"
)
MASKED = "launch_s serving_tile_clocks masked_clocks masked_fma_per_clock paged_share join_s cache_share"
PRODUCT = ("launch_s", "memory_share", "cache_share")
GROUPS = (*PRODUCT, "step_clocks", "store_bytes_per_clock", "tile_clocks")
# What it costs that constants differ from cuBLAS's: what a table says little of stays there, and what it does say
# holds on other cards too. What a kernel's start and tiles take is its own.
HELD = 0.02
_HELD_OF = {
    "cutlass": 0.06,
    "deepgemm": 0.02,
    "fp4": 0.02,
    "trtllm_fp4": 0.02,
    "triton_prompts": 0.02,
    "triton_decode": 0.02,
}  # of products that several cards run; of all others a tenth of it
FREE = ("launch_s", "tile_clocks")
TILES = (
    [256, 128, 128, 256, 128, 128, 128, 64, 64, 128, 64, 64, 32, 64, 64, 32, 16, 64, 64, 16],
    [128, 128, 64, 128, 64, 64],
    [128, 128],
)


_MANY_ROWS = 50  # fewer that fit are met more closely than others will be
# Bars: of attention one; of products one for each sort of number.
SPREADS = {"attention": ("spread", "long_spread"), "matmul": ("spread", "spread_fp8", "spread_older")}
WORDS = {
    "fa_latent_decode": "SGLang's FlashAttention for single tokens and latent vectors",
    "fa_latent_prompts": "SGLang's FlashAttention for prompts and latent vectors",
    "trtllm_latent_decode": "TensorRT-LLM's kernels for single tokens and latent vectors",
    "trtllm_latent_prompts": "TensorRT-LLM's kernels for prompts expanded from latent vectors",
    "trtllm_decode": "TensorRT-LLM's kernels for single tokens",
    "trtllm_narrow_decode": "TensorRT-LLM's kernels for single tokens and an 8-bit cache on Hopper",
    "masked_decode": "TensorRT-LLM's masked kernel, a block for each head for single tokens",
    "trtllm_prompts": "TensorRT-LLM's kernels for prompts",
    "vllm_fa_prompts": "vLLM's FlashAttention for prompts",
    "vllm_fa_decode": "vLLM's FlashAttention for single tokens",
    "fa_prompts": "SGLang's FlashAttention for prompts",
    "fa_decode": "SGLang's FlashAttention for single tokens",
    "fa2_prompts": "FlashAttention 2 for prompts",
    "fa2_decode": "FlashAttention 2 for single tokens",
    "trtllm_gen_prompts": "TensorRT-LLM's kernels for prompts as FlashInfer calls them",
    "trtllm_gen_decode": "TensorRT-LLM's kernels for single tokens as FlashInfer calls them",
    "vllm_flashinfer_prompts": "FlashInfer's kernels for prompts in vLLM",
    "vllm_flashinfer_decode": "FlashInfer's kernels for single tokens in vLLM",
    "flashinfer_prompts": "FlashInfer's kernels for prompts",
    "flashinfer_decode": "FlashInfer's kernels for single tokens",
    "flashinfer_plain_decode": "FlashInfer's kernels for single tokens without the matrix engine",
    "triton_prompts": "Triton's kernels for prompts",
    "triton_decode": "Triton's kernels for single tokens",
    "cutlass": "CUTLASS's fp8 products",
    "trtllm_fp8": "TensorRT-LLM's fp8 products",
    "deepgemm": "DeepGEMM's products of scaled blocks",
    "weight_only": "TensorRT-LLM's products with narrow weights",
    "smooth": "TensorRT-LLM's int8 products",
    "triton_block": "Triton's products of scaled blocks",
    "fp4": "CUTLASS's fp4 products",
    "trtllm_fp4": "TensorRT-LLM's fp4 products",
    "triton_groups": "Triton's products for groups of rows",
    "cutlass_groups": "CUTLASS's products for groups of rows",
    "flashinfer_groups": "FlashInfer's products for groups of rows",
    "triton_default_groups": "Triton's products for groups of rows without tuned tiles",
    "block_groups": "products of scaled blocks for groups of rows in TensorRT-LLM and FlashInfer (DeepGEMM's)",
    "trtllm_gen_groups": "TensorRT-LLM's generated products for groups of rows",
    "flashinfer_fp8_groups": "FlashInfer's fp8 products for groups of rows",
}


class Part(NamedTuple):
    """Rows of one table that one kernel ran: their kernels, which of them fit, what was measured."""

    table: Table
    kernels: list[Kernel]
    fits: np.ndarray
    measured_s: np.ndarray


def parts_of(sort: str, card: str, makers: list[str], kernel: str, data: Path) -> list[Part]:
    """The rows of those tables that ran the kernel, by number format."""
    found = []
    apart, layer = engine_layers.sorts()[sort]
    for maker in makers:
        with (data / f"{sort}_{card}_{maker}.csv").open(newline="") as file:
            whole = Table(card, maker, list(csv.DictReader(file)))
        rows = [row for row in whole.rows if _kernel(sort, row, whole) == kernel]
        # Not replayed as a graph: the host's time.
        rows = [row for row in rows if (maker, row.get("gemm_dtype")) != ("vllm", "fp8_block")]
        for form in sorted({apart(row) for row in rows}):
            table = Table(card, maker, [row for row in rows if apart(row) == form])
            fits = [zlib.crc32(repr(sorted(row.items())).encode()) % 2 == 0 for row in table.rows]
            with layer_rows.recorded() as calls:
                layer(table, engine({"trtllm": "tensorrt-llm"}.get(maker, maker)))
            found.append(Part(table, _merged(calls, table), np.array(fits), table.column("latency_ms") / 1e3))
    return found


def _kernel(sort: str, row: Row, table: Table) -> str:
    if sort == "gemm":
        return linear_layers.product_library(row, table.engine)
    if sort == "moe":
        return expert_layers.group_library(row)
    if sort.startswith("mla"):
        return engine_layers.latent_kernel(table, absorbed=False, decode=sort == "mlagen")
    name = engine_layers.attention_kernel(row, table, decode=sort == "gen")
    heads = float(row["num_heads"])
    kv_heads = float(row.get("num_key_value_heads") or 0) or heads
    keys = float(row["step"]) + 1.0
    if window := float(row.get("window_size") or 0):
        keys = min(keys, window)
    item = np.array(1.0 if row["kv_cache_dtype"] == "fp8" else 2.0)
    code = np.array(float(attention_libraries.KERNELS.index(name)))
    blocks = float(row["batch_size"]) * kv_heads
    return attention_libraries.KERNELS[
        int(attention_libraries.chosen(code, heads / kv_heads, blocks, keys, item, table.device))
    ]


def _merged(calls: list[tuple[list[Kernel], Table]], table: Table) -> list[Kernel]:
    """The kernels of all calls as columns over the table's rows, in their order."""
    places = {id(row): number for number, row in enumerate(table.rows)}
    order = np.argsort([places[id(row)] for _, part in calls for row in part.rows])

    def joined(values: list[Any]) -> np.ndarray:
        whole = [np.broadcast_to(each, (len(part.rows),)) for each, (_, part) in zip(values, calls, strict=True)]
        return np.concatenate(whole).astype(float)[order]

    numbers = ("count", "read_bytes", "write_bytes", "warm_bytes", "again_bytes", "weight_bytes", "flop")
    made = []
    for place, first in enumerate(calls[0][0]):
        ours = [kernels[place] for kernels, _ in calls]
        columns = {name: joined([each.columns[name] for each in ours]) for name in first.columns}
        whole = {name: joined([getattr(each, name) for each in ours]) for name in numbers}
        made.append(dataclasses.replace(first, columns=columns, **whole))
    return made


def errors(parts: list[Part], values: dict[str, Any]) -> np.ndarray:
    """ln(predicted / measured) of all rows, with other constants."""
    found = []
    for part in parts:
        seconds = layer_rows.seconds_of(part.kernels, _changed(part.table.device, values), len(part.fits))
        found.append(np.log(seconds / part.measured_s))
    return np.concatenate(found)


def _changed(device: Device, values: dict[str, Any]) -> Device:
    """With those constants."""
    known = dict(device.constants.values)
    like = next(iter(known.values()))
    known |= {name: msgspec.structs.replace(like, value=value) for name, value in values.items()}
    return dataclasses.replace(device, constants=msgspec.structs.replace(device.constants, values=known))


def fitted(
    parts: list[Part], topic: str, kernel: str, names: Sequence[str], choices: dict[str, Any]
) -> dict[str, Any]:
    """The constants of the least mean error, about |ln| beyond a tenth, for the best of `choices`."""
    device = parts[0].table.device
    fits = np.concatenate([part.fits for part in parts])
    low, high = (np.log([BOUNDS[name][side] for name in names]) for side in (0, 1))
    # From what the family's own kernel has; from the middle where it has none of that.
    own = [
        known_tiles.start(kernel, name)
        if f"{topic}_{kernel}" in known_tiles.TOPICS
        else device.constants(f"{topic}.{name}")
        for name in names
    ]
    start = [
        np.log(value) if value else (least + most) / 2 for value, least, most in zip(own, low, high, strict=True)
    ]
    first = np.clip(start, low, high)
    hold = HELD if kernel.endswith("_groups") else _HELD_OF.get(kernel, HELD / 10)
    hold *= max(1.0, _MANY_ROWS / np.count_nonzero(fits))
    held = np.array([hold / 4 if name in FREE else hold for name in names])
    head, best, least = f"{topic}_{kernel}." if kernel else f"{topic}.", {}, np.inf
    for chosen in itertools.product(*choices.values()):
        fixed = {head + name: value for name, value in zip(choices, chosen, strict=True)}

        def values(x: np.ndarray, fixed: dict[str, Any] = fixed) -> dict[str, Any]:
            return fixed | {head + n: float(v) for n, v in zip(names, np.exp(np.clip(x, low, high)), strict=True)}

        def loss(x: np.ndarray, values: Any = values) -> float:
            error = errors(parts, values(x))[fits]
            return float(np.mean(np.sqrt(1 + (error / 0.1) ** 2)) + np.sum(held * (x - first) ** 2))

        found = minimize(loss, first, method="Powell", options={"maxfev": 1500, "xtol": 0.02, "ftol": 1e-3})
        if found.fun < least:
            least, best = found.fun, values(found.x)
    after = np.abs(errors(parts, best))
    told = [
        f"{np.expm1(np.median(e)):.1%} / {np.expm1(np.quantile(e, 0.9)):.1%}" for e in (after[fits], after[~fits])
    ]
    # Four of five of the rows that fit shall lie within 1.28 deviations; those are a little closer than others.
    least = 0.04 if np.count_nonzero(fits) > _MANY_ROWS else 0.1
    spread = max(1.05 * float(np.quantile(after[fits], 0.8)) / 1.28, least)
    inside = np.mean(after[~fits] <= 1.28 * spread)
    print(
        parts[0].table.card, kernel, len(fits), "rows: fitted {}, aside {}".format(*told), f"inside {inside:.0%}"
    )
    return best | {head + name: spread for name in (SPREADS[topic] if kernel else ["spread"])}


def _asked(sort: str, kernel: str, by_rows: bool, family: str) -> tuple[str, Sequence[str], dict[str, Any]]:
    """Topic, what is fitted, and what is chosen, of a kernel."""
    if sort == "mlagen":
        tiles = {"tile_keys": [64, 128], "tile_queries": [64, 128], "tile_least": [16, 64]}
        return "attention", [*DECODE.split(), "long_factor"], {"resident": [1], **tiles}
    if sort == "mlactx":
        return "attention", [*PROMPTS, "long_factor"], {"tile_keys": [64, 128], "tile_queries": [64, 128]}
    if f"attention_{kernel}" in known_tiles.TOPICS:
        return known_tiles.asked(sort, kernel)
    if sort == "ctx":
        packs = {"packs": [0], "packs_single": [0]} if kernel.startswith("trtllm") else {"packs": [0, 1]}
        tiles = {"tile_keys": [32, 64, 128], "tile_queries": [64, 128, 256]}
        return "attention", _of_narrow(kernel, PROMPTS), packs | {"resident": [1, 2]} | tiles
    if kernel == "masked_decode":
        return "attention", MASKED.split(), {}
    if kernel.startswith("trtllm") and sort == "gen":
        return "attention", _of_narrow(kernel, DECODE.split()), {"resident": [1, 2], "tile_keys": [64, 128, 256]}
    if kernel == "flashinfer_plain_decode":
        return "attention", DECODE.split(), {"resident": [2, 4, 8], "tile_keys": [64], "tile_least": [1, 4]}
    if sort == "gen":
        return "attention", _of_narrow(kernel, DECODE.split()), {"resident": [1, 2], "tile_keys": [64, 128]}
    if kernel == "trtllm_gen_groups":
        return "matmul", [*GROUPS, "cluster", "alone_share", "share_fp8"], {}
    if sort == "moe":  # their tiles are stated
        shares = {"flashinfer_groups": ["share_half"], "flashinfer_fp8_groups": ["share_fp8"],
                  "block_groups": ["share_fp8"]}.get(kernel, ["share_half", "share_fp8"])  # fmt: skip
        names = [*GROUPS, *(shares if family == "hopper" else shares[:1])]
        if kernel == "triton_groups":  # loads of Triton's pass through the cache alike, tuned or not
            names.remove("cache_share")
            known = load_family(family)("matmul_triton_default_groups.cache_share")
            return "matmul", names, {"cache_share": [known]}
        return "matmul", names, {}
    if not kernel:
        # What cards with power to spare attain (the share of the peak) no L40S shows: power limits it far below.
        share = () if family == "ada" else ("share_half",)
        own = ("step_clocks", "store_bytes_per_clock", "split_s", *share, "joule_per_flop")
        return "matmul", [*PRODUCT, *own], {}
    older = "older_" if kernel == "smooth" else ""
    share = {"smooth": "share_int8", "weight_only": "share_half"}.get(kernel, "share_fp8")
    if kernel == "deepgemm":
        return (
            "matmul",
            [*PRODUCT, "step_clocks", "store_bytes_per_clock", share],
            {"split_most": [1], "tiles": TILES[:1]},
        )
    if kernel.endswith("fp4"):  # its tiles are stated
        return "matmul", [*PRODUCT, "step_clocks", "store_bytes_per_clock", share], {}
    tiles = {} if kernel == "weight_only" or by_rows else {"tiles": TILES}
    names = [*PRODUCT, f"{older}step_clocks", f"{older}store_bytes_per_clock", share]
    return "matmul", names, {"split_most": [1, 64], **tiles}


def _of_narrow(kernel: str, names: Sequence[str]) -> list[str]:
    """Names of constants, of a kernel that multiplies 8 bits or of one that widens them."""
    narrow = attention_libraries.narrows(kernel, 1.0)
    if kernel in attention_libraries.SEARCHES:
        names = [name for name in names if name != "launch_s"]
    return ["narrow_factor" if narrow and name == "widen_factor" else name for name in names]


def write(family: str, values: dict[str, Any], kernel: str) -> None:
    """The constants put into the family's file: in their place, or after the last of their topic."""
    path = FOLDER / f"{family}.toml"
    text = path.read_text(encoding="utf-8")
    general = load_family("any").values
    for name, value in values.items():
        topic, _, short = name.partition(".")
        shown = _shown(short, value)
        place = re.compile(rf"(?m)^\[{re.escape(name)}\]\nvalue = .*$")
        if place.search(text):
            text = place.sub(f"[{name}]\nvalue = {shown}", text)
            continue
        like = general[f"{topic.partition('_')[0]}.{short}"]
        meaning = f"of {WORDS[kernel]}: {like.meaning}" if kernel else like.meaning
        entry = f'[{name}]\nvalue = {shown}\nmeaning = "{meaning}"\nsource = "library_tables"\nfitted = true\n'
        last = [*re.finditer(rf"(?m)^\[{re.escape(topic)}\.[^\]]*\]\n(?:.+\n)*", text)]
        end = last[-1].end() if last else len(text)
        text = text[:end] + "\n" + entry + text[end:]
    path.write_text(text, encoding="utf-8")


def _shown(short: str, value: Any) -> str:
    if isinstance(value, list):
        return str(value)
    return f'"{value * 1e6:.3g} us"' if short.endswith("_s") else format(float(value), ".3g")


FOLDER = Path(rooflab.__file__).parent / "model" / "data"


def main() -> None:
    """Print each constant of the asked kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="*", default=JOBS)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "engines")
    parser.add_argument("--write", action="store_true", help="into the families' files")
    asked = parser.parse_args()
    for job in asked.jobs:
        sort, card, makers, kernel = job.split("/")
        parts = parts_of(sort, card, makers.split("+"), kernel, asked.data)
        known = parts[0].table.device.constants.specialised("matmul", kernel)
        by_rows = len(known.many("matmul.tiles_by_rows")) > 1
        topic, names, choices = _asked(sort, kernel, by_rows, parts[0].table.device.constants.family)
        values = fitted(parts, topic, kernel, names, choices)
        for name, value in values.items():
            print(f"    {name} = {value if isinstance(value, list) else format(value, '.3g')}", flush=True)
        if asked.write:
            write(parts[0].table.device.constants.family, values, kernel)


if __name__ == "__main__":
    main()
