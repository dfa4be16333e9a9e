"""Measured kernel times as CSV: matrix products, attention, collectives (ai-dynamo/aiconfigurator, Apache-2.0).

Which of them a file holds its columns say, not its name. Times are in a column `latency_ms` (or `latency`, in ms),
the card in `device`, else in the file's name after its first part (`gemm_l40s.csv`).
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import attention_layers
import engine_tables
import expert_tables
from measured import Case, LeftOut

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.machine import Machine
from rooflab.types.report import Report

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float": "fp32", "float32": "fp32"}

# What the words of `gemm_dtype` multiply: activations by weights. Scales by block or tensor are not counted;
# "sq" is SmoothQuant (W8A8), "_wo" weight-only, "_ootb" and "_static" say who quantises.
GEMM_DTYPES = {
    "bf16": ("bf16", "bf16"),
    "fp16": ("fp16", "fp16"),
    "fp32": ("fp32", "fp32"),
    "tf32": ("tf32", "tf32"),
    "fp8": ("fp8", "fp8"),
    "fp8_block": ("fp8", "fp8"),
    "fp8_ootb": ("fp8", "fp8"),
    "fp8_static": ("fp8", "fp8"),
    "int8": ("int8", "int8"),
    "sq": ("int8", "int8"),
    "int8_wo": ("bf16", "int8"),
    "int4_wo": ("bf16", "int4"),
    "nvfp4": ("fp4", "fp4"),
}


class _Row(NamedTuple):
    """What one row of a table measured; `apart` names the table of its own that it is judged in.

    Its report does it `times` times.
    """

    kind: str
    name: str
    report: Report
    settings: dict[str, Any]
    apart: str = ""
    times: int = 1


class _Layout(NamedTuple):
    """A sort of table: the columns that it is known by, and how a row of it is read."""

    columns: frozenset[str]
    read: Callable[[dict[str, str]], _Row]


def gemm(data: Path) -> Iterator[Case | LeftOut]:
    """The products of `data/*.csv`: x (m, k) times w (n, k) transposed; weights not in the cache."""
    return _cases(data, "gemm")


def attention(data: Path) -> Iterator[Case | LeftOut]:
    """The attention of `data/*.csv`: prefill, decode with `step` tokens in a cache, encoders; engines' layers."""
    return _cases(data, "attention")


def nccl(data: Path) -> Iterator[Case | LeftOut]:
    """The collectives of `data/*.csv`: `message_size` counts elements."""
    return _cases(data, "nccl")


def scaling(data: Path) -> Iterator[Case | LeftOut]:
    """What quantising activations takes in `data/*.csv`: the cast with a known scale, and finding the scale."""
    return _cases(data, "scaling")


def all_reduce(data: Path) -> Iterator[Case | LeftOut]:
    """The all-reduces of `data/*.csv` by serving engines' own kernels."""
    return _cases(data, "allreduce")


def experts(data: Path) -> Iterator[Case | LeftOut]:
    """The layers of experts of `data/*.csv`."""
    return _cases(data, "moe")


def unread(data: Path) -> Iterator[LeftOut]:
    """The files of `data` that are none of these tables, or have no rows."""
    for path in sorted(data.glob("*.csv")):
        rows = _rows(path)
        if not rows:
            yield LeftOut(path.name, "no rows")
        elif _sort(rows[0]) is None:
            yield LeftOut(path.name, "by its columns no table of products, quantising, attention or collectives")


def _cases(data: Path, sort: str) -> Iterator[Case | LeftOut]:
    for path in sorted(data.glob("*.csv")):
        rows = _rows(path)
        if not rows or _sort(rows[0]) != sort:
            continue
        for row in rows:
            try:
                yield _case(path, row, _LAYOUTS[sort].read(row))
            except (RooflabError, KeyError, ValueError) as error:
                why = f"no column {error}" if isinstance(error, KeyError) else str(error)
                yield LeftOut(path.name, why)


def _sort(row: dict[str, str]) -> str | None:
    return next((name for name, layout in _LAYOUTS.items() if layout.columns <= row.keys()), None)


def _case(path: Path, row: dict[str, str], found: _Row) -> Case:
    column = "latency_ms" if "latency_ms" in row else "latency"
    seconds = _number(row, column) / 1e3
    if not seconds > 0:
        raise ValueError(f"{column}: {row[column]!r}, expected milliseconds above 0")
    device = row.get("device") or path.stem.partition("_")[2]
    machine = _device(device)
    table = path.stem + found.apart
    return Case(table, found.kind, found.name, found.report, machine, seconds * found.times, found.settings)


def _gemm(row: dict[str, str]) -> _Row:
    m, n, k = (_whole(row, name) for name in "mnk")
    if min(m, n, k) < 1:
        raise ValueError(f"product {m}x{n}x{k}, expected sizes above 0")
    word = DTYPES.get(row["gemm_dtype"], row["gemm_dtype"])
    if word not in GEMM_DTYPES:
        raise ValueError(f"gemm_dtype {word!r}: what it multiplies is not known; known: {', '.join(GEMM_DTYPES)}")
    apart = "" if word in ("bf16", "fp16") else f", {word}"
    if row.get("framework"):
        run = engine_tables.linear(row["framework"].lower(), word, (m, n, k))
        return _Row("gemm", f"{m}x{n}x{k}", run.report, run.settings, apart, run.times)
    dtype, weights = GEMM_DTYPES[word]
    report = rooflab.op("linear", (m, k), f"{n}x{k}:{weights}", dtype=dtype)
    # Thousands of repeats on rotating operands: the clock is the lasting one.
    settings = {"mode": "graph", "cache": "cold", "power": "sustained"}
    return _Row("gemm", f"{m}x{n}x{k}", report, settings, apart)


