"""What serving engines ran for each row of their tables of mixtures of experts, as graphs written by hand.

Tokens are routed to experts, gathered by expert, multiplied twice with an activation between, and added up again.
How many rows the rank that is timed gets, and how many of its experts they meet, follows from how the maker of the
tables drew the load: see `load`.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from engine_tables import GRAPH, Program, Run, scale_rows

# Format of the activations in the products, that of the weights, and whether each row is scaled before.
FORMATS = {
    "bfloat16": ("bf16", "bf16", False),
    "fp8": ("fp8", "fp8", True),
    "fp8_block": ("fp8", "fp8", True),
    "int4_wo": ("bf16", "int4", False),
    "w4a16_mxfp4": ("bf16", "int4", False),
    "w4a8_mxfp4_mxfp8": ("fp8", "fp4", True),
}
_DRAWS = 64


class Layer(NamedTuple):
    """A layer of experts: tokens that reach the group of ranks, sizes, how it is split over ranks."""

    tokens: int
    hidden: int
    inner: int
    chosen: int
    experts: int
    tensor_ranks: int
    expert_ranks: int
    distribution: str
    gated: bool = True  # two matrices lead to the inner size, one of them to a gate
    early: bool = False  # drawn by the collector's first form: see `load`


class Load(NamedTuple):
    """What reaches the busiest rank: rows, how many of its experts get any, tiles they fill by rows of a tile."""

    rows: int
    active: int
    tiles: dict[int, float]


TILES = (8, 16, 32, 64, 128, 256)


@functools.cache
def load(layer: Layer) -> Load:
    """The load of the busiest rank: the mean of some draws.

    "power_law_A": each expert's share is drawn from x^-A between 1 and 0.8 of the tokens (between 0.01 and 2
    where there are fewer rows than experts), as aiconfigurator's collector does; the rank with most is timed. A
    token chooses an expert once: what is above the tokens, and what rounding leaves over, goes to the ranks in
    turn, to each one's expert with least. The first form of the collector (1.0 of TensorRT-LLM, 0.14 of vLLM) drew
    again instead, and gave what was left over to experts in the order of their numbers: with few tokens all of it
    to the first rank's.
    """
    rows, ranks = layer.tokens * layer.chosen, layer.expert_ranks
    here = max(layer.experts // ranks, 1)
    if layer.distribution == "balanced":
        mine = max(round(rows / ranks), 1)
        met = min(mine, here)
        return Load(mine, met, {size: met * float(np.ceil(mine / met / size)) for size in TILES})
    alpha = float(layer.distribution.rpartition("_")[2])
    low, high = (1.0, layer.tokens * 0.8) if rows > layer.experts else (0.01, 2.0)
    drawn = np.random.default_rng(0).random((16 * _DRAWS, layer.experts))
    shares = ((high ** (1 - alpha) - low ** (1 - alpha)) * drawn + low ** (1 - alpha)) ** (1 / (1 - alpha))
    wanted = shares / shares.sum(axis=1, keepdims=True) * rows
    if layer.early:
        # Where all draws give some expert too many, what is too many goes to those that have room.
        fits = wanted.max(axis=1) <= layer.tokens
        wanted = wanted[fits][:_DRAWS] if fits.any() else _within(wanted[:_DRAWS], layer.tokens)
        each = _in_order(wanted, rows)
        each = each.reshape(len(each), ranks, -1)
    else:
        whole = np.minimum(np.round(wanted[:_DRAWS]), layer.tokens)
        each = _in_turn(whole.reshape(_DRAWS, ranks, -1), rows, layer.tokens)
    busiest = each[np.arange(len(each)), each.sum(axis=2).argmax(axis=1)]
    mine = max(round(float(busiest.sum(axis=1).mean())), 1)
    met = min(max(round(float((busiest > 0).sum(axis=1).mean())), 1), mine)
    filled = {size: float(np.ceil(busiest / size).sum(axis=1).mean()) for size in TILES}
    return Load(mine, met, {size: max(tiles, 1.0) for size, tiles in filled.items()})


def _in_turn(whole: np.ndarray, rows: int, most: float) -> np.ndarray:
    """(draw, rank, expert) rows that are `rows` together: what lacks, or is too much, from rank to rank by one.

    A rank gives it to its expert with least, or takes it from that with most; none has more than `most`.
    """
    while (left := rows - whole.sum(axis=(1, 2))).any():
        room = np.where((left > 0)[:, None], (whole < most).any(axis=2), (whole > 0).any(axis=2))
        whole = np.clip(_levelled(whole, left, room), 0.0, most)
    return whole


def _levelled(whole: np.ndarray, left: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The least of each rank's with room raised to one level by its part of what is left, or the most lowered."""
    here, takers = whole.shape[2], np.maximum(room.sum(axis=1, keepdims=True), 1)
    share = np.floor((np.abs(left)[:, None] - np.cumsum(room, axis=1) + takers) / takers) * room
    sign = np.where(left < 0, -1.0, 1.0)[:, None, None]
    order = np.argsort(sign * whole, axis=2, kind="stable")
    counts = np.take_along_axis(sign * whole, order, axis=2)
    sums, places = np.cumsum(counts, axis=2), np.arange(1.0, here + 1)
    reached = np.maximum(((share[..., None] + sums) / places > counts).sum(axis=2), 1)[..., None]
    total = share[..., None] + np.take_along_axis(sums, reached - 1, axis=2)
    level = np.floor(total / reached)
    over = places > reached - (total - level * reached)
    raised = np.where(places <= reached, level + over, counts)
    made = np.empty_like(whole)
    np.put_along_axis(made, order, sign * raised, axis=2)
    return made


