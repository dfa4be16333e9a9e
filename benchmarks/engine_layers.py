"""Kernels of the serving model held against the engines' tables: `python benchmarks/engine_layers.py [--cards]`.

Each table (`gemm_CARD_ENGINE.csv`, `ctx_`, `gen_`, `moe_`, `mlactx_`, `mlagen_`, `allreduce_`) is timed by the
kernels that `rooflab serve` makes of such a layer, all rows in one pass; for each format: rows, median and 90th
percentile of the error as a factor, bias, share inside the bars. `--cards` adds a line for each card and engine.

Constants of the kernel models are a family's (`model/data`), of experts an engine's (`model/engines`); no constant
is of one card, so what a card that is left out loses is judged by `--without CARD`: where its family's constants
of libraries' kernels were fitted to that card's tables they are those of the families it is like, else of those it
is near, of products in proportion to cuBLAS's, which stay (`moved`, `model/device/constants.py`); the engines'
shares of experts (`experts_*`) are fitted on the others' tables alone; that card is judged.
"""

from __future__ import annotations

import argparse
import collections
import csv
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from expert_layers import experts
from layer_rows import CARDS, NODES, Row, Table, launched, timed
from linear_layers import linear
from measured import SHARED

import rooflab
from rooflab.model import collectives, peers
from rooflab.model.engines.engine import Engine, engine
from rooflab.model.kernels.gpu import attention_libraries
from rooflab.model.serving import kernels, latent_cache, row_kernels
from rooflab.model.serving.kernels import Kernel
from rooflab.work.llm.formats import weight_format

_SHARES = {"bfloat16": "half", "fp8": "fp8", "fp8_block": "block", "int4_wo": "widened", "w4a16_mxfp4": "widened",
           "w4a8_mxfp4_mxfp8": "fp4"}  # fmt: skip


class Judged(NamedTuple):
    """One row: its sort and format, card, engine, ln(predicted / measured), ln of the bar."""

    sort: str
    form: str
    card: str
    engine: str
    error: float
    bar: float


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
        if sort not in (sorts or _SORTS) or card not in CARDS:
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


# Of an all-reduce with the copy before it, in those: 25 us on hosts of Hopper's years and later, 44 us on older
# ones (EPYC 7002 beside A100s); in memory that ranks share it is two operations more, about as much again.
_ALL_REDUCE_CALLS = collections.defaultdict(lambda: 0.66, a100_sxm=1.16)


def _form(row: Row) -> str:
    """Formats of queries and cache of an attention row."""
    dtype = row.get("attn_dtype") or row.get("mla_dtype") or "bfloat16"
    return f"{dtype}, cache {row.get('kv_cache_dtype') or dtype}".replace("bfloat16", "bf16")


def attention_kernel(row: Row, table: Table, *, decode: bool) -> str:
    """Which library's attention ran: of `attention_libraries.KERNELS`, before `attention_libraries.chosen`."""
    # vLLM's FlashInfer backends decode what has one new token, whatever it is called.
    decode = decode or row["kernel_source"].endswith("decode")
    return f"{_library(row['kernel_source'], table)}_{'decode' if decode else 'prompts'}"


