"""The 25 cases of `docs/counters.md`: rooflab is right on each."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import rooflab  # noqa: E402

_FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "counter_cases.py"
_SPEC = importlib.util.spec_from_file_location("counter_cases", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
cases = importlib.util.module_from_spec(_SPEC)
sys.modules["counter_cases"] = cases  # where its annotations are looked up
_SPEC.loader.exec_module(cases)


def test_there_are_as_many_as_the_page_says():
    assert len(cases.CASES) == 25


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.CASES, ids=lambda one: one.name)
def test_the_matrix_work_of_each_case_is_its_closed_form(case):
    pytest.importorskip(case.framework)
    program, inputs = case.make()
    with torch.set_grad_enabled(case.backward):
        report = rooflab.analyze(program, *inputs, backward=case.backward, trips=case.trips, device="cpu")
    found = sum(
        flop.count * row.op.count
        for row in report.rows
        if row.cost is not None
        for flop in row.cost.flop
        if flop.engine == "matrix" or row.op.kind == "sparse_matmul"
    )
    assert found == case.expected
    assert report.coverage.share == 1.0
