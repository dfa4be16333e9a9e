"""Tiles of libraries' attention kernels as their own code chooses them: by the size of a head and shared memory.

What a kernel holds decides how many of its thread blocks share a unit, and so what one card hides that another
does not: two blocks of FlashAttention 2 fit an A100's 164 KiB, one an L40S's 100 KiB.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.model.kernels.common import Columns

_HALF_BYTES = 2.0  # of q, and of keys and values that are not of 8 bits
_FRAGMENT = 16.0  # keys, or rows of q, of one step of mma.sync
_BLOCK_BYTES = 1024.0  # of shared memory that the system takes for each thread block
_UNCLAIMED_BYTES = (
    28 * 1024.0
)  # of L1 that is not shared memory (CUDA C++ Programming Guide: 164 of 192, 100 of 128)


class Tiling(NamedTuple):
    """How a kernel cuts its work, row by row.

    Attributes:
        queries, keys: of a tile.
        least: rows of a tile that are computed at least, however few stand in it.
        resident: thread blocks that share a unit.
        readers: warps that read each key and value from shared memory; 0 where the engine itself does.
    """

    queries: Number
    keys: Number
    least: Number
    resident: Number
    readers: Number


def tiling(x: Columns, kernel: str, packs: Number, resident: Number, device: Device) -> Tiling:
    """Of one library's kernel: by its code where it is known, else by the constants of its topic.

    Args:
        packs: whether the query heads of a group share a tile.
        resident: as the constants or the operation say.
    """
    rule = _RULES.get(kernel)
    if rule is not None:
        return rule(x, packs, _shared_bytes(device))
    c = device.constants
    return Tiling(c("attention.tile_queries"), c("attention.tile_keys"), c("attention.tile_least"), resident, 0.0)


def _shared_bytes(device: Device) -> float:
    """Shared memory of a unit that blocks can have."""
    near = next((level.capacity_bytes for level in device.machine.levels if level.name == device.near_name), None)
    return max(48 * 1024.0, (near or 128 * 1024.0) - _UNCLAIMED_BYTES)


def _flash_2(x: Columns, packs: Number, shared_bytes: float) -> Tiling:
    """FlashAttention 2's for paged keys, four warps of 16 rows (flash_fwd_launch_template.h: splitkv dispatch)."""
    size = np.maximum(x["size"], x["values"])
    keys = np.where(size <= 80, 256.0, np.where(size <= 128, 128.0, 64.0))
    held = _HALF_BYTES * size * (64.0 + 2 * keys) + _BLOCK_BYTES
    return Tiling(64.0, keys, 64.0, np.clip(np.floor(shared_bytes / held), 1.0, 2.0), 4.0)


def _flashinfer(x: Columns, packs: Number, shared_bytes: float) -> Tiling:
    """FlashInfer's for mma.sync (scheduler.cuh: FA2DetermineCtaTileQ; prefill.cuh: num_ctas_per_sm, NUM_MMA_KV).

    Tiles of 128, 64 or 16 rows by the packed length; as many keys as shared memory and registers allow.
    """
    packed = x["queries"] * x["group"]
    size = np.maximum(x["size"], x["values"])
    queries = np.where((packed > 64) & (size < 256), 128.0, np.where(packed > _FRAGMENT, 64.0, _FRAGMENT))
    warps_of_keys = np.where(queries == _FRAGMENT, 4.0, 1.0)
    q_bytes = queries * x["size"] * _HALF_BYTES
    step_bytes = (x["size"] + x["values"]) * _FRAGMENT * warps_of_keys * x["item_bytes"]
    resident = np.where(shared_bytes >= 2 * (q_bytes + step_bytes), 2.0, 1.0)
    by_registers = np.where(queries == 128, 4.0, 8.0)
    by_memory = np.floor((shared_bytes / resident - q_bytes) / step_bytes)
    steps = np.maximum(1.0, np.minimum(by_registers, by_memory))
    steps = 2.0 ** np.floor(np.log2(steps))
    return Tiling(queries, steps * _FRAGMENT * warps_of_keys, queries, resident, 4.0 / warps_of_keys)


def flash_splits(tiles: np.ndarray, blocks: np.ndarray, units: Number) -> np.ndarray:
    """Parts of the keys of a tile as FlashAttention 2 chooses them (flash_api.cpp: num_splits_heuristic).

    One where the tiles alone fill four fifths of two blocks a unit; else the fewest parts whose last wave is
    as full as .85 of the best.
    """
    tiles, blocks, slots = np.broadcast_arrays(tiles, blocks, 2.0 * np.asarray(units))
    tiles, blocks, slots = (each[..., None] for each in (tiles, blocks, slots))
    parts = np.arange(1.0, _MOST_PARTS + 1.0)
    waves = tiles * parts / slots
    unlike = (parts == 1) | (np.ceil(blocks / parts) != np.ceil(blocks / np.maximum(parts - 1, 1)))
    allowed = unlike & (parts <= np.minimum(slots, blocks))
    full = np.where(allowed, waves / np.ceil(waves), 0.0)
    best = np.argmax(full >= _FULL_ENOUGH * full.max(axis=-1, keepdims=True), axis=-1)
    return np.where(tiles[..., 0] >= _FILLED * slots[..., 0], 1.0, parts[best])


def flashinfer_splits(tiles: np.ndarray, heads: Number, keys: np.ndarray, units: Number) -> np.ndarray:
    """Parts of the keys of a tile in a prompt as FlashInfer plans them (scheduler.cuh: PrefillSplitQOKVIndptr).

    As many as two blocks a unit hold, `tiles` for each of `heads`, none of fewer than 128 keys.
    """
    slots = np.floor(2.0 * units / heads)
    return np.maximum(1.0, np.minimum(np.floor(slots / tiles), np.ceil(keys / _LEAST_PART)))


_LEAST_PART = 128.0  # keys
_MOST_PARTS, _FULL_ENOUGH, _FILLED = 128, 0.85, 0.8

_RULES = {
    "fa2_prompts": _flash_2,
    "fa2_decode": _flash_2,
    "flashinfer_prompts": _flashinfer,
    "vllm_flashinfer_prompts": _flashinfer,
    "flashinfer_decode": _flashinfer,
    "vllm_flashinfer_decode": _flashinfer,
}
