"""A timed call on the terminal, as a page, a picture and in files: unknown is left out, warnings come first."""

from __future__ import annotations

import csv
import io

import msgspec
import pytest

import rooflab
from rooflab import views
from rooflab.types.timed_call import CallTimes, Surroundings, TimedCall

WARM = CallTimes(
    caches="warm", median_s=2e-6, best_s=1e-6, calls=30, blocks_s=(2e-6, 3e-6, 1e-6), low_s=1e-6, high_s=3e-6
)
COLD = msgspec.structs.replace(WARM, caches="cold", median_s=9e-6, low_s=None, high_s=None, blocks_s=(9e-6,))


def timed(**more) -> TimedCall:
    given = {
        "name": "<relu>",
        "device": "CPU",
        "warm": WARM,
        "first_s": 1e-3,
        "warm_up_calls": 10,
        "warm_up_s": 0.1,
        "surroundings": Surroundings(cpus=2),
        "uncounted": "nobody knows",
    }
    return TimedCall(**{**given, **more})


def shown(result: TimedCall) -> str:
    out = io.StringIO()
    views.show(result, out)
    return out.getvalue()


@pytest.fixture(scope="module")
def counted():
    report = rooflab.op("relu", 4096, machine="epyc-7763").with_times("2us")
    own = report.own_times[0]
    return timed(report=report, uncounted="", warm=msgspec.structs.replace(WARM, own=own))


def test_the_heading_has_the_times_and_warnings_follow_it():
    lines = shown(timed(cold=COLD, warnings=("Do not trust it.",))).splitlines()
    assert lines[0] == "<relu>: 2.00 µs (1.00 µs to 3.00 µs); 9.00 µs with cold caches"
    assert lines[1] == "Do not trust it."
    assert "Not counted: nobody knows." in lines[2]


def test_what_is_unknown_is_left_out():
    text = shown(timed())
    assert "other processes" not in text
    assert "clock of a core" not in text
    assert "predicted" not in text
    text = shown(timed(surroundings=Surroundings(cpus=2, others_share=0.25, clock_before_hz=3e9)))
    assert "25.0 % of the time of 2 CPUs" in text
    assert "3.00 GHz" in text


def test_a_counted_call_is_held_against_its_prediction_and_its_roof(counted):
    text = shown(counted)
    assert "× the predicted" in text
    assert "of its nearest roof" in text
    assert "2.05 GFLOP/s" in text  # 4096 / 2 µs


def test_work_that_goes_on_after_the_return_is_said():
    assert "It returns after 500 ns; the rest" in shown(timed(returns_s=5e-7))


def test_rows_of_the_csv_are_the_states(tmp_path, counted):
    path = tmp_path / "timed.csv"
    msgspec.structs.replace(counted, cold=COLD).save(path)
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert [row["caches"] for row in rows] == ["warm", "cold"]
    assert float(rows[0]["median_s"]) == 2e-6
    assert rows[0]["flop"] == "4096"
    assert rows[1]["low_s"] == ""


@pytest.mark.slow
def test_pictures_and_the_page(tmp_path, counted):
    page = views.room("TimedCall").html(counted)
    assert "&lt;relu&gt;" in page
    assert "<relu>" not in page
    # under the roofs where there are any, else the blocks
    counted.save(tmp_path / "counted.svg")
    timed(cold=COLD).save(tmp_path / "plain.svg")
    assert "FLOP/byte" in (tmp_path / "counted.svg").read_text(encoding="utf-8")
    assert "time of a call" in (tmp_path / "plain.svg").read_text(encoding="utf-8")
