"""SGLang's attention kernels in Triton: tiles, parts of the keys, masked blocks, thread blocks without work.

Their code states them (sgl-project/sglang, layers/attention/triton_ops: extend_attention.py for prompts,
decode_attention.py for single tokens; triton_backend.py: get_num_kv_splits_triton).
"""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.model.kernels.common import Columns
from rooflab.model.kernels.gpu.attention_tiles import Tiling

PROMPTS, DECODE = "triton_prompts", "triton_decode"
_MOST_PARTS = 8.0  # server_args.py: triton_attention_num_kv_splits
_LEAST_PART = 32.0  # keys (_MIN_BLOCK_KV)
_GROUP = 16.0  # heads of a tile of single tokens (BLOCK_H)
_SQUARE = 64.0 * 64.0


def prompt_tiles(x: Columns, device: Device) -> Tiling:
    """Of prompts: rows and keys by the size of a head, as the architecture has them (`triton_tiles`).

    Eight warps take all registers of a unit, four of heads of at most 64 take half of them.
    """
    narrow, middle, wide = np.reshape(device.constants.many("attention.triton_tiles"), (3, 2))
    sizes = [
        np.where(x["size"] <= 128, first, np.where(x["size"] <= 256, second, third))
        for first, second, third in zip(narrow, middle, wide, strict=True)
    ]
    return Tiling(sizes[0], sizes[1], sizes[0], np.where(x["size"] <= 64, 2.0, 1.0), 0.0)


def decode_tiles(x: Columns, device: Device) -> Tiling:
    """Of single tokens: 16 heads of a group and 32 keys, or one head and 64 where a group has one."""
    keys = np.where(x["group"] > 1, 32.0, 64.0)
    return Tiling(_GROUP, keys, _GROUP, device.constants("attention.resident"), 1.0)


TILES = {PROMPTS: prompt_tiles, DECODE: decode_tiles}


def parts(x: Columns, tiles: np.ndarray, device: Device) -> np.ndarray:
    """Into how many parts the keys of each tile of a single token are split: more of long ones, eight at most."""
    worth = np.floor(device.units * np.maximum(np.log2(x["longest"] / 64.0), 1.0))
    most = np.minimum(np.ceil(worth / tiles), _MOST_PARTS)
    each = np.ceil(np.ceil(x["longest"] / most) / _LEAST_PART) * _LEAST_PART
    return np.ceil(x["longest"] / each)


def in_window(
    x: Columns, blocks: np.ndarray, rows: Number, cut: Tiling, block_s: np.ndarray, device: Device
) -> np.ndarray:
    """Seconds of a block in the mean, of `block_s` without a window, of prompts.

    In a window each block is masked, and its loads wait for that; those before it are only masked.
    """
    c = device.constants
    walks = (x["window"] > 0) & (x["slides"] == 0)
    seen = np.where(walks, np.minimum(blocks, (x["window"] + rows) / cut.keys + 0.5), blocks)
    skip_s = c("attention.skip_clocks") * cut.queries * cut.keys / _SQUARE / device.clock_hz
    skip_s = skip_s / np.sqrt(cut.resident)
    windowed_s = (seen * c("attention.window_factor") * block_s + (blocks - seen) * skip_s) / blocks
    return np.where(x["window"] > 0, windowed_s, block_s)


def idle_s(x: Columns, tiles: np.ndarray, splits: np.ndarray, device: Device) -> np.ndarray:
    """Seconds of single tokens' thread blocks that only start: of parts that are none, and of those that join."""
    blocks = tiles * (_MOST_PARTS - splits) + x["sequences"] * x["heads"] * x["group"]
    return blocks / device.units * device.constants("attention.idle_clocks") / device.clock_hz