def uneven(load: Load, tile: float) -> float:
    """How uneven groups are by the tiles of so many rows that they fill: 0 as of one size, 1 as `matmul` says."""
    mean, size = load.rows / load.active, min(TILES, key=lambda each: abs(np.log(each / tile)))
    even, spread = float(np.ceil(mean / size)), float(-1.0 / np.expm1(-size / mean))
    if abs(spread - even) < 1e-3:
        return 1.0
    return float(np.clip((load.tiles[size] / load.active - even) / (spread - even), 0.0, 1.5))


def _within(wanted: np.ndarray, most: float) -> np.ndarray:
    """The same with no expert above `most` rows: what is above goes to the others by their room."""
    excess = np.maximum(wanted - most, 0.0).sum(axis=1, keepdims=True)
    kept = np.minimum(wanted, most)
    room = most - kept
    return kept + excess * room / np.maximum(room.sum(axis=1, keepdims=True), 1e-9)


def _in_order(wanted: np.ndarray, rows: int) -> np.ndarray:
    """Whole rows: rounded, what is left over given to the experts with most, the first of those with as many."""
    whole = np.round(wanted)
    places = np.argsort(np.argsort(-whole, axis=1, kind="stable"), axis=1, kind="stable")
    left = rows - whole.sum(axis=1, keepdims=True)
    whole += np.where(left > 0, np.floor((left - 1 - places) / whole.shape[1]) + 1, 0.0).clip(0)
    # Too many: one less each from those with fewest that have any.
    for each, over in zip(whole, -left[:, 0], strict=True):
        some = np.flatnonzero(each)
        each[some[np.argsort(each[some], kind="stable")][: int(max(over, 0))]] -= 1
    return whole


