"""The recorded prediction, run with other knobs, against the model run with them."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import rooflab
from rooflab.model.program.tape import tape_of
from rooflab.model.program.traced import Recording
from support.model import tape_programs
from support.model.tape_player import Player


@pytest.mark.parametrize("name", tape_programs.NAMES)
def test_the_tape_predicts_as_the_model_does(name):
    report = tape_programs.report(name)
    tape = json.loads(json.dumps(tape_of(report)))
    chosen = random.Random(name)
    knobs = [knob for knob, _ in tape["knobs"]]
    assert {"bandwidth", "overhead"} <= set(knobs)
    settings = [{}, *({knob: 2 ** chosen.uniform(-4, 4) for knob in knobs} for _ in range(6))]
    for factors in settings:
        played = Player(tape).run(factors)
        assert tape_programs.furthest(played, tape["index"], report, factors) < 1e-9, factors


def test_a_saved_report_gives_the_same_tape(tmp_path):
    report = tape_programs.report("mlp eager")
    report.save(tmp_path / "report.json")
    assert tape_of(rooflab.load(tmp_path / "report.json")) == tape_of(report)


def test_a_report_in_another_setting_starts_there():
    report = tape_programs.report("mlp eager")
    faster = report.on(report.machine, what_if={"bandwidth": 2, "overhead": 0.5})
    tape = tape_of(faster)
    assert dict(tape["knobs"])["bandwidth"] == 2
    assert tape_programs.furthest(Player(tape).run({}), tape["index"], faster, {}) < 1e-9


def test_a_report_without_a_machine_has_no_tape():
    assert tape_of(rooflab.op("relu", "1024")) is None


def test_uncounted_rows_make_the_whole_a_lower_bound():
    assert tape_of(tape_programs.report("uncounted"))["whole"] is False
    assert tape_of(tape_programs.report("mlp eager"))["whole"] is True


def test_repeated_blocks_are_recorded_once():
    short, long = (len(json.dumps(tape_of(tape_programs.stack(depth)))) for depth in (8, 64))
    # Of each of 56 · 3 rows more, only its place among the distinct ones and a few words of its host and engine.
    assert long - short < 56 * 3 * 40


def test_asking_a_traced_array_for_its_value_is_refused():
    knob = Recording().knob("bandwidth", 1.0)
    with pytest.raises(TypeError, match="depends on a knob"):
        bool(np.maximum(knob, 2.0) > 1)
    with pytest.raises(TypeError, match="no implementation"):
        np.sort(knob)
    with pytest.raises(TypeError):
        np.sin(knob)