def _library(source: str, table: Table) -> str:
    """Whose it is."""
    maker = table.engine
    if maker == "trtllm":  # its FlashInfer calls generated kernels on Blackwell: no mma.sync reaches their rates
        generated = table.device.constants.family == "blackwell"
        return ("trtllm_gen" if generated else "flashinfer") if "flashinfer" in source else "trtllm"
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
    given_narrow = table.rows[0]["attn_dtype"] == "fp8"
    for (kernel, heads, kv_heads, size, window), numbers in kinds.items():
        part = table._replace(rows=[table.rows[number] for number in numbers])
        kv_heads = kv_heads or heads
        sequences, step = part.column("batch_size"), part.column("step")
        new = np.ones_like(step) if decode else part.column("isl")
        # Models of heads of 192 (MiMo) have values of 128; SGLang's table has them so by the bytes it reads.
        values = 128 if (table.engine, size) == ("sglang", 192) else size
        tokens, row_bytes = sequences * new, float(kv_heads * (size + values))
        # SGLang's FlashInfer takes a prompt's keys and values as the layer got them, before they are stored.
        given_keys = kernel == "flashinfer_prompts" and table.engine == "sglang"
        attention = kernels.attention(
            "attention", "attend", 1.0, sequences=sequences, new=new, before=step, heads=float(heads),
            kv_heads=float(kv_heads), size=size, values=values, window=window,
            cached_bytes=2.0 if given_keys else item,
            dtype="fp8" if given_narrow or attention_libraries.narrows(kernel, item) else "bf16",
            planned=kernel not in attention_libraries.SEARCHES, kernel=kernel, skips=table.engine != "sglang",
        )  # fmt: skip
        # The same keys again and again: they lie in the last cache, if it holds them.
        made = [dataclasses.replace(attention, warm_bytes=attention.read_bytes)]
        # TensorRT-LLM's layer with FlashInfer stores and casts by kernels of their own too.
        borrows = table.engine == "trtllm" and "flashinfer" in part.rows[0]["kernel_source"]
        if (table.engine == "sglang" or borrows) and item == 1.0:
            made += [
                row_kernels.pointwise("attention", "cast", 1.0, each, reads=2.0, writes=1.0)
                for each in _casts(kernel, tokens * heads * size, tokens * row_bytes / 2.0, given_narrow)
            ]
        if (
            kernel == "vllm_flashinfer_decode"
        ):  # called with a scale of values: the result is multiplied (decode.py)
            made.append(
                row_kernels.pointwise("attention", "scale", 1.0, tokens * heads * values, reads=2.0, writes=2.0)
            )
        given = 1.0 if given_narrow and table.engine == "sglang" and not kernel.startswith("trtllm_gen") else 2.0
        if table.engine != "trtllm" or borrows:
            if table.engine == "sglang":
                made += _by_index(tokens, kernel, apart=values != size)
            written = _write(sequences, new, float(kv_heads), size, 0.0, row_bytes, item, given)
            if table.engine == "vllm" and item == 1.0:  # by the kernel that writes, number by number
                written.columns["converted"] = tokens * row_bytes
            made.insert(0, written)
        elif not decode:  # TensorRT-LLM's decoding kernel turns and writes the one token itself
            q = float(heads * size)
            made.insert(0, _write(sequences, new, float(heads), size, q, row_bytes, item))
        found[numbers], spreads[numbers] = timed(made, part)
    return found, spreads


def _casts(kernel: str, q: np.ndarray, kept: np.ndarray, given_narrow: bool) -> list[np.ndarray]:
    """Elements of the kernels that cast before SGLang's layer attends, beside an 8-bit cache.

    Keys and values are cast before they are stored, q where products are of 8 bits. Given all three so, the layer
    casts none; on Blackwell it casts q all the same, and by its least time runs two small kernels more.
    """
    if given_narrow:
        return [q, np.ones_like(q), np.ones_like(q)] if kernel.startswith("trtllm_gen") else []
    return [kept, kept, q] if attention_libraries.narrows(kernel, 1.0) else [kept, kept]


def _by_index(tokens: np.ndarray, kernel: str, *, apart: bool) -> list[Kernel]:
    """What SGLang's layer runs more where keys and values are of different sizes.

    PyTorch stores each by its index then, which it widens first (mem_cache/memory_pool.py): two kernels more
    by the layer's least time, five beside FlashAttention 3.
    """
    each = tokens if apart else 0.0 * tokens
    count = 5 if kernel.startswith("fa_") else 2
    return [row_kernels.pointwise("attention", "index", 1.0, each, reads=4.0, writes=8.0) for _ in range(count)]


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
    return row_kernels.rows_of_blocks(
        "attention", "positions and cache", 1.0, blocks, threads,
        tokens * (q * 2.0 + kept * given), tokens * (q * 2.0 + kept * item),
    )  # fmt: skip


