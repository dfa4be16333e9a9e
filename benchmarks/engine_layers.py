"""Kernels of the serving model held against the engines' tables: `python benchmarks/engine_layers.py [--cards]`.

Each table (`gemm_CARD_ENGINE.csv`, `ctx_`, `gen_`, `moe_`, `mlactx_`, `mlagen_`, `allreduce_`) is timed by the
kernels that `rooflab serve` makes of such a layer, all rows in one pass; for each format: rows, median and 90th
percentile of the error as a factor, bias, share inside the bars. `--cards` adds a line for each card and engine.

Constants of the kernel models are a family's (`model/data`), of experts an engine's (`model/engines`); no constant
is of one card, so what a card that is left out loses is judged by `--without CARD`: its family's constants of
libraries' kernels are those of the family it is like (Ada's Ampere's, Ampere's and Blackwell's Hopper's, Hopper's
none), the engines' shares of experts (`experts_*`) are fitted on the others' tables alone; that card is judged.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import dataclasses
import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import engine_tables
import expert_tables
import msgspec
import numpy as np
from measured import SHARED

import rooflab
from rooflab.model import collectives, peers
from rooflab.model.device import cache_residency
from rooflab.model.device.constants import load_family
from rooflab.model.device.device import Device, device_of
from rooflab.model.engines.engine import Engine, engine
from rooflab.model.serving import kernels
from rooflab.model.serving.feed_forward import Routed, expert_kernels
from rooflab.model.serving.kernels import Kernel
from rooflab.model.serving.timing import timed
from rooflab.types.constants import Constants
from rooflab.work.llm.formats import weight_format

_CARDS = {
    "a100_sxm": "a100-sxm-80gb", "h100_sxm": "h100-sxm", "h200_sxm": "h200", "b200_sxm": "b200",
    "b300_sxm": "b300", "gb200": "gb200", "gb300": "gb300", "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
}  # fmt: skip
_NODES = {
    "a100_sxm": "dgx-a100", "h100_sxm": "dgx-h100", "h200_sxm": "h200-8", "b200_sxm": "b200-8",
    "b300_sxm": "b200-8", "gb200": "gb200-nvl72", "gb300": "gb200-nvl72",
}  # fmt: skip
_GEMM = {"bfloat16": "bf16", "sq": "int8"}
_MOE = {"bfloat16": "bf16", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8"}
_SHARES = {"bfloat16": "half", "fp8": "fp8", "fp8_block": "block", "int4_wo": "widened", "w4a16_mxfp4": "widened",
           "w4a8_mxfp4_mxfp8": "fp4"}  # fmt: skip
Row = dict[str, str]


class Judged(NamedTuple):
    """One row: its sort and format, card, engine, ln(predicted / measured), ln of the bar."""

    sort: str
    form: str
    card: str
    engine: str
    error: float
    bar: float


class Table(NamedTuple):
    """Rows of one file that are timed together."""

    card: str
    engine: str
    rows: list[Row]
    left_out: bool = False

    def column(self, name: str) -> np.ndarray:
        """Of all rows, as numbers; 0 where a row leaves it empty."""
        return np.array([float(row.get(name) or 0) for row in self.rows])

    @property
    def device(self) -> Device:
        """The card at its lasting clock: rows are repeated for long."""
        return _device(self.card, self.left_out)


@functools.cache
def _device(card: str, left_out: bool = False) -> Device:
    device = device_of(rooflab.machine(_CARDS[card]), power="sustained")
    return dataclasses.replace(device, constants=_of_others(device.constants)) if left_out else device


def _of_others(constants: Constants) -> Constants:
    """A family's constants without what was fitted to tables of its card: those of the family that it is like."""
    raw = tomllib.loads((FOLDER / f"{constants.family}.toml").read_text(encoding="utf-8"))
    own = {
        f"{topic}.{name}"
        for topic, entries in raw.items()
        if isinstance(entries, dict) and topic != "sources"
        for name, entry in entries.items()
        if entry.get("source") == "library_tables"
    }
    like = load_family(raw["like"]).values if raw.get("like") else {}
    kept = {name: each for name, each in constants.values.items() if name not in own}
    return msgspec.structs.replace(constants, values=kept | {name: like[name] for name in own & like.keys()})


