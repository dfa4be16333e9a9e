"""A report's totals, groups and its dictionary."""

from __future__ import annotations

import json

import pytest

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.report import Report
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting

VECTOR = TensorSpec((10,), "fp32", 40.0, storage=0)
OUT = TensorSpec((10,), "fp32", 40.0, storage=1)


def op(module, function="relu", count=1, **more):
    attrs = {"function": function}
    return Op(
        name=f"aten.{function}",
        kind="pointwise",
        inputs=(0,),
        outputs=(1,),
        attrs=attrs,
        module=module,
        count=count,
        **more,
    )


def report(*ops):
    return counting.report(Graph(framework="hand", tensors=(VECTOR, OUT), ops=ops), "test")


TREE = report(op("a"), op("a.0"), op("a.0"), op("a.1", count=3), op("", "exp"), op("b.c.d"))


def test_the_tree_of_modules_adds_up():
    found = [(group.name, group.depth, group.ops, group.flop) for group in TREE.by("module")]
    assert found == [
        ("", 0, 6, 80),
        ("(itself)", 1, 1, 10),
        ("a", 1, 4, 60),
        ("a.(itself)", 2, 1, 10),
        ("a.0", 2, 2, 20),
        ("a.1", 2, 1, 30),
        ("b", 1, 1, 10),
        ("b.c", 2, 1, 10),
        ("b.c.d", 3, 1, 10),
    ]


def test_groups_by_kind_and_operation_add_up():
    for key in ("kind", "op"):
        groups = TREE.by(key)
        assert sum(group.flop for group in groups) == TREE.flop
        assert sum(group.nbytes for group in groups) == TREE.nbytes
    assert [group.name for group in TREE.by("op")] == ["aten.relu", "aten.exp"]
    with pytest.raises(UnknownNameError, match="unknown grouping 'modul'; did you mean module"):
        TREE.by("modul")


def test_a_phase_can_be_asked_for():
    both = report(op("a"), op("a", "exp", phase="backward"))
    assert both.by("op", "backward")[0].name == "aten.exp"
    assert len(both.by("op", "backward")) == 1


def test_unknown_operations_are_grouped_by_their_name():
    odd = report(Op(name="my::op", inputs=(0,), outputs=(1,)))
    assert [(group.name, group.ops, group.counted) for group in odd.by("kind")] == [("unknown: my::op", 1, 0)]


def test_totals():
    found = rooflab.op("matmul", (4, 8), (8, 2), dtype="bf16", bias=True)
    # 2·4·2·8, and an addition for each of the 8 outputs
    assert (found.matrix_flop, found.flop, found.macs) == (128, 136, 64)
    # 32 + 16 + 2 of the bias read, 8 written, 2 bytes each
    assert (found.read_bytes, found.write_bytes, found.nbytes) == (100, 16, 116)
    assert found.intensity == 136 / 116
    # per output 8 loads of each side and one of the bias, one store
    assert found.accessed_bytes == 8 * (2 * 8 * 2 + 2) + 16
    assert [(one.engine, one.dtype, one.count) for one in found.flop_by] == [
        ("matrix", "bf16", 128),
        ("vector", "bf16", 8),
    ]
    assert (found.parameters, found.parameter_bytes) == (2, 4)


def test_a_complex_multiply_add_is_four_real_ones():
    assert rooflab.op("matmul", (64, 64), (64, 64), dtype="complex64").flop == 2_097_152
    assert rooflab.op("matmul", (64, 64), (64, 64), dtype="complex64").macs == 4 * 64**3


def test_an_empty_program_has_no_intensity():
    found = report()
    assert (found.flop, found.nbytes, found.intensity, found.accessed_bytes) == (0, 0, None, 0)


REPORTS = (
    TREE,
    rooflab.op("conv2d", "1x3x8x8", "4x3x3x3", padding="same"),
    rooflab.op("attention", "1x8x16x4", causal=True, machine="h200"),
    rooflab.op("adam", "10x10"),
)


@pytest.mark.parametrize("found", REPORTS, ids=lambda found: found.name.split()[0])
def test_a_report_comes_back_from_its_dictionary(found):
    raw = json.loads(json.dumps(found.to_dict()))
    assert Report.from_dict(raw) == found
    assert raw["schema"] == 1
    assert raw["totals"]["flop"] == found.flop
    # Operations are written once.
    assert raw["graph"]["ops"] == []


BAD = (
    ({"schema": 99}, "schema 99 is newer than this rooflab reads"),
    ({"name": "x"}, "not a report: Object missing required field"),
    ({**TREE.to_dict(), "extra": 1}, "not a report: Object contains unknown field `extra`"),
    ({**TREE.to_dict(), "rows": 3}, r"not a report: Expected `array`, got `int` - at `\$.rows`"),
    ([], "not a report"),
)


@pytest.mark.parametrize(("raw", "said"), BAD, ids=range(len(BAD)))
def test_a_dictionary_that_is_no_report_says_why(raw, said):
    with pytest.raises(RooflabError, match=said):
        Report.from_dict(raw)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("rows", 0, "op", "inputs"), [99], r"rows\[0\].op is of tensor 99, expected 0 to 2"),
        (("rows", 0, "op", "outputs"), [-1], r"rows\[0\].op is of tensor -1"),
        (("rows", 0, "prediction", "time_s"), -1.0, r"rows\[0\].prediction.time_s is -1, expected 0 or more"),
        (("prediction", "memory_s", "L2"), -2.0, r"prediction.memory_s\['L2'\] is -2"),
        (("rows", 0, "cost", "compulsory", "read_bytes"), -1e9, r"negative number in rows\[0\].cost"),
    ],
)
def test_a_file_that_a_hand_has_been_at_is_refused(place, value, said):
    raw = json.loads(json.dumps(rooflab.op("matmul", "64x64", "64x64", machine="h200-sxm").to_dict()))
    at = raw
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    with pytest.raises(RooflabError, match=said):
        Report.from_dict(raw)


def test_a_saved_report_is_not_asked_for_another_machine_in_silence(tmp_path):
    path = tmp_path / "saved.json"
    rooflab.op("matmul", "64x64", "64x64", machine="h200-sxm").save(path)
    with pytest.raises(
        RooflabError, match=r"saved.json: a saved Report, which keeps its own; machine is for a profile"
    ):
        rooflab.load(path, machine="a100-sxm-80gb")
