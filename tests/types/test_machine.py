"""The machine as data: which level, which rate, which peak; and JSON that reads back equal."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.machine import (
    SCHEMA,
    Check,
    Curve,
    Level,
    Link,
    Machine,
    Part,
    Plateau,
    Point,
    Rate,
    Runtime,
    Source,
    is_main_memory,
)

SOURCE = Source(kind="measured", ref="rooflab measure", date="2026-01-15")


def rate(value, what="read", per_s="byte", basis="attained", **more):
    return Rate(value=value, what=what, per_s=per_s, basis=basis, source=SOURCE, **more)


def peak(value, dtype, **more):
    return rate(value, **{"what": "fma", "per_s": "flop", "basis": "theoretical", "dtype": dtype, **more})


L1 = Level(
    name="L1",
    source=SOURCE,
    rates=(
        rate(200e9, scope="core"),
        rate(400e9),
        rate(390e9),
        rate(450e9, basis="theoretical"),
        rate(500e9, "triad", stores="ordinary"),
    ),
)
HBM = Level(name="HBM", source=SOURCE, rates=(rate(4.8e12, "any", basis="theoretical"),))
BOX = Machine(
    name="box",
    kind="gpu",
    source=SOURCE,
    levels=(L1, HBM),
    peaks=(
        peak(165e12, "fp16", accumulate="fp32", engine="matrix"),
        peak(330e12, "fp16", accumulate="fp16", engine="matrix"),
        peak(82e12, "fp16", engine="vector"),
        peak(83e12, "fp32", engine="vector"),
        peak(80e12, "fp32", engine="vector", basis="attained"),
        peak(0.6e12, "fp32", engine="vector", scope="sm"),
        peak(660e12, "int8", accumulate="int32", engine="matrix", per_s="op"),
        peak(10e12, "bf16", accumulate="fp16", engine="matrix"),
    ),
)

PEAKS = (
    ("fp16", {}, 165e12),  # frameworks accumulate in fp32: the faster fp16 sum is another product
    ("fp16", {"accumulate": "fp16"}, 330e12),
    ("fp16", {"engine": "vector"}, 82e12),
    ("fp32", {}, 83e12),
    ("fp32", {"basis": "attained"}, 80e12),
    ("fp32", {"scope": "sm"}, 0.6e12),
    ("int8", {}, 660e12),
    ("bf16", {}, 10e12),  # the only one that there is
    ("bf16", {"accumulate": "fp32"}, None),
    ("fp64", {}, None),  # never another format's
    ("fp32", {"engine": "matrix"}, None),
)


@pytest.mark.parametrize(("dtype", "wanted", "value"), PEAKS)
def test_peak(dtype, wanted, value):
    found = BOX.peak(dtype, **wanted)
    assert (found.value if found else None) == value


def test_rtx_4090_accumulates_in_fp32_unless_asked():
    card = rooflab.machine("rtx-4090")
    assert card.peak("fp16", engine="matrix").value == pytest.approx(165e12, rel=0.01)
    assert card.peak("fp16", engine="matrix", accumulate="fp16").value == pytest.approx(330e12, rel=0.01)


RATES = (
    ({}, 450e9),
    ({"basis": "attained"}, 400e9),  # the faster of two
    ({"scope": "core"}, 200e9),
    ({"what": "triad"}, 500e9),
    ({"what": "copy"}, None),
    ({"scope": "sm"}, None),
)


@pytest.mark.parametrize(("wanted", "value"), RATES)
def test_rate_of_a_level(wanted, value):
    found = L1.rate(wanted.get("what"), **{key: each for key, each in wanted.items() if key != "what"})
    assert (found.value if found else None) == value


def test_where_no_read_is_known_any_mix_stands():
    assert HBM.rate().what == "any"
    assert HBM.rate("read") is None


@pytest.mark.parametrize(("name", "found"), [("L1", L1), ("l1", L1), ("HBM", HBM), ("memory", HBM)])
def test_level(name, found):
    assert BOX.level(name) is found


def test_an_unknown_level_lists_near_ones():
    with pytest.raises(UnknownNameError, match="unknown level of box 'HBM3e'; did you mean HBM"):
        BOX.level("HBM3e")


def test_main_memory():
    assert [is_main_memory(each) for each in (L1, HBM)] == [False, True]


def test_a_point_knows_its_intensity_and_speed():
    # Triad over 1e6 doubles: 2 FLOP and 24 bytes (2 reads + 1 write) each.
    point = Point(name="triad", flop=2e6, bytes=24e6, time_s=1e-3, source=SOURCE)
    assert point.intensity == pytest.approx(1 / 12)
    assert point.flop_per_s == pytest.approx(2e9)


WHOLE = msgspec.structs.replace(
    BOX,
    vendor="Someone",
    year=2026,
    aliases=("Box 1", "Kasten"),
    compute_unit="SM",
    compute_units=132,
    tdp_w=700.0,
    parts=(Part(name="GPU", count=8, machine="h200", source=SOURCE),),
    clocks=(rate(1.98e9, "boost", "cycle", "theoretical"),),
    links=(Link(name="PCIe", to="host", each_way_bytes_per_s=63e9, duplex=True, source=SOURCE),),
    runtimes=(Runtime(framework="numpy", dispatch_s=2e-7, runs=5, source=SOURCE),),
    points=(Point(name="triad", flop=2.0, bytes=24.0, time_s=1e-9, level="HBM", source=SOURCE),),
    checks=(Check(name="spread", ok=False, message="Noisy."),),
    curves=(
        Curve(
            name="read bandwidth",
            x_unit="byte",
            y_unit="byte/s",
            scope="core",
            x=(1024.0, 2048.0),
            best=(2e11, 2e11),
            median=(1.9e11, 1.8e11),
            plateaus=(Plateau(level="L1", first=1024.0, last=2048.0, value=2e11),),
            source=SOURCE,
        ),
    ),
    environment={"python": "3.11", "cores": 2, "quota": 1.5, "noisy": True, "flags": ["avx2", "fma"]},
    incomplete="interrupted",
    note="made up",
)


def test_a_machine_survives_json():
    assert Machine.from_dict(json.loads(json.dumps(WHOLE.to_dict()))) == WHOLE


@pytest.mark.slow
@given(st.floats(min_value=1, max_value=1e18), st.none() | st.floats(0, 1), st.text(max_size=20))
def test_any_number_survives_json(value, spread, note):
    machine = msgspec.structs.replace(BOX, peaks=(peak(value, "fp64", spread=spread),), note=note)
    assert Machine.from_dict(json.loads(json.dumps(machine.to_dict()))) == machine


def test_the_top_level_of_the_json_is_what_the_documentation_says():
    for key in ("schema", "name", "levels", "peaks", "links", "points", "checks", "curves", "environment"):
        assert key in WHOLE.to_dict()
    assert WHOLE.to_dict()["schema"] == SCHEMA


def changed(**fields):
    return {**BOX.to_dict(), **fields}


REFUSED = (
    (
        changed(schema=SCHEMA + 1),
        f"schema {SCHEMA + 1} is newer than this rooflab reads ({SCHEMA}); update rooflab",
    ),
    (changed(bandwidth=3), "not a machine: Object contains unknown field `bandwidth`"),
    (changed(kind="fpga"), "not a machine: Invalid enum value 'fpga' - at `$.kind`"),
    ({}, "not a machine: Object missing required field `name`"),
    (
        changed(levels=[{"name": "L1", "source": "datasheet"}]),
        "not a machine: Expected `object`, got `str` - at `$.levels[0].source`",
    ),
)


@pytest.mark.parametrize(("raw", "message"), REFUSED)
def test_what_is_no_machine_is_refused_with_its_field(raw, message):
    with pytest.raises(RooflabError) as refused:
        Machine.from_dict(raw)
    assert str(refused.value) == message


def test_a_machine_does_not_change():
    with pytest.raises(AttributeError):
        BOX.name = "other"


def test_save_writes_what_from_dict_reads(tmp_path):
    WHOLE.save(str(tmp_path / "m.json"))
    assert Machine.from_dict(json.loads((tmp_path / "m.json").read_text())) == WHOLE