def _scaling(row: dict[str, str]) -> _Row:
    make = {"scale_matrix": engine_tables.quantize, "compute_scale": engine_tables.scale}.get(row["op_name"])
    if make is None:
        raise ValueError(f"op_name {row['op_name']!r}, expected scale_matrix or compute_scale")
    m, k = _whole(row, "m"), _whole(row, "k")
    run = make(row["framework"].lower(), m, k)
    return _Row(row["op_name"], f"{m}x{k}", run.report, run.settings, "", run.times)


def _experts(row: dict[str, str]) -> _Row:
    names = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    sizes = [_whole(row, name) for name in names]
    gated = "nongated" not in row["kernel_source"]
    tokens, hidden, inner, chosen, experts, tensor_ranks, expert_ranks = sizes
    layer = expert_tables.Layer(
        tokens, hidden, inner, chosen, experts, tensor_ranks, expert_ranks, row["distribution"], gated
    )
    run = expert_tables.experts(row["framework"].lower(), row["moe_dtype"], layer)
    name = "/".join(map(str, (*sizes, row["distribution"])))
    apart = "" if row["moe_dtype"] == "bfloat16" else f", {row['moe_dtype']}"
    return _Row("experts", name, run.report, run.settings, apart, run.times)


def _attention(row: dict[str, str]) -> _Row:
    layer = _layer(row)
    name = "/".join(map(str, (*layer.sizes, layer.window)))
    if layer.engine:
        name = f"{name}/{layer.dtype}/{layer.cached}/{layer.kernel}"
    settings = {"mode": "graph", "cache": "warm", "power": "burst"}
    return _Row(row["op_name"], name, attention_layers.report(layer), settings)


def _layer(row: dict[str, str]) -> attention_layers.Layer:
    """The layer of attention that a row timed; one without `framework` of attention alone."""
    sort = attention_layers.ALSO_CALLED.get(row["op_name"], row["op_name"])
    if sort not in attention_layers.SORTS:
        raise ValueError(f"op_name {sort!r}, expected {', '.join(attention_layers.SORTS)}")
    batch, new, heads = (_whole(row, name) for name in ("batch_size", "isl", "num_heads"))
    dtype = _dtype(row, "mla_dtype" if "mla" in sort else "attn_dtype")
    before, cached = 0, dtype
    if sort != "encoder_attention":
        before, cached = _whole(row, "step"), _dtype(row, "kv_cache_dtype")
    if "mla" in sort:
        kv, size, values = attention_layers.latent(sort, heads)
    else:
        kv = _whole(row, "num_key_value_heads") if row.get("num_key_value_heads") else heads
        size = values = _whole(row, "head_dim")
    return attention_layers.Layer(
        sort=sort,
        sizes=(batch, new, before, heads, kv, size),
        values=values,
        window=_whole(row, "window_size") if row.get("window_size") else 0,
        dtype=dtype,
        cached=cached,
        engine=row.get("framework", ""),
        kernel=row.get("kernel_source", ""),
    )


def _dtype(row: dict[str, str], column: str) -> str:
    word = row.get(column) or "bf16"
    return DTYPES.get(word, word)


def _engine_all_reduce(row: dict[str, str]) -> _Row:
    """The kernels of serving engines that read their peers' memory: `message_size` counts elements."""
    dtype = _dtype(row, "allreduce_dtype")
    ranks, size = _whole(row, "num_gpus"), _whole(row, "message_size")
    report = rooflab.op("all_reduce", (size,), dtype=dtype, ranks=ranks, peers=True)
    backend = row.get("backend") or ""
    mode = "eager" if backend.endswith("eager") else "graph"
    name = f"all_reduce {dtype} {ranks} x {size} {backend}".rstrip()
    return _Row(f"all_reduce, {mode}", name, report, {"mode": mode, "cache": "warm", "power": "burst"})


def _nccl(row: dict[str, str]) -> _Row:
    kind = {"alltoall": "all_to_all"}.get(row["op_name"], row["op_name"])
    dtype = _dtype(row, "nccl_dtype")
    ranks, size = _whole(row, "num_gpus"), _whole(row, "message_size")
    # The message is what all ranks hold together: of all_gather the result, not one rank's part.
    elements = size // (ranks if kind == "all_gather" else 1)
    report = rooflab.op(kind, (elements,), dtype=dtype, ranks=ranks)
    name = f"{kind} {dtype} {ranks} x {size}"
    return _Row(kind, name, report, {"mode": "graph", "cache": "warm", "power": "burst"})


_LAYOUTS = {
    "scaling": _Layout(frozenset(("op_name", "quant_dtype", "m", "k")), _scaling),
    "gemm": _Layout(frozenset(("gemm_dtype", "m", "n", "k")), _gemm),
    "attention": _Layout(frozenset(("op_name", "batch_size", "isl", "num_heads")), _attention),
    "moe": _Layout(frozenset(("moe_dtype", "num_tokens", "num_experts")), _experts),
    "allreduce": _Layout(frozenset(("allreduce_dtype", "num_gpus", "message_size")), _engine_all_reduce),
    "nccl": _Layout(frozenset(("op_name", "nccl_dtype", "num_gpus", "message_size")), _nccl),
}


def _number(row: dict[str, str], column: str) -> float:
    try:
        return float(row[column] or "")
    except ValueError:
        raise ValueError(f"{column}: {row[column]!r}, expected a number") from None


def _whole(row: dict[str, str], column: str) -> int:
    found = _number(row, column)
    if found != int(found):
        raise ValueError(f"{column}: {row[column]!r}, expected a whole number")
    return int(found)


@functools.cache
def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@functools.cache
def _device(name: str) -> Machine:
    return rooflab.machine(name)
