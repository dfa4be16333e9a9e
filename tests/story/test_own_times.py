"""Times of one's own on the rows of a report: whose each is, what is refused, what is kept."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.types.report import Report

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def report():
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(256, 512)
            self.second = torch.nn.Linear(512, 256)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    with torch.device("meta"):
        return rooflab.analyze(Layers(), torch.empty(64, 256), machine="epyc-9654", advice=False)


def number_of(report, name, nth=0):
    return [number for number, row in enumerate(report.rows) if row.op.name == name][nth]


def test_one_time_is_of_the_whole_program(report):
    timed = report.with_times("2 ms")
    assert timed.measured_s == 2e-3
    assert len(timed.own_times) == 1
    assert timed.own_times[0].rows == tuple(range(len(report.rows)))
    assert timed.own_times[0].of_prediction == 2e-3 / report.time_s
    assert timed.measurement.by == "given"
    assert timed.measured_rows_s is None


def test_times_by_number_by_name_and_by_occurrence_are_the_same(report):
    first, second = number_of(report, "aten.addmm"), number_of(report, "aten.addmm", 1)
    by_number = report.with_times({first: "20 us", second: "30 us"})
    by_name = report.with_times({"aten.addmm": ["20 us", "30 us"]})
    assert by_number.own_times == by_name.own_times
    assert by_name.rows[first].observation.time_s == pytest.approx(20e-6)
    assert by_name.measured_rows_s == pytest.approx(50e-6)
    everything = [None] * len(report.rows)
    everything[first], everything[second] = "20 us", "30 us"
    assert report.with_times(everything).own_times == by_number.own_times


def test_a_sum_and_a_module_are_of_several_rows(report):
    both = tuple(n for n, row in enumerate(report.rows) if row.op.name == "aten.addmm")
    (own,) = report.with_times({"aten.addmm": "50 us"}, sums=True).own_times
    assert own.rows == both
    assert own.predicted_s is not None
    (module,) = report.with_times({"first": "50 us"}).own_times
    assert module.rows == (both[0],)


def test_a_time_of_the_only_row_is_that_of_the_program(capsys):
    alone = rooflab.op("add", 1000, 1000, machine="m1-pro", advice=False)
    timed = alone.with_times({"add": "20 us"})
    assert timed == alone.with_times("20 us")
    assert timed.rows[0].observation.time_s == timed.measured_s
    timed.show()
    assert "measured     20.0 µs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("times", "more", "says"),
    [
        ({"aten.addmm": "50 us"}, {}, "one time for aten.addmm, which 2 rows have"),
        ({"aten.addmm": ["1 us"]}, {}, "1 times for aten.addmm, which 2 rows have"),
        ({"aten.admm": "50 us"}, {}, "did you mean aten.addmm"),
        ({"secnd": "50 us"}, {}, "did you mean second"),
        ({99: "50 us"}, {}, "row 99, expected 0 to"),
        ({-1: "50 us"}, {}, "row -1, expected 0 to"),
        ({True: "50 us"}, {}, "got the key True"),
        ({}, {}, "no time for any of"),
        (["1 us"] * 99, {}, "99 times for"),
        ({"aten.relu": "660"}, {}, "aten.relu: '660' has no unit"),
        ({"aten.relu": "3 GB"}, {}, "is in byte, expected a time above zero"),
        ({"aten.relu": "1,5 ms"}, {}, "does not part thousands"),
        ({"aten.relu": 1e-15}, {}, "less than any clock"),
        ({"aten.relu": 0}, {}, "got 0, expected a time above zero"),
        ({"aten.relu": float("nan")}, {}, "got nan, expected a time above zero"),
        ({"aten.relu": [None]}, {}, "no time for any of"),
        ("2 ms", {"total": "3 ms"}, "a time and total="),
        ({"aten.addmm": ["1 us", "1 us"], "first": "1 us"}, {}, "has two times"),
    ],
)
def test_what_is_refused_says_why(report, times, more, says):
    with pytest.raises(rooflab.RooflabError, match=says) as caught:
        report.with_times(times, **more)
    assert "\n" not in str(caught.value)


def test_a_report_without_a_machine_is_refused():
    with pytest.raises(rooflab.RooflabError, match="on no machine"):
        rooflab.op("add", 10, 10).with_times("1 ms")


def test_a_view_has_no_time(report):
    views = [number for number, row in enumerate(report.rows) if row.op.kind == "view"]
    assert views  # the transposed weights
    with pytest.raises(rooflab.RooflabError, match="runs no kernel"):
        report.with_times({views[0]: "1 us"})


def test_rows_that_take_more_than_the_program_are_doubted(report):
    timed = report.with_times({"aten.addmm": ["1 ms", "1 ms"]}, total="1 ms")
    assert "add up to 2.00 ms, more than the 1.00 ms" in timed.measurement.notes[0]
    assert not report.with_times({"aten.addmm": ["1 ms", "1 ms"]}, total="3 ms").measurement.notes


def test_it_is_saved_compared_advised_and_gone_where_it_is_predicted_again(report, tmp_path):
    timed = report.with_times({"aten.relu": "50 us"}, total="1 ms")
    path = tmp_path / "timed.json"
    timed.save(path)
    assert rooflab.load(path) == timed
    assert rooflab.advise(timed).own_times == timed.own_times
    faster = report.with_times("900 us")
    amounts = {one.metric: one for one in rooflab.compare(timed, faster).differences[0].amounts}
    assert amounts["measured"].base.value == pytest.approx(1e-3)
    assert amounts["measured"].other.value == pytest.approx(9e-4)
    assert "measured" not in {one.metric for one in rooflab.compare(report, report).differences[0].amounts}
    assert rooflab.compare(report, timed).name
    again = timed.on("epyc-7763")
    assert (again.measured_s, again.own_times, again.measurement) == (None, (), None)
    assert all(row.observation is None for row in again.rows)


def test_names_in_it_are_escaped_on_the_page():
    from rooflab.views.report import html

    made = rooflab.op("add", 1000, 1000, machine="m1-pro", advice=False)
    raw = made.with_times("1 ms").to_dict()
    raw["measurement"]["notes"] = ["<script>alert(1)</script>"]
    assert "<script>alert(1)" not in html(Report.from_dict(raw))