FOLDER = Path(rooflab.__file__).parent / "model" / "data"


def judged(
    data: Path,
    shares: dict[str, dict[str, float]] | None = None,
    sorts: tuple[str, ...] = (),
    without: str | None = None,
) -> Iterator[Judged]:
    """All rows, or those of some sorts; `shares` replaces numbers of engines, by their files' names.

    The rows of the card `without` are timed with constants of libraries' kernels of the families it is like.
    """
    for path in sorted(data.glob("*_*.csv")):
        sort, card, made_by = _parts(path.stem)
        maker = {"trtllm": "tensorrt-llm"}.get(made_by, made_by)
        if sort not in (sorts or _SORTS) or card not in _CARDS:
            continue
        ours = dataclasses.replace(engine(maker), **(shares or {}).get(maker, {}))
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        apart, layers = _SORTS[sort]
        for form in sorted({apart(row) for row in rows}):
            table = Table(card, made_by, [row for row in rows if apart(row) == form], card == without)
            seconds, spread = layers(table, ours)
            errors = np.log(seconds * 1e3 / table.column("latency_ms"))
            for error, each in zip(errors, np.broadcast_to(spread, errors.shape), strict=True):
                yield Judged(sort, form, card, made_by, float(error), 1.28 * float(each))


def _parts(stem: str) -> tuple[str, str, str]:
    sort, _, rest = stem.partition("_")
    card, _, made_by = rest.rpartition("_")
    return sort, card, made_by


_RECORDED: list[list[tuple[list[Kernel], Table]]] = []


@contextlib.contextmanager
def recorded() -> Iterator[list[tuple[list[Kernel], Table]]]:
    """While it lasts, layers' kernels are kept and not timed."""
    _RECORDED.append([])
    try:
        yield _RECORDED[-1]
    finally:
        _RECORDED.pop()


def seconds_of(made: list[Kernel], device: Device, rows: int) -> np.ndarray:
    """Seconds of the kernels together, row by row."""
    return sum((each.seconds for each in timed(made, device, None, rows)), np.zeros(rows))


def _timed(made: list[Kernel], table: Table) -> tuple[np.ndarray, np.ndarray]:
    if _RECORDED:
        _RECORDED[-1].append((made, table))
        return np.ones(len(table.rows)), np.ones(len(table.rows))
    times = timed(made, table.device, None, len(table.rows))
    seconds = sum((each.seconds for each in times), np.zeros(len(table.rows)))
    spread = sum((each.seconds * each.spread for each in times), np.zeros(len(table.rows)))
    return seconds, spread / seconds


def _gemm(table: Table, ours: Engine) -> tuple[np.ndarray, np.ndarray]:
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
        found[numbers], spreads[numbers] = _timed(made, part)
        if (table.engine, word) == ("vllm", "fp8_block"):
            packs = table.device.constants.family == "blackwell"
            calls = np.array([_block_calls(row, packs) for row in part.rows])
            found[numbers], spreads[numbers] = _launched(found[numbers], spreads[numbers], calls)
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


# Host time of an operation that Python launches by itself: between what small eager all-reduces of vLLM on an A100
# (44 us) and on an H100 (24 us), and of SGLang on an H100 (30 us), take. A Triton kernel counts for four: its
# launcher is Python too. Operations of each layer are counted by what the engine's code calls.
_CALL_S = 38e-6
_TRITON = 4.0
# A wrapper of FlashInfer's in Python; DeepGEMM's call, which looks for its compiled kernel.
_WRAPPED, _COMPILES = 1.6, 1.3
# Of an all-reduce with the copy before it, in those: 25 us on hosts of Hopper's years and later, 44 us on older
# ones (EPYC 7002 beside A100s); in memory that ranks share it is two operations more, about as much again.
_ALL_REDUCE_CALLS = collections.defaultdict(lambda: 0.66, a100_sxm=1.16)