def latent_kernel(table: Table, *, absorbed: bool, decode: bool) -> str:
    """Whose attention to latent vectors ran: of `attention_libraries.KERNELS`.

    vLLM's FlashMLA decodes as TensorRT-LLM does; its other backend of Hopper calls FlashAttention 3, as SGLang.
    """
    maker = table.engine
    if maker == "vllm" and not absorbed:
        return "vllm_fa_prompts"
    if maker == "vllm" and not decode:
        return "fa_latent_prompts" if table.rows[0]["kernel_source"] == "vllm_flash_attn_mla" else ""
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
            kernel=latent_kernel(table, absorbed=absorbed, decode=decode),
        )  # fmt: skip
        blocks, threads = tokens, 512.0
        if table.engine == "trtllm":
            alike = (tokens, 1.0) if decode else (new, sequences)
            blocks, threads = latent_cache.tensorrt_blocks(*alike, float(heads), decode=decode, narrow=item == 1.0)
        write = row_kernels.rows_of_blocks(
            "attention", "positions and cache", 1.0, blocks, threads, tokens * (heads * 64 + 576.0) * 2.0,
            tokens * (heads * 128.0 + 576.0 * item),
        )  # fmt: skip
        made = [write, attention]
        if widened:
            kept = sequences * (step + new) * 576.0
            made.append(row_kernels.pointwise("attention", "widen", 1.0, kept, reads=1.0, writes=2.0, casts=True))
        if item == 1.0 and not decode and table.engine == "trtllm":
            # q, keys and values are brought to 8 bits before (kernels/mlaKernels.cu).
            narrowed = tokens * heads * (192.0 + 192.0 + 128.0)
            made.append(row_kernels.pointwise("attention", "to 8 bits", 1.0, narrowed, reads=2.0, writes=1.0))
        if table.engine == "vllm":
            made += _expanded(tokens, heads, absorbed=absorbed)
        found[numbers], spreads[numbers] = timed(made, part)
    if table.engine == "vllm":
        # The cache, q into the latent space or keys out of it, attention, the result; with fp8 q is scaled too.
        return launched(found, spreads, 5.0 if item == 1.0 else 4.0)
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
            row_kernels.pointwise("attention", "join keys", 1.0, each * 192.0, reads=2.0, writes=2.0),
        ]
    return [
        kernels.grouped("attention", "q to the latent space", 1.0, each, 512.0, 128.0, heads, bf16, even=True),
        row_kernels.pointwise("attention", "join q", 1.0, each * 576.0, reads=2.0, writes=2.0),
        kernels.grouped("attention", "out of the latent space", 1.0, each, 128.0, 512.0, heads, bf16, even=True),
    ]


def _all_reduce(table: Table, ours: Engine) -> tuple[np.ndarray, np.ndarray]:
    """By the engine's own kernels where it takes them; `message_size` counts elements of two bytes.

    Launched by itself it sums a copy of its input, and its own kernels one more in buffers that their peers know.
    """
    network = collectives.network(rooflab.machine(NODES[table.card]))
    nbytes, ranks = table.column("message_size") * 2.0, table.column("num_gpus")
    eager = "eager" in (table.rows[0].get("backend") or "")
    copy = row_kernels.pointwise("communication", "copy", 1.0, nbytes / 2.0, reads=2.0, writes=2.0)
    copy_s = timed([copy], table)[0]
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
    return launched(seconds, spread, calls * _ALL_REDUCE_CALLS[table.card]) if eager else (seconds, spread)


_SORTS = {
    "gemm": (lambda row: row["gemm_dtype"], linear),
    "ctx": (_form, lambda table, ours: _attention(table, ours, decode=False)),
    "gen": (_form, lambda table, ours: _attention(table, ours, decode=True)),
    "mlactx": (_form, lambda table, ours: _latent(table, ours, decode=False)),
    "mlagen": (_form, lambda table, ours: _latent(table, ours, decode=True)),
    "moe": (lambda row: row["moe_dtype"] + ", no gate" * ("nongated" in row["kernel_source"]), experts),
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
