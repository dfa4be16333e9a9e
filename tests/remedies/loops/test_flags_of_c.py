"""Advice on flags of C: asked where they matter, told only where prediction and run agree."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.c import compilers, examine, flags
from rooflab.machines import cache_levels
from rooflab.remedies.loops import of_c
from rooflab.types.loop import Timed

DOT = """
double dot(const double *x, const double *y, long n) {
  double total = 0;
  for (long i = 0; i < n; i++)
    total += x[i] * y[i];
  return total;
}
"""


@pytest.fixture(scope="module")
def dot(tmp_path_factory):
    try:
        compilers.find(False)
    except RooflabError as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("dot") / "dot.c"
    path.write_text(DOT)
    return path


@pytest.fixture(scope="module")
def guest(root):
    """A measured machine: this project's Zen 4 guest."""
    return rooflab.machine(root / "examples" / "zen4-guest.toml")


@pytest.fixture(scope="module")
def report(dot, guest):
    return rooflab.loop(
        f"{dot}:dot", np.ones(2000), np.ones(2000), 2000, machine=guest, cflags="-O2", advise=False
    )


def timed(report, best_s):
    """`report` as if its warm run had taken so long."""
    run = Timed(threads=1, cache="warm", best_s=best_s, median_s=best_s, spread=0.0, runs=5)
    return replace(report, runs=(run,))


def advised(monkeypatch, report, dot, guest, changed_s):
    """What is told where each changed build takes so long, and this one 1 µs."""
    done = examine.report

    def ran(*args, more=(), **options):
        return timed(done(*args, more=more, time=False, **options), changed_s if more else 1e-6)

    monkeypatch.setattr(examine, "report", ran)
    args = np.ones(2000), np.ones(2000), 2000
    target = examine.Target(dot, "dot")
    return of_c.advise(timed(report, 1e-6), target, args, cache_levels.choose(guest, None), "-O2", None)


def test_flags_that_are_there_are_not_asked_for(report):
    given = flags.Flags(("-O3", "-march=native"), "", "", "", False)
    assert of_c.optimised(report, given) is None
    assert of_c.optimised(report, given._replace(given=("-O2", "-march=znver4"))).more == ("-O3",)
    assert of_c.optimised(report, given._replace(given=())).more == ("-O3", "-march=native")
    assert of_c.reordered(report, given._replace(given=("-ffast-math",))) is None


def test_a_sum_that_waits_is_asked_with_fast_math(report):
    asked = of_c.reordered(report, flags.Flags(("-O2",), "", "", "", False))
    assert asked.more == ("-ffast-math",)
    assert asked.price == "numbers"
    assert "line 5: a chain of" in asked.evidence[0]


def test_advice_is_told_where_a_run_bears_it_out_and_else_is_not(monkeypatch, report, dot, guest):
    # without a profile of the changed build nothing is predicted to be faster: give it the times of one that is
    fast = replace(report.predictions[0], time_s=report.predictions[0].time_s / 4)
    placed = of_c.placement.place_on
    monkeypatch.setattr(
        of_c.placement, "place_on", lambda other, *rest: replace(placed(other, *rest), predictions=(fast,))
    )
    told = advised(monkeypatch, report, dot, guest, 3e-7)
    assert [each.rule for each in told.trades] == ["accumulators"]
    assert told.trades[0].gain_low_s < told.trades[0].gain_high_s
    monkeypatch.undo()
    monkeypatch.setattr(
        of_c.placement, "place_on", lambda other, *rest: replace(placed(other, *rest), predictions=(fast,))
    )
    held = advised(monkeypatch, report, dot, guest, 2e-6)
    assert not held.each
    assert not held.trades
    assert any("but run here it takes 2.00 µs instead of 1.00 µs" in each for each in held.unasked)