def _launched(seconds: np.ndarray, spread: np.ndarray, calls: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """The later of the device and the host that launches it, call by call, outside a graph."""
    host_s = calls * _CALL_S
    return np.maximum(seconds, host_s), np.where(host_s > seconds, 0.3, spread)


def _block_calls(row: Row, packs: bool) -> float:
    """Operations of vLLM's block-scaled layer: rows scaled, then the product; see `_CALL_S`.

    `packs`: whether DeepGEMM wants scales of two exponents packed, which a Triton kernel does.
    """
    source = row["kernel_source"]
    if "FlashInfer" in source:  # scales rows itself, within one call of a Python wrapper
        return _WRAPPED
    scales = _TRITON if "Triton" in source or "Cutlass" in source or packs else 1.0
    return scales + (_TRITON if "Triton" in source else _COMPILES if "DeepGemm" in source else 1.0)


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


def _form(row: Row) -> str:
    """Formats of queries and cache of an attention row."""
    dtype = row.get("attn_dtype") or row.get("mla_dtype") or "bfloat16"
    return f"{dtype}, cache {row.get('kv_cache_dtype') or dtype}".replace("bfloat16", "bf16")


def attention_kernel(row: Row, table: Table, *, decode: bool) -> str:
    """Which library's attention ran: of `gpu_attention.KERNELS`, before `gpu_attention.chosen`."""
    return f"{_library(row['kernel_source'], table)}_{'decode' if decode else 'prompts'}"


def _library(source: str, table: Table) -> str:
    """Whose it is."""
    maker = table.engine
    if maker == "trtllm":
        return "flashinfer" if "flashinfer" in source else "trtllm"
    for word, name in (("triton", "triton"), ("trtllm", "trtllm_gen"), ("flashinfer", "flashinfer")):
        if word in source:
            return "vllm_flashinfer" if (name, maker) == ("flashinfer", "vllm") else name
    # FlashAttention 3 is Hopper's.
    older = table.device.constants.family != "hopper"
    return "fa2" if older else "vllm_fa" if maker == "vllm" else "fa"


def _attention(table: Table, ours: Engine, *, decode: bool) -> tuple[np.ndarray, np.ndarray]:
    """RoPE where the engine's layer has it, writing of the cache, attention: rows of one size together."""
    found, spreads = np.zeros(len(table.rows)), np.zeros(len(table.rows))
    kinds = collections.defaultdict(list)
    for number, row in enumerate(table.rows):
        sizes = (int(float(row.get(name) or 0)) for name in _HEADS)
        kinds[attention_kernel(row, table, decode=decode), *sizes].append(number)
    item = 1.0 if table.rows[0]["kv_cache_dtype"] == "fp8" else 2.0
    narrow = table.rows[0]["attn_dtype"] == "fp8"
    for (kernel, heads, kv_heads, size, window), numbers in kinds.items():
        part = table._replace(rows=[table.rows[number] for number in numbers])
        kv_heads = kv_heads or heads
        sequences, step = part.column("batch_size"), part.column("step")
        new = np.ones_like(step) if decode else part.column("isl")
        tokens, row_bytes = sequences * new, float(2 * kv_heads * size)
        attention = kernels.attention(
            "attention", "attend", 1.0, sequences=sequences, new=new, before=step, heads=float(heads),
            kv_heads=float(kv_heads), size=size, values=size, window=window, cached_bytes=item,
            dtype="fp8" if narrow else "bf16", planned=True, kernel=kernel,
            skips=table.engine != "sglang",
        )  # fmt: skip
        # The same keys again and again: they lie in the last cache, if it holds them.
        made = [dataclasses.replace(attention, warm_bytes=attention.read_bytes)]
        if table.engine == "sglang" and item == 1.0:
            q, kept = tokens * heads * size, tokens * row_bytes / 2.0
            # Keys and values cast before they are stored, q before it meets them; with products of 8 bits the
            # layer gets all three so, but on Blackwell, where q is cast and the rest as it is stored.
            casts = [kept, kept, q] if not narrow else [q] if kernel.startswith("trtllm_gen") else []
            made += [
                kernels.pointwise("attention", "cast", 1.0, each, reads=2.0, writes=1.0, casts=narrow)
                for each in casts
            ]
        given = 1.0 if narrow and table.engine == "sglang" and not kernel.startswith("trtllm_gen") else 2.0
        if table.engine != "trtllm":
            made.insert(0, _write(sequences, new, float(kv_heads), size, 0.0, row_bytes, item, given))
        elif not decode:  # TensorRT-LLM's decoding kernel turns and writes the one token itself
            q = float(heads * size)
            made.insert(0, _write(sequences, new, float(heads), size, q, row_bytes, item))
        if table.engine == "vllm" and item == 1.0 and not decode:
            made.insert(
                0, kernels.norm("attention", "scale q", 1.0, tokens, float(heads * size), reads=2.0, writes=1.0)
            )
        found[numbers], spreads[numbers] = _timed(made, part)
    return found, spreads


_HEADS = ("num_heads", "num_key_value_heads", "head_dim", "window_size")


def _write(
    sequences: np.ndarray,
    new: np.ndarray,
    heads: float,
    size: int,
    q: float,
    kept: float,
    item: float,
    given: float = 2.0,
) -> kernels.Kernel:
    """The kernel that turns `q` elements of a token, and writes `kept`, of `given` bytes each, into the cache.

    Where it turns q a block of 256 threads, 16 bytes each, has tokens of one head; else it has a token.
    """
    tokens = sequences * new
    blocks = sequences * np.ceil(new / max(1, 2048 // size)) * heads if q else tokens
    threads = 256.0 if q else min(512.0, kept / 2.0)
    return kernels.rows_of_blocks(
        "attention", "positions and cache", 1.0, blocks, threads,
        tokens * (q * 2.0 + kept * given), tokens * (q * 2.0 + kept * item),
    )  # fmt: skip


def latent_kernel(maker: str, *, absorbed: bool, decode: bool) -> str:
    """Whose attention to latent vectors ran: of `gpu_attention.KERNELS`; of vLLM's what TensorRT-LLM's is like."""
    if maker == "vllm" and not absorbed:
        return "vllm_fa_prompts"
    if maker == "vllm" and not decode:
        return ""
    return f"{'fa' if maker == 'sglang' else 'trtllm'}_latent_{'decode' if decode else 'prompts'}"


# Up to how many new tokens of a sequence vLLM's backends meet the latent vector itself, as in decoding
# (v1/attention/backends/mla: reorder_batch_threshold).
_ABSORBED_TOKENS = {"vllm_flash_attn_mla": 512.0, "vllm_flashmla": 128.0}


def _latent(table: Table, ours: Engine, *, decode: bool) -> tuple[np.ndarray, np.ndarray]:
    """DeepSeek's attention without its projections: 512 + 64 numbers a token, 128 + 64 a head in a prompt.

    SGLang's FlashAttention meets the latent vector itself in prompts too, after an 8-bit cache was widened by
    PyTorch. vLLM's layer was launched by Python.
    """
    item = 1.0 if table.rows[0]["kv_cache_dtype"] == "fp8" else 2.0
    found, spreads = np.zeros(len(table.rows)), np.zeros(len(table.rows))
    kinds = collections.defaultdict(list)
    for number, row in enumerate(table.rows):
        short = float(row["isl"]) <= _ABSORBED_TOKENS.get(row["kernel_source"], 0.0)
        kinds[int(row["num_heads"]), decode or short or table.engine == "sglang"].append(number)
    for (heads, absorbed), numbers in kinds.items():
        part = table._replace(rows=[table.rows[number] for number in numbers])
        sequences, step = part.column("batch_size"), part.column("step")
        new = np.ones_like(step) if decode else part.column("isl")
        tokens = sequences * new
        widened = item == 1.0 and table.engine == "sglang"
        attention = kernels.attention(
            "attention", "attend", 1.0, sequences=sequences, new=new, before=step, heads=float(heads),
            kv_heads=1.0 if absorbed else float(heads), size=576 if absorbed else 192,
            values=512 if absorbed else 128,
            cached_bytes=ours.latent_bytes(table.device.constants.family, item) if decode and not widened else 2.0,
            v_in_k=absorbed, planned=True,
            dtype="fp8" if item == 1.0 and table.engine == "trtllm" else "bf16",
            kernel=latent_kernel(table.engine, absorbed=absorbed, decode=decode),
        )  # fmt: skip
        write = kernels.rows_of_blocks(
            "attention", "positions and cache", 1.0, tokens, 512.0, tokens * (heads * 64 + 576.0) * 2.0,
            tokens * (heads * 128.0 + 576.0 * item),
        )  # fmt: skip
        made = [write, attention]
        if widened:
            kept = sequences * (step + new) * 576.0
            made.append(kernels.pointwise("attention", "widen", 1.0, kept, reads=1.0, writes=2.0, casts=True))
        if item == 1.0 and not decode and table.engine == "trtllm":
            # q, keys and values are brought to 8 bits before (kernels/mlaKernels.cu).
            narrowed = tokens * heads * (192.0 + 192.0 + 128.0)
            made.append(kernels.pointwise("attention", "to 8 bits", 1.0, narrowed, reads=2.0, writes=1.0))
        if table.engine == "vllm":
            made += _expanded(tokens, heads, absorbed=absorbed)
        found[numbers], spreads[numbers] = _timed(made, part)
    if table.engine == "vllm":
        # The cache, q into the latent space or keys out of it, attention, the result; with fp8 q is scaled too.
        return _launched(found, spreads, 5.0 if item == 1.0 else 4.0)
    return found, spreads


def _expanded(tokens: np.ndarray, heads: int, *, absorbed: bool) -> list[Kernel]:
    """What vLLM's layer holds beside attention: keys and values out of the latent vector, or q and the result.

    vllm-project/vllm, v1/attention/backends/mla/common.py: prompts multiply by kv_b_proj and join keys with their
    turned part; single tokens multiply q by W_UK and join it with its turned part, and the result by W_UV.
    """
    bf16, each = weight_format("bf16"), tokens * heads
    if not absorbed:
        return [
            kernels.product("attention", "expand keys and values", 1.0, tokens, heads * 256.0, 512.0, bf16),
            kernels.pointwise("attention", "join keys", 1.0, each * 192.0, reads=2.0, writes=2.0),
        ]
    return [
        kernels.grouped("attention", "q to the latent space", 1.0, each, 512.0, 128.0, heads, bf16, even=True),
        kernels.pointwise("attention", "join q", 1.0, each * 576.0, reads=2.0, writes=2.0),
        kernels.grouped("attention", "out of the latent space", 1.0, each, 128.0, 512.0, heads, bf16, even=True),
    ]


def _experts(table: Table, ours: Engine) -> tuple[np.ndarray, np.ndarray]:
    """A layer of experts; rows of one library together."""
    found, spreads = np.zeros(len(table.rows)), np.zeros(len(table.rows))
    kinds = collections.defaultdict(list)
    for number, row in enumerate(table.rows):
        kinds[group_library(row), expert_tables.without_gate(row)].append(number)
    for (library, _), numbers in kinds.items():
        part = table._replace(rows=[table.rows[number] for number in numbers])
        found[numbers], spreads[numbers] = _timed(_routed(part, ours, library), part)
    return found, spreads


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
        tokens=tokens, rows=np.array([rows for rows, _ in loads], float),
        active=np.array([active for _, active in loads], float), chosen=chosen, experts=experts, hidden=hidden,
        inner=np.maximum(inner / ways, 1.0), ways=ranks, all_rows=library.startswith("triton"), library=library,
        tile_rows=np.array([expert_tables.tile_rows(row) for row in table.rows]),
    )  # fmt: skip
    return expert_kernels(ours, weight_format(_MOE.get(word, word)), routed, 1.0, gated=not plain)


_EARLY = ("1.0.0", "0.14.0")  # of TensorRT-LLM and vLLM: see `expert_tables.load`


def _all_reduce(table: Table, ours: Engine) -> tuple[np.ndarray, np.ndarray]:
    """By the engine's own kernels where it takes them; `message_size` counts elements of two bytes.

    Launched by itself it sums a copy of its input, and its own kernels one more in buffers that their peers know.
    """
    network = collectives.network(rooflab.machine(_NODES[table.card]))
    nbytes, ranks = table.column("message_size") * 2.0, table.column("num_gpus")
    eager = "eager" in (table.rows[0].get("backend") or "")
    copy = kernels.pointwise("communication", "copy", 1.0, nbytes / 2.0, reads=2.0, writes=2.0)
    copy_s = _timed([copy], table)[0]
    seconds, calls = np.zeros_like(nbytes), np.ones_like(nbytes)
    for ways in np.unique(ranks):
        rows, family = ranks == ways, table.device.constants.family
        sums = ours.sums(family, int(ways))
        assert sums is not None  # all of these engines have such kernels
        seconds[rows] = peers.peer_all_reduce(nbytes[rows], ways, network, sums).time_s
        most = sums.peer_bytes or 0.0
        own = nbytes[rows] <= most if sums.includes else nbytes[rows] < most
        calls[rows] += ~own & (nbytes[rows] <= sums.shared_bytes)
        copies = 1.0 + own
        if eager:
            seconds[rows] += copies * copy_s[rows]
    spread = np.full(len(table.rows), 0.1)
    return _launched(seconds, spread, calls * _ALL_REDUCE_CALLS[table.card]) if eager else (seconds, spread)


_SORTS = {
    "gemm": (lambda row: row["gemm_dtype"], _gemm),
    "ctx": (_form, lambda table, ours: _attention(table, ours, decode=False)),
    "gen": (_form, lambda table, ours: _attention(table, ours, decode=True)),
    "mlactx": (_form, lambda table, ours: _latent(table, ours, decode=False)),
    "mlagen": (_form, lambda table, ours: _latent(table, ours, decode=True)),
    "moe": (lambda row: row["moe_dtype"] + ", no gate" * ("nongated" in row["kernel_source"]), _experts),
    "allreduce": (lambda row: (row.get("backend") or "").rpartition("_")[2] or "graph", _all_reduce),
}


def sorts() -> dict[str, Any]:
    """Of each sort of table: what tells its formats apart, and what times its rows."""
    return _SORTS


def fitted_shares(data: Path, without: str | None = None) -> dict[str, dict[str, float]]:
    """`experts_*` of each engine by the tables of all cards but `without`: the least median error on a grid.

    What an engine has no rows of keeps the number of its file.
    """
    tried: dict[tuple[str, str], dict[float, list[float]]] = collections.defaultdict(dict)
    makers = ("vllm", "sglang", "tensorrt-llm")
    for share in (0.2, 0.25, 0.3, 0.35, 0.45, 0.55, 0.65, 0.8, 1.0, 1.2):
        changed = {name: {f"experts_{part}": share for part in set(_SHARES.values())} for name in makers}
        errors: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
        for each in judged(data, changed, ("moe",)):
            if each.card != without:
                maker = {"trtllm": "tensorrt-llm"}.get(each.engine, each.engine)
                errors[maker, _SHARES[each.form.partition(",")[0]]].append(abs(each.error))
        for key, values in errors.items():
            tried[key][share] = values
    found: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for (maker, part), by_share in tried.items():
        best = min(by_share, key=lambda share: float(np.median(by_share[share])))
        if len(by_share[best]) >= 20:
            found[maker][f"experts_{part}"] = best
    return found


def summary(name: str, rows: list[Judged]) -> str:
    """One line."""
    errors = np.array([row.error for row in rows])
    size, bars = np.abs(errors), np.array([row.bar for row in rows])
    return (
        f"{name:44} {len(rows):5}  median {np.expm1(np.median(size)):6.1%}  p90 "
        f"{np.expm1(np.quantile(size, 0.9)):6.1%}  bias {np.exp(np.median(errors)):5.2f}  inside "
        f"{np.mean(size <= bars):4.0%}  high/low {np.exp(2 * np.median(bars)):4.2f}"
    )


def main() -> None:
    """Print a line for each sort and format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "engines")
    parser.add_argument("--cards", action="store_true", help="a line for each card and engine too")
    parser.add_argument("--without", metavar="CARD", help="fit without this card (a100_sxm, …), judge it alone")
    asked = parser.parse_args()
    shares = fitted_shares(asked.data, asked.without) if asked.without else None
    if shares is not None:
        print(f"fitted without {asked.without}: { {name: dict(each) for name, each in shares.items()} }")
    rows = [each for each in judged(asked.data, shares, (), asked.without) if asked.without in (None, each.card)]
    for sort in dict.fromkeys(row.sort for row in rows):
        print(summary(sort, [row for row in rows if row.sort == sort]))
        for form in sorted({row.form for row in rows if row.sort == sort}):
            ours = [row for row in rows if (row.sort, row.form) == (sort, form)]
            print(summary(f"  {form}", ours))
            for place in sorted({(row.card, row.engine) for row in ours}) if asked.cards else ():
                print(summary(f"    {' '.join(place)}", [row for row in ours if (row.card, row.engine) == place]))


if __name__ == "__main__":
    main()
