"""The picture of accesses one by one: a row an access, a box a line, words for hits, misses and what leaves."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab import Cache, cli, streams
from rooflab.errors import RooflabError
from rooflab.views.common import drawing
from rooflab.views.simulation import files, steps

FIVE = rooflab.simulate(streams.sequential(40, passes=5), levels=[Cache(32, 4, 8)], steps=True)
MATMUL = rooflab.simulate(streams.matmul(30), levels=[Cache(4096, 8), Cache(65536, 4)], steps=True)


def test_five_values_in_four_lines_never_hit():
    texts = [text.text for text in steps.drawing(FIVE, width=steps.WIDE).texts()]
    assert texts.count("miss, from memory") == 4
    assert texts.count("miss, from memory; a[0] leaves L1") == 5
    assert "L1 hit" not in texts
    # By hand: four lines after the first four loads, newest first.
    row = texts.index("4  load a[3]")
    assert texts[row + 2 : row + 6] == ["a[3]", "a[2]", "a[1]", "a[0]"]


def test_five_values_in_a_line_miss_once():
    found = rooflab.simulate(streams.sequential(40, passes=5), levels=[Cache(128, 2)], steps=True)
    texts = [text.text for text in steps.drawing(found).texts()]
    assert texts.count("L1 hit") == 24
    assert texts.count("a[0–4]") == 25


@pytest.mark.parametrize("width", [steps.WIDE, steps.NARROW])
@pytest.mark.parametrize("found", [FIVE, MATMUL])
def test_no_words_overlap_or_leave_the_picture(found, width):
    drawn = steps.drawing(found, width=width)
    assert drawn.overlaps() == ()
    right, bottom = drawing.extent(drawn.items)
    assert right <= width + 1
    assert bottom <= drawn.height + 1
    boxes = sum(isinstance(item, drawing.Box) for item in drawn.items)
    held = sum(len(lines) for step in found.steps[: steps.SHOWN] for lines in step.held)
    more = sum(int(text.text[1:]) for text in drawn.texts() if text.text.startswith("+"))
    assert boxes + more == held


def test_the_page_has_it_only_where_accesses_are_kept(tmp_path):
    assert "Access by access" in files.html(FIVE)
    plain = msgspec.structs.replace(FIVE, steps=())
    assert "Access by access" not in files.html(plain)
    with pytest.raises(RooflabError, match="holds no accesses one by one"):
        steps.drawing(plain)


def test_it_is_drawn_again_from_a_file(tmp_path):
    FIVE.save(tmp_path / "five.json")
    assert steps.drawing(rooflab.load(tmp_path / "five.json")) == steps.drawing(FIVE)


def run(*arguments: str) -> int:
    """The exit code of `rooflab simulate` with those arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["rooflab", "simulate", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


def test_the_command_writes_every_form(tmp_path, capsys):
    paths = [tmp_path / f"s{suffix}" for suffix in files.STEP_WRITERS]
    assert run("sequential", "40", "--level", "128/2", "--steps", *(f"-o{path}" for path in paths)) == 0
    assert "1  load a[0]        miss, from memory" in capsys.readouterr().out
    assert "load a[4]" in (tmp_path / "s.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sequential", "40", "--steps", "--curve"], "no --curve or --tlb"),
        (["x.din", "--steps"], "--steps is of a stream"),
        (["sequential", "40", "--steps", "-o", "x.csv"], "expected one of .json, .html, .svg, .png, .pdf"),
        (["counters", "40", "--steps", "--cores", "2"], "--steps: of one core alone"),
    ],
)
def test_bad_input_is_one_line(arguments, said, capsys):
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
