"""Coverage: what was not counted lowers it by number and by bytes, with its name and the reason."""

from __future__ import annotations

from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting
from rooflab.work.front_end import versions

X, Y = TensorSpec((100,), "fp32", 400.0, storage=0, role="input"), TensorSpec((100,), "fp32", 400.0, storage=1)
RELU = Op(name="aten.relu", kind="pointwise", inputs=(0,), outputs=(1,), attrs={"function": "relu"})


def report(*ops, unknown=()):
    return counting.report(Graph(framework="hand", tensors=(X, Y), ops=ops, unknown=unknown), "test")


def test_all_counted():
    found = report(RELU, RELU).coverage
    assert (found.ops, found.counted, found.share, found.bytes_share) == (2, 2, 1.0, 1.0)
    assert found.complete


def test_an_operation_without_a_formula_is_named_and_its_bytes_are_missing():
    odd = Op(name="my::op", inputs=(0, 1), outputs=(1,), count=2)
    found = report(RELU, odd, odd)
    assert found.coverage.uncounted == {"my::op": 2}
    assert found.coverage.reasons == {"my::op": "not in the vocabulary"}
    # 800 bytes counted of 800 + 2·2·1200
    assert found.coverage.bytes_share == 800 / 5600
    assert found.coverage.share == 1 / 3
    assert not found.coverage.complete
    row = found.rows[1]
    assert (row.cost, row.flop, row.macs, row.nbytes, row.intensity) == (None,) * 5
    # Totals are those of the counted rows.
    assert (found.flop, found.nbytes) == (100, 800)


def test_an_opaque_operation_is_not_counted():
    found = report(Op(name="triton.kernel", kind="opaque", inputs=(0,), outputs=(1,)))
    assert found.coverage.counted == 0
    assert "opaque" in found.coverage.reasons["triton.kernel"]


def test_a_kind_without_a_formula_is_not_counted():
    found = report(Op(name="aten.odd", kind="no such kind", inputs=(0,), outputs=(1,)))
    assert found.coverage.uncounted == {"aten.odd": 1}


def test_where_nothing_was_counted_the_totals_are_unknown_in_json():
    totals = report(Op(name="my::op", inputs=(0,), outputs=(1,))).to_dict()["totals"]
    assert (totals["flop"], totals["nbytes"], totals["intensity"]) == (None, None, None)
    assert totals["peak_memory_bytes"] == 800


def test_what_was_not_followed_makes_it_incomplete():
    found = report(RELU, unknown=("while: trip count not given",)).coverage
    assert (found.share, found.complete) == (1.0, False)


def test_an_empty_program_is_covered():
    found = report().coverage
    assert (found.share, found.bytes_share, found.complete) == (1.0, None, True)


def test_trips_multiply_numbers_but_not_operations():
    looped = Op(name="r", kind="pointwise", inputs=(0,), outputs=(1,), attrs={"function": "relu"}, count=7)
    found = report(looped)
    assert (found.flop, found.nbytes, found.coverage.ops) == (700, 5600, 1)


def test_versions_name_python_and_an_installed_framework_only():
    assert list(versions("hand")) == ["python"]
    assert set(versions("msgspec")) == {"python", "msgspec"}
