"""What-ifs: how they are written, what they change, what is refused."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model.program import setting


def product(**settings):
    return rooflab.op("matmul", (16, 8192), (8192, 8192), dtype="bf16", machine="h200", cache="cold", **settings)


def test_factors_values_words_and_work():
    found = setting.what_if(
        "bandwidth=2x, clock=0.9,mode=eager,cache=cold,power=sustained,dtype=float8_e4m3fn,batch=64"
    )
    assert found.factors == {"bandwidth": 2.0, "clock": 0.9}
    assert (found.mode, found.cache, found.power) == ("eager", "cold", "sustained")
    assert (found.dtype, found.batch) == ("fp8", 64)


def test_a_value_with_a_unit_is_a_factor_on_the_machines_own():
    machine = rooflab.machine("h200")
    # 9.6 TB/s over 4.8, 282 GB over 141, 264 SMs over 132, 990 MHz over 1980
    for text, name, factor in (
        ("bandwidth=9.6 TB/s", "bandwidth", 2.0),
        ("capacity=282 GB", "capacity", 2.0),
        ("units=2x", "units", 2.0),
        ("clock=990 MHz", "clock", 0.5),
    ):
        assert setting.factors_on(machine, setting.what_if(text)) == {name: pytest.approx(factor)}


def test_fusion_is_a_mode():
    assert setting.what_if({"fusion": "on"}).mode == "compiled"
    assert setting.what_if({"fusion": "off"}).mode == "graph"


REFUSED = (
    ("peaks=2x", "unknown what-if 'peaks'; did you mean compute? known: bandwidth, compute, clock, units"),
    ("SMs=2x", "did you mean units"),
    ("colour=2x", "unknown what-if 'colour'; known: bandwidth, compute"),
    ("bandwith=2x", "unknown what-if 'bandwith'; did you mean bandwidth"),
    ("bandwidth=-1", "what-if bandwidth=-1: expected a positive number"),
    ("bandwidth=0x", "expected a positive number"),
    ("bandwidth=inf", "expected a positive number"),
    ("bandwidth=fast", "expected a factor such as bandwidth=2x, or a value with its unit"),
    ("bandwidth", "what-if 'bandwidth': expected NAME=VALUE, such as bandwidth=2x"),
    ("mode=egar", "did you mean eager"),
    ("fusion=yes", "unknown what-if fusion 'yes'"),
    ("batch=0", "expected a whole number of at least 1"),
    ("dtype=fp7", "unknown dtype 'fp7'; did you mean"),
)


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_nonsense_is_refused_in_one_line(text, said):
    with pytest.raises(RooflabError) as caught:
        setting.what_if(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_number_that_the_machine_does_not_state_takes_a_factor():
    with pytest.raises(RooflabError, match="give a factor such as overhead=2x"):
        setting.factors_on(rooflab.machine("h200"), setting.what_if("overhead=2 us"))


def test_more_bandwidth_helps_what_memory_binds_and_leaves_the_work():
    report = rooflab.op("add", (1 << 26,), (1 << 26,), machine="h200")
    faster = report.on("h200", what_if="bandwidth=2x")
    assert report.bound == "memory-bound"
    assert 0.45 < faster.time_s / report.time_s < 0.65
    assert (faster.flop, faster.nbytes) == (report.flop, report.nbytes)
    assert faster.setting.what_if == {"bandwidth": 2.0}


def test_compute_helps_what_arithmetic_binds():
    report = rooflab.op("matmul", (8192, 8192), (8192, 8192), dtype="bf16", machine="h200")
    assert report.on("h200", what_if="compute=2x").time_s < 0.75 * report.time_s
    assert report.on("h200", what_if={"bandwidth": 4}).time_s > 0.8 * report.time_s


def test_a_narrower_format_halves_the_bytes_that_are_streamed():
    report = product()
    narrow = report.on("h200", what_if="dtype=fp8")
    # 8192² weights of 1 byte instead of 2; the results stay 16 x 8192 x 2 bytes
    assert narrow.read_bytes == report.read_bytes / 2
    assert narrow.write_bytes == report.write_bytes
    assert narrow.time_s < 0.75 * report.time_s
    assert "fp8" in narrow.name


def test_a_batch_needs_another_capture():
    with pytest.raises(RooflabError, match="analyze it again on inputs of that batch"):
        product().on("h200", what_if="batch=4")


def test_a_setting_is_kept_until_it_is_changed():
    report = product(power="sustained")
    again = report.on("h100-sxm")
    assert (again.setting.cache, again.setting.power, again.setting.mode) == ("cold", "sustained", "graph")
    assert report.on("h100-sxm", cache="warm").setting.cache == "warm"
    with pytest.raises(UnknownNameError, match="did you mean warm"):
        report.on("h200", cache="warmed")
