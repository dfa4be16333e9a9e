"""Tiles and parts of libraries' attention kernels: by hand, and beside plain Python; what a last wave costs."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

import rooflab
from rooflab.model.device.constants import APART
from rooflab.model.device.device import Device, device_of
from rooflab.model.kernels.gpu.attention_around import tail_s
from rooflab.model.kernels.gpu.attention_tiles import flash_splits, flashinfer_splits, tiling
from rooflab.model.serving import kernels, timing

A100, L40S = (device_of(rooflab.machine(name)) for name in ("a100-sxm-80gb", "l40s"))


class Row(dict[str, np.ndarray]):
    """One row of columns."""


def row(size: int, queries: int = 4096, group: int = 1, item_bytes: float = 2.0) -> Row:
    numbers = {"size": size, "values": size, "queries": queries, "group": group, "item_bytes": item_bytes}
    return Row({name: np.array([[float(each)]]) for name, each in numbers.items()})


def cut(kernel: str, device: Device, of: Row) -> tuple[float, ...]:
    made = tiling(of, kernel, 0.0, 1.0, device)  # type: ignore[arg-type]
    return tuple(float(np.ravel(each)[0]) for each in (made.queries, made.keys, made.resident))


@pytest.mark.parametrize(
    ("size", "a100", "l40s"),
    [
        # q of 64 rows, keys and values: 64 * 2 * (64 + 2 * 256) = 72 KiB, of 164 and 100 KiB
        (64, (64, 256, 2), (64, 256, 1)),
        # 128 * 2 * (64 + 2 * 128) = 80 KiB
        (128, (64, 128, 2), (64, 128, 1)),
        # 256 * 2 * (64 + 2 * 64) = 96 KiB
        (256, (64, 64, 1), (64, 64, 1)),
    ],
)
def test_flash_attention_2_shares_a_unit_as_its_shared_memory_allows(
    size: int, a100: tuple[float, ...], l40s: tuple[float, ...]
) -> None:
    assert cut("fa2_prompts", A100, row(size)) == a100
    assert cut("fa2_prompts", L40S, row(size)) == l40s


@pytest.mark.parametrize(
    ("size", "item_bytes", "expected"),
    [
        # 50 KiB a block: q 128 * 128 * 2 = 32 KiB, 16 keys 8 KiB: 32 of them
        (128, 2.0, (128, 32, 2)),
        # q 64 * 256 * 2 = 32 KiB, 16 keys 16 KiB: 16 of them
        (256, 2.0, (64, 16, 2)),
        (256, 1.0, (64, 32, 2)),
        # q 128 * 64 * 2 = 16 KiB, 16 keys 4 KiB: 128 would fit, registers hold 64
        (64, 2.0, (128, 64, 2)),
    ],
)
def test_flashinfer_takes_as_many_keys_as_shared_memory_holds(
    size: int, item_bytes: float, expected: tuple[float, ...]
) -> None:
    assert cut("flashinfer_prompts", L40S, row(size, item_bytes=item_bytes)) == expected


def test_flashinfer_chooses_rows_by_the_packed_length() -> None:
    rows = [cut("flashinfer_decode", L40S, row(128, queries=1, group=group))[0] for group in (1, 16, 17, 64, 65)]
    assert rows == [16, 16, 64, 64, 128]


def splits_in_plain_python(tiles: int, blocks: int, units: int) -> int:
    slots = 2 * units
    if tiles >= 0.8 * slots:
        return 1
    full = {}
    for parts in range(1, min(128, slots, blocks) + 1):
        if parts > 1 and math.ceil(blocks / parts) == math.ceil(blocks / (parts - 1)):
            continue
        waves = tiles * parts / slots
        full[parts] = waves / math.ceil(waves)
    return min(parts for parts, share in full.items() if share >= 0.85 * max(full.values()))


def test_parts_of_flash_attention_2_equal_plain_python() -> None:
    for units in (108, 142):
        for tiles in (1, 3, 8, 40, 100, 172, 173, 300):
            for blocks in (1, 2, 7, 64, 513):
                found = flash_splits(np.array([[float(tiles)]]), np.array([[float(blocks)]]), units)
                assert found[0, 0] == splits_in_plain_python(tiles, blocks, units), (tiles, blocks, units)


def test_flashinfer_splits_up_to_two_blocks_a_unit_and_no_finer_than_128_keys() -> None:
    def parts(tiles: float, heads: float, keys: float) -> float:
        return float(flashinfer_splits(np.array([[tiles]]), heads, np.array([[keys]]), 142.0)[0, 0])

    assert parts(6, 8, 256) == 2  # 284 // 8 = 35 blocks for 6 tiles: five would fit
    assert parts(6, 8, 65536) == 5
    assert parts(40, 8, 65536) == 1


def test_tiles_that_are_alike_end_in_whole_waves() -> None:
    one = np.array([[2.25]]), 0.0, np.array([[10.0]]), np.array([[10.0]]), np.array([[1e-6]])
    assert tail_s(*one)[0, 0] == pytest.approx(0.75 * 10e-6)


def test_the_longest_of_unlike_tiles_may_be_the_last() -> None:
    # Lengths from nothing to 30: what the other slots hold ends in a third of 30 in the mean.
    one = np.array([[2.25]]), 0.0, np.array([[1e-9]]), np.array([[30.0]]), np.array([[1e-6]])
    assert tail_s(*one)[0, 0] == pytest.approx(20e-6, rel=1e-3)


def decode_s(kernel: str, sequences: float, heads: float, kv_heads: float, window: int = 0) -> float:
    made = kernels.attention(
        "attention", "attend", 1.0, sequences=np.array([sequences]), new=np.array([1.0]), before=np.array([15.0]),
        heads=heads, kv_heads=kv_heads, size=128, values=128, window=window, planned=True, kernel=kernel,
    )  # fmt: skip
    return float(timing.timed([made], A100, None, 1)[0].seconds[0])


def test_groups_cost_copies_of_q_and_the_result_but_where_they_are_views() -> None:
    own, one_sequence, one_head = (decode_s("fa2_decode", *each) for each in ((4, 8, 8), (1, 8, 2), (4, 8, 1)))
    both = decode_s("fa2_decode", 4, 8, 2)
    assert own < one_sequence < both
    assert own < one_head < both


def test_a_library_without_constants_takes_those_of_one_of_its_design() -> None:
    known = {name: each for name, each in A100.constants.values.items() if "flashinfer" not in name}
    bare = replace(A100, constants=msgspec.structs.replace(A100.constants, values=known))
    base = {name: each for name, each in known.items() if not name.startswith("attention_fa2")}
    none = replace(A100, constants=msgspec.structs.replace(A100.constants, values=base))
    clocks = known["attention_fa2_prompts.launch_clocks"].value
    made = kernels.attention(
        "attention", "attend", 1.0, sequences=np.array([1.0]), new=np.array([16.0]), before=np.array([0.0]),
        heads=1.0, kv_heads=1.0, size=128, values=128, planned=True, kernel="flashinfer_prompts",
    )  # fmt: skip
    alike, own = (timing.timed([made], device, None, 1)[0] for device in (bare, none))
    assert isinstance(clocks, float)
    assert alike.seconds[0] > clocks / A100.clock_hz
    assert alike.seconds[0] != own.seconds[0]
    # Another library's constants are less sure.
    spread = none.constants("attention.spread")
    assert own.spread[0] == pytest.approx(math.hypot(spread, APART["attention"]))


def prompt_s(kernel: str, group: float, packs: float = -1.0) -> float:
    made = kernels.attention(
        "attention", "attend", 1.0, sequences=np.array([256.0]), new=np.array([8.0]), before=np.array([0.0]),
        heads=8.0 * group, kv_heads=8.0, size=128, values=128, planned=True, kernel=kernel, packs=packs,
    )  # fmt: skip
    return float(timing.timed([made], A100, None, 1)[0].seconds[0])


def test_short_prompts_of_many_heads_fill_tiles_where_the_code_packs_them() -> None:
    # 8 rows of 16 heads make a tile of 128: sixteen times fewer than one head each.
    assert prompt_s("flashinfer_prompts", 16) == prompt_s("flashinfer_prompts", 16, packs=1.0)
    assert prompt_s("fa2_prompts", 16) == prompt_s("fa2_prompts", 16, packs=0.0)
    assert prompt_s("flashinfer_prompts", 16) < 0.5 * prompt_s("flashinfer_prompts", 16, packs=0.0)
