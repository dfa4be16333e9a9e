"""The page's own interpreter of a tape, in a browser, against the model."""

from __future__ import annotations

import json
import random
from importlib import resources

import pytest

from rooflab.model.program.tape import tape_of
from support.model import tape_programs

SCRIPT = (resources.files("rooflab.views.common") / "tape.js").read_text(encoding="utf-8")
RUN = """(factors) => {
  const plain = x => Object.fromEntries(Object.entries(x).map(([name, column]) => [name, Array.from(column)]));
  const {rows, levels, ...whole} = window.tape.run(factors);
  return {rows: plain(rows), levels: plain(levels), ...whole};
}"""


@pytest.fixture
def page(browser):
    shown = browser.new_page()
    shown.add_script_tag(content=SCRIPT)
    yield shown
    shown.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", tape_programs.NAMES)
def test_the_page_predicts_as_the_model_does(page, name):
    report = tape_programs.report(name)
    tape = tape_of(report)
    page.evaluate(f"window.tape = new Tape({json.dumps(tape)})")
    assert page.evaluate("window.tape.start") == dict(tape["knobs"])
    chosen = random.Random(name)
    settings = [{}, *({knob: 2 ** chosen.uniform(-4, 4) for knob, _ in tape["knobs"]} for _ in range(4))]
    for factors in settings:
        played = page.evaluate(RUN, factors)
        assert tape_programs.furthest(played, tape["index"], report, factors) < 1e-6, factors
