"""Refitting constants: what made synthetic times is found again, what they don't bear on stays."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.calibrate import fit
from rooflab.model.calibrate.timings import Timed
from rooflab.model.device.constants import constants_of
from rooflab.model.program import forecast
from rooflab.types.setting import Setting

MACHINE = rooflab.machine("epyc-7763")
OPS = [
    *[("add", (f"{n} {n}",), {}) for n in (100, 300, 1000, 10_000)],
    *[("exp", (str(n),), {}) for n in (30_000, 100_000, 300_000, 1_000_000)],
    *[("cumsum", (str(n),), {}) for n in (10_000, 50_000, 100_000)],
    *[("sum", (f"{n}x1000",), {"dims": 1}) for n in (30, 100, 300)],
]


def timed(factors, noise=None, ops=OPS, machine=MACHINE):
    """Times as predicted with some constants multiplied, each then by its factor of `noise`."""
    base = constants_of(machine)
    constants = base.replaced({name: base(name) * factor for name, factor in factors.items()})
    made = []
    for number, (kind, shapes, attrs) in enumerate(ops):
        report = rooflab.op(kind, *" ".join(shapes).split(), **attrs)
        found = forecast.predict_on(report, machine, Setting(constants=constants))
        assert found.prediction is not None
        factor = 1.0 if noise is None else noise[number]
        made.append(Timed(report.name, report, (0,), found.prediction.time_s * factor))
    return made


def changed(found):
    return {each.name: each.after / each.before for each in found.changes if not each.name.endswith(".spread")}


@pytest.mark.slow
def test_constants_that_made_the_times_are_found_again():
    factors = {"numpy.exp_flop": 1.6, "numpy.scan_clocks": 0.5, "numpy.ufunc_calls": 2.0}
    found = fit.fit(timed(factors), MACHINE)
    ratios = changed(found)
    assert ratios == {name: pytest.approx(factor, rel=0.06) for name, factor in factors.items()}
    assert found.before.median > 0.2
    assert found.after.median < 0.05
    assert found.fitted.median < 0.03
    assert found.helps


@pytest.mark.slow
def test_one_wild_time_moves_nothing():
    noise = np.ones(len(OPS))
    noise[5] = 30.0
    assert changed(fit.fit(timed({}, noise), MACHINE)) == {}


@pytest.mark.slow
def test_what_no_time_depends_on_stays_and_is_said():
    found = fit.fit(timed({"numpy.exp_flop": 1.6}), MACHINE)
    assert "torch.exp_flop" in found.unseen
    assert "numpy.scan_clocks" in found.unmoved
    assert found.constants("torch.exp_flop") == constants_of(MACHINE)("torch.exp_flop")


@pytest.mark.slow
def test_times_that_fit_already_change_nothing_and_help_nothing():
    found = fit.fit(timed({}), MACHINE)
    assert changed(found) == {}
    assert not found.helps
    assert found.before.median == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_a_share_of_a_roof_stays_under_the_roof():
    ops = [("matmul", (f"{n}x{n} {n}x{n}",), {}) for n in (256, 320, 384, 448, 512, 640, 768, 1024)]
    found = fit.fit(timed({}, np.full(len(ops), 0.5), ops), MACHINE)
    shares = [each for each in found.changes if each.name.endswith("_share")]
    assert shares  # half the time is more than the constants below the roofs allow
    assert all(each.after <= 1 + 1e-12 for each in shares)


@pytest.mark.slow
def test_spreads_follow_the_errors_on_rows_not_used():
    quiet = fit.fit(timed({}), MACHINE)
    noise = np.exp(np.random.default_rng(0).normal(0, 0.6, len(OPS)))
    loud = fit.fit(timed({}, noise), MACHINE)
    name = "cpu_stream.spread"
    assert quiet.constants(name) < constants_of(MACHINE)(name) < loud.constants(name)


@pytest.mark.slow
def test_the_same_times_give_the_same_constants():
    first, second = (fit.fit(timed({"numpy.exp_flop": 1.6}), MACHINE) for _ in range(2))
    assert first.changes == second.changes


@pytest.mark.slow
def test_a_gpus_constants_are_refitted_too():
    gpu = rooflab.machine("h200")
    ops = [("matmul", (f"{n}x64 64x{n}",), {}) for n in (32, 64, 96, 128, 160, 192, 224, 256)]
    found = fit.fit(timed({"matmul.launch_s": 2.0}, ops=ops, machine=gpu), gpu)
    assert changed(found)["matmul.launch_s"] == pytest.approx(2.0, rel=0.1)
    assert found.after.median < 0.1 < found.before.median


def test_too_few_times_say_how_many_are_needed():
    with pytest.raises(RooflabError, match=r"^3 times that can be used, expected at least 8: add rows$"):
        fit.fit(timed({})[:3], MACHINE)
    with pytest.raises(RooflabError, match=r"\(1 left out, the first at line 4: no time\)"):
        fit.fit(timed({})[:3], MACHINE, dropped=("line 4: no time",))


def test_what_takes_no_time_is_refused():
    nothing = rooflab.op("copy", 0)
    rows = [*timed({}), Timed("copy 0", nothing, (0,), 1e-6)]
    with pytest.raises(RooflabError, match="copy 0: nothing in it takes time, so no constant bears on it"):
        fit.fit(rows, MACHINE)
