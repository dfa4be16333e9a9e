"""The command `show`: a saved result drawn again, in other formats, of some operations; nothing measured anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import rooflab
from rooflab.cli import cli
from rooflab.errors import RooflabError

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "report.json"
    rooflab.op("attention", (4, 16, 512, 64), dtype="bf16", machine="h200-sxm", fused=False).save(path)
    return path


def run(*words):
    return CliRunner().invoke(cli, ["show", *map(str, words)])


def refused(*words) -> str:
    done = run(*words)
    assert isinstance(done.exception, RooflabError), done.output
    return str(done.exception)


def test_a_saved_report_is_shown_as_it_was(saved, capsys):
    rooflab.load(saved).show()
    assert run(saved).output == capsys.readouterr().out


def test_it_is_written_in_other_formats_without_a_word_where_quiet(saved, tmp_path):
    done = run(saved, "-q", "-o", tmp_path / "x.md", "-o", tmp_path / "x.csv", "-o", tmp_path / "x.html")
    assert (done.exit_code, done.output) == (0, "")
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".csv", ".html", ".md"]


def test_json_is_the_saved_document(saved):
    assert json.loads(run(saved, "--json").output) == json.loads(saved.read_text())


def test_operations_are_chosen_and_totals_stay(saved):
    assert "1 of 1 operations (kind attention): 100.0 % of the time" in run(saved, "--kind", "attention").output
    assert refused(saved, "--kind", "atention").startswith("unknown kind of attention 4x16x512x64")
    assert "did you mean attention?" in refused(saved, "--kind", "atention")


def test_other_results_have_no_operations_to_choose():
    said = refused(EXAMPLES / "zen4-guest.toml", "--top", "3")
    assert said.endswith("zen4-guest.toml: holds a Machine, and --top is of a Report's operations")


def test_what_another_tool_wrote_is_read_by_load():
    said = refused(EXAMPLES / "gpt2-h200-trace.json.gz")
    assert "written by PyTorch profiler, expected a result that rooflab saved: rooflab load" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "Report", "schema": 99}', "schema 99 is newer than this rooflab reads (1); update rooflab"),
        ('{"type": "Report", "schema": 1, "colour": 3}', "not a report: "),
        ('{"type": "Reprt"}', "did you mean Report"),
        ("{", "not JSON"),
    ],
)
def test_a_file_that_is_no_result_is_refused_in_a_line(tmp_path, text, said):
    path = tmp_path / "x.json"
    path.write_text(text)
    message = refused(path)
    assert message.startswith(f"{path}: ")
    assert said in message
    assert "\n" not in message


def test_paths_are_checked_before_the_file_is_read(tmp_path):
    assert "suffix '.docx', expected one of .json, .toml, .csv" in refused(tmp_path / "no.json", "-o", "x.docx")


def test_what_does_not_go_together_is_told_in_one_line(tmp_path):
    lab, path = rooflab.lab, tmp_path / "sweep.json"
    system = lab.System(core=lab.ComputeCore(peak_flop_per_s=1e9), memory=lab.Memory(bandwidth_bytes_per_s=1e9))
    lab.sweep(lab.StreamingKernel(nbytes=1e6), system, "intensity", (0.5, 1.0, 2.0)).save(path)
    raw = json.loads(path.read_text())
    raw["values"][1] = float("inf")  # a JSON that Python writes and reads
    path.write_text(json.dumps(raw).replace("Infinity", "1e999"))
    said = refused(path)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said


def test_control_characters_of_a_file_reach_no_terminal_and_end_no_picture(saved, tmp_path):
    raw = json.loads(saved.read_text())
    raw["name"] = "red \x1b[31m \x07 and turned \u202e"
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(raw))
    done = run(path, "-o", tmp_path / "odd.svg", "-o", tmp_path / "odd.html", "-o", tmp_path / "odd.png")
    assert done.exit_code == 0
    assert "\x1b[31m" not in done.output
    assert "red \ufffd[31m" in (tmp_path / "odd.svg").read_text()
