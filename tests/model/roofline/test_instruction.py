"""The instruction roofline: the paper's V100, walls counted by brute force, kernels placed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rooflab.errors import RooflabError
from rooflab.model.roofline import instruction
from rooflab.model.roofline.instruction import Counts

# Ding and Williams, PMBS 2019: V100 of 80 SMs × 4 schedulers at 1.53 GHz; ERT's bandwidths / 32 bytes.
PEAK = instruction.peak_inst_per_s(80, 1.53e9)
V100 = instruction.roofs(PEAK, {"L1": 14e12, "L2": 2996.77e9, "HBM": 828.758e9})


def test_the_roofs_of_the_paper():
    assert instruction.peak_inst_per_s(80, 1.53e9) == pytest.approx(489.6e9)
    assert V100.transactions_per_s["L1"] == 437.5e9
    assert V100.transactions_per_s["L2"] == pytest.approx(93.6e9, rel=1e-3)
    assert V100.transactions_per_s["HBM"] == pytest.approx(25.9e9, rel=1e-3)
    assert V100.ridge("HBM") == pytest.approx(489.6 / 25.9, rel=1e-3)


# word bytes, walls at strides 0, 1, 8 in words: transactions of a warp
WALLS = ((4, (1, 4, 32)), (8, (1, 8, 32)), (2, (1, 2, 16)), (16, (1, 16, 32)))


@pytest.mark.parametrize(("word_bytes", "transactions"), WALLS)
def test_walls_by_width_of_a_word(word_bytes, transactions):
    walls = instruction.global_walls(word_bytes)
    assert [wall.name for wall in walls] == ["stride 0", "stride 1", "stride 8"]
    # A 16-byte word at stride 8 is 128 bytes on: one sector a thread.
    assert [1 / wall.intensity for wall in walls] == list(transactions)


@pytest.mark.parametrize("stride", range(70))
def test_bank_conflicts_against_counting(stride):
    words = {}
    for thread in range(32):
        words.setdefault(thread * stride % 32, set()).add(thread * stride)
    assert instruction.conflict_ways(stride) == max(len(each) for each in words.values())


@pytest.mark.parametrize("stride", [0, 1, 4, 7, 12, 32, 100])
@pytest.mark.parametrize("word", [1, 4, 8])
def test_transactions_are_the_sectors_that_a_warp_touches(stride, word):
    touched = {(thread * stride + byte) // 32 for thread in range(32) for byte in range(word)}
    assert instruction.global_transactions(stride, word) == len(touched)


@dataclass
class Case:
    name: str
    counts: Counts
    binds: str
    share: float


# A warp instruction a transaction of HBM: 25.9 GIPS; 100 G instructions in 4 s are 25 GIPS.
CASES = (
    Case("stream", Counts(4, 100e9, {"L1": 400e9, "L2": 200e9, "HBM": 100e9}), "HBM", 25 / 25.899),
    # 20 per HBM transaction (518 GIPS), but 0.1 per L1 transaction: 43.75 GIPS
    Case("uncoalesced", Counts(4, 100e9, {"L1": 1000e9, "L2": 50e9, "HBM": 5e9}), "L1", 25 / 43.75),
    Case("integers", Counts(1, 400e9, {"L1": 10e9, "HBM": 1e9}), "instructions", 400 / 489.6),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_is_placed(case):
    found = instruction.place(case.counts, V100)
    assert found.binds == case.binds
    assert found.share == pytest.approx(case.share, rel=1e-3)
    assert not found.balanced
    assert found.intensity["L1"] == case.counts.warp_inst / case.counts.transactions["L1"]
    assert found.attainable["HBM"] <= PEAK


def test_a_level_and_the_schedulers_within_a_tenth_are_balanced():
    ridge = V100.ridge("HBM")
    assert instruction.place(Counts(1, ridge * 0.95, {"HBM": 1}), V100).balanced
    assert not instruction.place(Counts(1, ridge * 0.85, {"HBM": 1}), V100).balanced


# instructions a transaction
PATTERNS = (
    (1.0, "stride 0"),
    (0.25, "stride 1"),
    (0.24, "stride 1"),
    (1 / 32, "stride 8"),
    (0.1, "between stride 1 and stride 8"),
    (0.5, "between stride 0 and stride 1"),
    (2.0, "beyond stride 0: more than one instruction a transaction"),
    (0.01, "beyond stride 8: wider words"),
)


@pytest.mark.parametrize(("intensity", "said"), PATTERNS)
def test_what_the_walls_say_of_global_accesses(intensity, said):
    counts = Counts(1, 100, {"HBM": 1}, global_inst=100 * intensity, global_transactions=100)
    assert instruction.global_pattern(counts) == said


def test_what_the_walls_say_of_shared_accesses_and_threads():
    counts = Counts(1, 100, {"HBM": 1}, thread_inst=1600, shared_inst=10, shared_transactions=320)
    found = instruction.place(counts, V100)
    assert found.shared_pattern == "32-way bank conflict"
    assert found.predication == 0.5  # 1600 / (32 × 100)
    assert (
        instruction.shared_pattern(Counts(1, 1, {}, shared_inst=10, shared_transactions=10)) == "no bank conflict"
    )


def test_what_was_not_counted_is_unknown():
    found = instruction.place(Counts(1, 100, {"HBM": 1}), V100)
    assert (found.predication, found.global_pattern, found.shared_pattern) == (None, None, None)
    assert list(found.intensity) == ["HBM"]


BAD = (
    (
        lambda: instruction.place(Counts(0, 1, {"L1": 1}), V100),
        "1 warp instructions in 0 s: expected both positive",
    ),
    (lambda: instruction.place(Counts(1, 1, {}), V100), "no transactions of L1, L2, HBM were counted (got none)"),
    (lambda: instruction.roofs(1e9, {"L2": 0}), "bandwidth of L2 is 0 bytes/s, expected a positive number"),
    (lambda: instruction.peak_inst_per_s(0, 1e9), "instruction peak of 0 SMs"),
    (
        lambda: instruction.predication(Counts(1, 10, {}, thread_inst=321)),
        "321 thread instructions are more than 32 × 10 warp instructions: expected counts of one kernel",
    ),
)


@pytest.mark.parametrize(("made", "said"), BAD)
def test_bad_counts_are_refused(made, said):
    with pytest.raises(RooflabError) as error:
        made()
    assert str(error.value).startswith(said)