def experts(engine: str, word: str, layer: Layer) -> Run:
    """The layer as `engine` runs it in the number format that `word` names."""
    if word not in FORMATS:
        raise ValueError(f"moe_dtype {word!r}: what it multiplies is not known; known: {', '.join(FORMATS)}")
    multiplied, stored, scaled = FORMATS[word]
    rows, active, _ = load(layer)
    hidden, inner = layer.hidden, max(layer.inner // layer.tensor_ranks, 1)
    here = max(layer.experts // layer.expert_ranks, 1)
    program = Program()
    _route(program, layer)
    if engine == "trtllm":  # the others' products gather their rows themselves
        program.add("embedding", {"x": (layer.tokens, hidden), "places": (rows,)}, "sorted", "bf16")
    for source, weights, k, n in (
        ("sorted", "up", hidden, (1 + layer.gated) * inner),
        ("active", "down", inner, hidden),
    ):
        if scaled:
            scale_rows(program, rows, k, multiplied, source, f"{source} scaled")
        first = f"{source} scaled" if scaled else source
        program.add_grouped((first, rows, k, multiplied), (weights, here, n, stored), f"{weights} out", active)
        if weights == "up":
            if layer.gated:
                program.add("mul", {"up out": (rows, inner), "gate": (rows, inner)}, "active", "bf16")
            else:
                program.add("relu", {"up out": (rows, inner)}, "active", "bf16")
    _gather(program, layer, rows)
    return Run(program.report(f"{word} experts"), 1, GRAPH)


def _route(program: Program, layer: Layer) -> None:
    """The chosen experts of each token, and where each row goes: scores, then counts and places."""
    rows = layer.tokens * layer.chosen
    program.add("softmax", {"scores": (layer.tokens, layer.experts)}, "weights", "fp32")
    program.add("copy", {"chosen": (rows,)}, "counts", "int32")
    program.add("copy", {"counts": (rows,)}, "places", "int32")


def _gather(program: Program, layer: Layer, rows: int) -> None:
    """Each token's rows added up; a token without any here is zero."""
    program.add_move("down out", (rows, layer.hidden), "out", (layer.tokens, layer.hidden))


@functools.cache
def _tuned() -> dict[tuple[str, str, str, str], frozenset[str]]:
    """Sizes with tuned tiles, by engine, version, card and number format."""
    found = {}
    for line in (Path(__file__).parent / "tuned_tiles.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            maker, version, card, form, *sizes = line.split()
            found[maker, version, card, form] = frozenset(sizes)
    return found


def is_tuned(row: dict[str, str]) -> bool:
    """Whether the engine ships tiles for these experts of a rank on that card, by its latest version known."""
    maker, card = row["framework"].lower(), row["device"].replace(" ", "_")
    versions = sorted({version for name, version, *_ in _tuned() if name == maker}, key=_order)
    known = [each for each in versions if _order(each) <= _order(row["version"])] or versions[:1]
    size = "{}x{}".format(
        int(row["num_experts"]) // int(row["moe_ep_size"]), int(row["inter_size"]) // int(row["moe_tp_size"])
    )
    return bool(known) and size in _tuned().get((maker, known[-1], card, row["moe_dtype"]), frozenset())


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:3])


def without_gate(row: dict[str, str]) -> bool:
    """Whether one matrix leads to the inner size: TensorRT-LLM's rows say so; see below.

    22 of 512 experts are Nemotron 3's, whose activation is the square of ReLU (mlp_hidden_act in its config.json:
    2 tokens of its bf16 layer take as long as two matrices of each expert). vLLM's collector had built every layer
    with a gate.
    """
    if "nongated" in row["kernel_source"]:
        return True
    own = row["framework"].upper() == "VLLM" and _order(row["version"]) >= (0, 24)
    return own and (int(row["topk"]), int(row["num_experts"])) == (22, 512)


def default_tiles(row: dict[str, str]) -> bool:
    """Whether Triton's products take the small tiles of 64 x 64 x 32 that engines had for sizes not tuned.

    vllm-project/vllm, fused_moe.py, and sgl-project/sglang, fused_moe_triton_config.py: `get_default_config`; vLLM
    has had larger ones since, and both have for scaled blocks.
    """
    if row["moe_dtype"] == "fp8_block" or is_tuned(row):
        return False
    return row["framework"].upper() == "SGLANG" or _order(row["version"]) < _LARGER


_LARGER = (0, 16)  # of vLLM; 0.14 has the small ones, 0.24 the larger


def tile_rows(row: dict[str, str]) -> float:
    """Rows of the larger tiles by their rules; 0 where tiles are tuned, the small ones, or another library's."""
    other = row["framework"].upper() == "TRTLLM" or "flashinfer" in row["kernel_source"]
    if other or is_tuned(row) or default_tiles(row):
        return 0.0
    tokens = int(row["num_tokens"])
    if row["moe_dtype"] == "fp8_block":
        small = row["framework"].upper() == "VLLM" and _order(row["version"]) >= _LARGER
        return 16.0 if small and tokens <= 64 else 64.0
    return next((size for most, size in ((32, 16.0), (96, 32.0), (512, 64.0)) if tokens <= most), 128.0)
