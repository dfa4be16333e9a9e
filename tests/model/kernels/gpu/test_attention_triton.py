"""SGLang's Triton kernels of attention: tiles by head and architecture, parts by plain Python, masks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import rooflab
from rooflab.model.device.device import Device, device_of
from rooflab.model.kernels.gpu.attention_tiles import Tiling
from rooflab.model.kernels.gpu.attention_triton import decode_tiles, idle_s, in_window, parts, prompt_tiles
from rooflab.model.serving import kernels, timing

A100, L40S, H100, B200 = (
    device_of(rooflab.machine(name)) for name in ("a100-sxm-80gb", "l40s", "h100-sxm", "b200")
)
RTX_PRO = device_of(rooflab.machine("rtx-pro-6000-server"))


class Row(dict[str, np.ndarray]):
    """One row of columns."""


def row(**numbers: float) -> Row:
    base = {"size": 128.0, "group": 8.0, "sequences": 4.0, "heads": 2.0, "window": 0.0, "slides": 0.0}
    return Row({name: np.array([[float(each)]]) for name, each in (base | numbers).items()})


@pytest.mark.parametrize(
    ("device", "size", "expected"),
    [
        (A100, 128, (128, 128, 1)),
        (A100, 256, (64, 64, 1)),
        (L40S, 64, (64, 128, 2)),  # four warps: half the registers of a unit
        (L40S, 192, (64, 64, 1)),
        (RTX_PRO, 128, (64, 128, 1)),  # as Ada's, by its shared memory
        (H100, 128, (128, 64, 1)),
        (H100, 512, (32, 64, 1)),
        (B200, 256, (64, 64, 1)),
        (B200, 512, (16, 64, 1)),
    ],
)
def test_prompts_have_the_tiles_that_the_code_states(
    device: Device, size: int, expected: tuple[float, ...]
) -> None:
    made = prompt_tiles(row(size=size), device)  # type: ignore[arg-type]
    assert tuple(float(np.ravel(each)[0]) for each in (made.queries, made.keys, made.resident)) == expected


def test_a_tile_of_single_tokens_holds_16_heads_of_a_group_or_one() -> None:
    assert np.ravel(decode_tiles(row(group=8), L40S).keys)[0] == 32  # type: ignore[arg-type]
    assert np.ravel(decode_tiles(row(group=1), L40S).keys)[0] == 64  # type: ignore[arg-type]


def parts_in_plain_python(keys: int, tiles: int, units: int) -> int:
    worth = int(units * max(math.log2(keys / 64), 1.0))
    most = min(math.ceil(worth / tiles), 8)
    each = math.ceil(math.ceil(keys / most) / 32) * 32
    return math.ceil(keys / each)


def test_parts_of_the_keys_equal_plain_python() -> None:
    for keys in (1, 31, 33, 64, 100, 257, 1000, 4096, 131072):
        for tiles in (1, 7, 64, 142, 143, 1000, 3000):
            found = parts(row(longest=keys), np.array([[float(tiles)]]), L40S)  # type: ignore[arg-type]
            assert found[0, 0] == parts_in_plain_python(keys, tiles, 142), (keys, tiles)


def windowed_s(blocks: float, window: float, slides: float = 0.0) -> float:
    cut = Tiling(64.0, 64.0, 64.0, np.array([[1.0]]), 0.0)
    of = row(window=window, slides=slides)
    found = in_window(of, np.array([[blocks]]), 64.0, cut, np.array([[2e-6]]), L40S)  # type: ignore[arg-type]
    return float(found[0, 0]) * blocks


def test_blocks_before_a_window_are_only_masked() -> None:
    skip_s = L40S.constants("attention.skip_clocks") / L40S.clock_hz
    library = L40S.constants.specialised("attention", "triton_prompts")
    own_s = library("attention.skip_clocks") / L40S.clock_hz
    assert skip_s == 0.0  # of other libraries, which do not walk over them
    assert own_s > 0.0
    # A window of 128 keys and 64 rows: three and a half blocks of 64 keys are met.
    assert windowed_s(20, 128) == pytest.approx(3.5 * 2e-6)
    assert windowed_s(20, 0) == pytest.approx(20 * 2e-6)
    # Where the caller skips what is before the window, the blocks are all in it.
    assert windowed_s(3, 128, slides=1.0) == pytest.approx(3 * 2e-6)


def prompt_s(device: Device, window: int, kernel: str = "triton_prompts", skips: bool = False) -> float:
    made = kernels.attention(
        "attention", "attend", 1.0, sequences=np.array([4.0]), new=np.array([4096.0]), before=np.array([0.0]),
        heads=32.0, kv_heads=4.0, size=128, values=128, window=window, planned=True, kernel=kernel, skips=skips,
    )  # fmt: skip
    return float(timing.timed([made], device, None, 1)[0].seconds[0])


@pytest.mark.parametrize("device", [L40S, H100, B200])
def test_a_prompt_of_a_window_takes_longer_where_its_code_walks_over_all_blocks(device: Device) -> None:
    assert prompt_s(device, 128, skips=True) < prompt_s(device, 128) < 1.5 * prompt_s(device, 0)


def test_every_part_that_is_none_starts_a_thread_block_and_every_head_one_that_joins() -> None:
    library = L40S.constants.specialised("attention", "triton_decode")
    clocks = library("attention.idle_clocks")
    of = row(sequences=4, heads=2, group=8)
    found = idle_s(of, np.array([[8.0]]), np.array([[3.0]]), L40S)  # type: ignore[arg-type]
    assert found[0, 0] == 0.0  # no constant of the general topic
    # 8 tiles of 5 parts that are none, 64 heads
    expected = (8 * 5 + 64) / 142 * clocks / L40S.clock_hz
    ours = dataclasses.replace(L40S, constants=library)
    assert idle_s(of, np.array([[8.0]]), np.array([[3.0]]), ours)[0, 0] == pytest.approx(expected)  # type: ignore[arg-type]
