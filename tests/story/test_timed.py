"""`rooflab.time`: what is measured of a call, how it is counted and judged, what is warned of and refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.timed_call import TimedCall

QUICK = {"limit_s": 0.6, "cold": False}
SLOWER = {"limit_s": 3.0, "cold": False}  # the first call loads a library


@pytest.fixture(scope="module")
def added(here):
    a = np.ones(100_000)
    return rooflab.time(np.add, a, a, machine=here, limit_s=30.0)


def test_a_call_is_timed_warm_and_cold(added):
    assert isinstance(added, TimedCall)
    assert added.name == "numpy.add"
    for one in added.states:
        assert one.best_s <= one.median_s
        if one is added.warm or one.low_s is not None:  # cold calls may be few where the caches are large
            assert one.low_s <= one.median_s <= one.high_s
        assert one.calls >= len(one.blocks_s) > 0
    assert added.time_s == added.warm.median_s
    assert added.surroundings.clock_before_hz > 1e8
    assert added.surroundings.cpus >= 1
    assert 0 < added.empty_s < 1e-5


def test_the_last_blocks_have_their_results_elsewhere_and_that_is_said(added):
    # Up to 12 as they are and 8 more: fewer where other work takes the time.
    pattern = r"median of (\d+) blocks of calls in a row(?:, the last ([1-8]) with results)?"
    said = next(filter(None, (re.match(pattern, note) for note in added.notes)))
    assert int(said[1]) == len(added.warm.blocks_s) <= 20
    assert int(said[2] or 0) < int(said[1])
    assert said[2] == "8" or len(added.warm.blocks_s) < 20
    assert added.warm.low_s == pytest.approx(0.99 * min(added.warm.blocks_s))
    assert added.warm.high_s == pytest.approx(1.01 * max(added.warm.blocks_s))


def test_numpys_functions_are_counted_and_each_state_is_held_against_its_own_prediction(added):
    assert added.report.flop == 100_000
    assert added.report.nbytes == 2 * 800_000  # one array, which is both operands, read, and one written
    assert added.report.measured_s == added.time_s
    warm, cold = added.warm.own, added.cold.own
    assert warm.predicted_s == added.report.time_s
    assert added.report.setting.cache == "warm"
    assert cold.predicted_s > warm.predicted_s
    assert cold.time_s == added.cold.median_s
    assert added.uncounted == ""


def test_a_file_gives_it_back(added, tmp_path):
    path = tmp_path / "timed.json"
    added.save(path)
    assert rooflab.load(path) == added


@pytest.mark.slow
def test_a_program_of_pytorch_is_counted(here):
    torch = pytest.importorskip("torch")
    timed = rooflab.time(torch.relu, torch.ones(64, 64), machine=here, **SLOWER)
    assert timed.name == timed.report.name == "torch.relu"
    assert [row.op.name for row in timed.report.rows] == ["aten.relu"]
    assert timed.warm.own.predicted_s is not None
    assert timed.cold is None
    inside = torch.ones(8, 8)
    # a function without arguments is counted by what it takes from outside
    assert rooflab.time(lambda: inside @ inside, **SLOWER).report.flop == 2 * 8**3


def test_flop_and_bytes_by_hand_are_placed_under_the_roofs_and_not_predicted(here):
    data = list(range(1000))
    timed = rooflab.time(sum, data, flop=1000, bytes_moved=8000, machine=here, **QUICK)
    assert timed.report.flop == 1000
    assert timed.report.nbytes == 8000
    assert timed.report.prediction is None
    assert timed.warm.own.of_roof > 0
    assert timed.warm.own.verdict == "unknown"


def test_what_nothing_counts_says_so():
    timed = rooflab.time(sorted, [3, 1, 2], **QUICK)
    assert timed.report is None
    assert "give flop and bytes_moved" in timed.uncounted


@pytest.mark.slow
def test_jax_is_waited_for_and_its_return_is_told_apart():
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones((700, 700))
    timed = rooflab.time(jax.jit(lambda x: x @ x @ x), x, limit_s=2.0, cold=False)
    assert "block_until_ready" in timed.waited_for
    assert timed.returns_s is not None
    assert timed.returns_s < timed.time_s
    assert timed.report.flop == 2 * 2 * 700**3
    lost = rooflab.time(lambda x: None, x, **SLOWER)
    assert "given arrays of JAX and returned none" in lost.warnings[0]


def test_a_generator_is_read_to_its_end():
    timed = rooflab.time(lambda: (n for n in range(10_000)), **QUICK)
    assert timed.waited_for.startswith("it returns a generator")
    assert timed.returns_s < timed.time_s / 10


@pytest.mark.slow
def test_arguments_that_calls_change_are_told():
    grows = []
    timed = rooflab.time(grows.append, 1, **QUICK)
    assert timed.name == "list.append"
    grows = [0]
    assert any(
        "changes argument 1" in line for line in rooflab.time(lambda a: a.append(1), grows, **QUICK).warnings
    )
    out = np.zeros(1000)
    placed = rooflab.time(np.add, out + 1, 1.0, out, **QUICK)
    assert not any("changes" in line for line in placed.warnings)
    assert any("the first call changes argument 3" in line for line in placed.notes)


def test_a_call_of_nothing_is_too_short_to_tell():
    timed = rooflab.time(lambda: None, **QUICK)
    assert any(line.startswith("Too short to tell from its calling") for line in timed.warnings)


def test_a_call_that_is_too_long_for_the_limit_is_refused():
    import time

    with pytest.raises(RooflabError, match=r"^lambda: one call took 0\.\d+ s, too long for the limit of 0\.1 s"):
        rooflab.time(lambda: time.sleep(0.06), limit_s=0.1)
    few = rooflab.time(lambda: time.sleep(0.3), limit_s=0.9, cold=False)
    assert any("fitted into the limit" in line for line in few.warnings)
    assert few.warm.low_s is None


def test_an_error_of_the_function_is_its_own():
    with pytest.raises(ZeroDivisionError):
        rooflab.time(lambda: 1 / 0)


def fails_when_called(*_):
    raise AssertionError("called")


@pytest.mark.parametrize(
    ("args", "more", "text"),
    [
        ((), {"limit_s": 0}, "limit_s is 0, expected a positive number"),
        ((), {"limit_s": None}, "limit_s is None"),
        ((), {"machine": "h200"}, "is a GPU, and nothing that is called here is on one"),
        ((), {"machine": "raspberry-pi-5"}, "time: .* is not this machine"),
        ((), {"cache": "cold"}, "warm and cold are both timed"),
        ((), {"flop": -1}, "flop: got -1, expected a number"),
        ((), {"bytes_moved": "5"}, "bytes_moved: got '5'"),
        ((), {"dtype": "fp32"}, "dtype is of flop and bytes_moved"),
        ((), {"flop": 1, "dtype": "fp23"}, "fp23"),
        (((n for n in "ab"),), {}, "argument 1 is a generator"),
    ],
)
def test_bad_input_is_refused_before_anything_is_called(args, more, text):
    with pytest.raises(RooflabError, match=text):
        rooflab.time(fails_when_called, *args, **more)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(RooflabError, match="time: got a int, expected a function and its arguments"):
        rooflab.time(5)


def test_another_card_than_the_machines_is_said():
    from types import SimpleNamespace

    from rooflab.story.timed_doubts import other_card

    report = rooflab.op("relu", 4096, machine="h200")
    cards = {"cuda:0 (NVIDIA H200)": [], "CPU": [], "cuda:0 (NVIDIA A100-SXM4-80GB)": ["A100-SXM4-80GB"]}
    for name, said in cards.items():
        lines = list(other_card(SimpleNamespace(device=name), report))
        assert len(lines) == len(said)
        assert all(part in line for part, line in zip(said, lines, strict=True))
