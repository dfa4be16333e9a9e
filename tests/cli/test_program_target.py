"""Targets of the command line: files, packages, what they may return, and errors that say where."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest

from rooflab.cli import program_target
from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.work import front_end

SOURCE = """
    import beside

    class Doubler:
        def __call__(self, x):
            return x * 2
        def forward(self, x):
            return x * 2

    doubler = Doubler()
    number = 3

    def one(): return Doubler(), 5
    def several(): return Doubler(), (5, 6)
    def by_name(): return Doubler(), {"x": 5}
    def both(batch=8): return Doubler(), [batch], {"y": beside.VALUE}
    def itself(n=4): return n * 2
    def program(): return Doubler()
    def wrong(): return Doubler(), (1,), 7
    def needs(x): return x
    def broken():
        raise ValueError("no good\\nsecond line")
    def anything(**sizes): return Doubler(), sizes
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (tmp_path / "beside.py").write_text("VALUE = 42\n", encoding="utf-8")
    path = tmp_path / "models_for_test.py"
    path.write_text(textwrap.dedent(SOURCE), encoding="utf-8")
    return path


FORMS = (
    ("one", {}, (5,), {}),
    ("several", {}, (5, 6), {}),
    ("by_name", {}, (), {"x": 5}),
    ("both", {}, (8,), {"y": 42}),
    ("both", {"batch": 2}, (2,), {"y": 42}),
    ("anything", {"n": 3}, (), {"n": 3}),
)


@pytest.mark.parametrize(("name", "dims", "args", "kwargs"), FORMS)
def test_a_function_may_return_a_program_and_its_inputs(file, name, dims, args, kwargs):
    found = program_target.load(f"{file}:{name}", dims)
    assert type(found.program).__name__ == "Doubler"
    assert (found.args, dict(found.kwargs), found.name, found.dims) == (args, kwargs, name, {})


def test_else_the_function_itself_is_the_program(file):
    found = program_target.load(f"{file}:itself", {"n": 6})
    assert found.program(**found.kwargs) == 12


def test_a_package_is_looked_for_where_one_stands(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert program_target.load("models_for_test:one").args == (5,)


def test_an_onnx_file_keeps_its_sizes(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    found = program_target.load(str(path), {"batch": 4})
    assert (found.program, found.name, found.dims) == (str(path), "model.onnx", {"batch": 4})


REFUSED = (
    ("nope", RooflabError, "unknown name in .*models_for_test.py 'nope'"),
    ("doubler", RooflabError, r"doubler is a Doubler without inputs, expected .* \(module, inputs\)"),
    ("number", RooflabError, "number is a int, expected a function of no argument"),
    ("needs", RooflabError, "'x' is a required argument, expected none; write a function that returns"),
    ("program", RooflabError, r"program returned a Doubler without inputs, expected \(module, inputs\)"),
    ("wrong", RooflabError, r"wrong returned \(module, args, int\), expected keywords last"),
    ("broken", RooflabError, r"ValueError: no good \(.*models_for_test.py:22\)$"),
)


@pytest.mark.parametrize(("name", "kind", "said"), REFUSED)
def test_bad_targets_say_what_is_expected(file, name, kind, said):
    with pytest.raises(kind, match=said) as caught:
        program_target.load(f"{file}:{name}")
    assert "\n" not in str(caught.value)


def test_an_unknown_keyword_names_those_there_are(file):
    with pytest.raises(UnknownNameError, match=r"unknown keyword of .*both 'bach'; did you mean batch"):
        program_target.load(f"{file}:both", {"bach": 2})


def test_places_that_are_not_there(file):
    with pytest.raises(FileError, match=r"missing.py: no such file, expected a Python file"):
        program_target.load(f"{file.parent}/missing.py:one")
    with pytest.raises(FileError, match=r"missing_package.sub: no module of that name, expected FILE.py:NAME"):
        program_target.load("missing_package.sub:one")
    with pytest.raises(FileError, match=r"missing.onnx: no such file"):
        program_target.load(f"{file.parent}/missing.onnx")
    with pytest.raises(RooflabError, match=r"'models.py' names no function, expected FILE.py:NAME"):
        program_target.load("models.py")


@pytest.mark.parametrize("name", ["opt-350m", "mistralai/Mistral-7B-v9"])
def test_a_name_of_the_hub_is_told_how_to_become_a_target(name):
    with pytest.raises(RooflabError, match=r"names no function.*AutoConfig.from_pretrained\('" + name + r"'\)"):
        program_target.load(name)


def test_a_file_alone_is_told_the_functions_in_it(file):
    with pytest.raises(RooflabError, match=r"names no function, .*; such as .*models_for_test.py:\w+$"):
        program_target.load(str(file))
    file.write_text("x = 1\ndef needs(y): pass\n", encoding="utf-8")
    with pytest.raises(RooflabError, match=r"and it defines no function$"):
        program_target.load(str(file))


def test_what_builds_a_model_is_told_what_a_target_is(file):
    with pytest.raises(
        RooflabError, match=r"the inputs too, from a file of yours: from models_for_test import program; def model"
    ):
        program_target.load(f"{file}:program")


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(FileError, match=r"no_such_zoo.models: .*; no_such_zoo is not installed"):
        program_target.load("no_such_zoo.models:resnet18")


def test_an_error_on_import_says_where(file):
    file.write_text("x = 1\nimport not_there_at_all\n", encoding="utf-8")
    with pytest.raises(
        RooflabError, match=r"No module named 'not_there_at_all' .*models_for_test.py:2\); install it"
    ):
        program_target.load(f"{file}:one")
    file.write_text("def one(:\n", encoding="utf-8")
    with pytest.raises(RooflabError, match=r"SyntaxError: .*models_for_test.py:1\)"):
        program_target.load(f"{file}:one")


def test_without_a_framework_it_says_what_to_pass(monkeypatch):
    for name in ("torch", "jax", "tinygrad"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(RooflabError, match=r"<lambda> has no tensor .* no framework is imported; pass torch"):
        front_end.choose(lambda: None, (), {})
    with pytest.raises(RooflabError, match=r"cannot analyze a int, expected a module, a function, the path"):
        front_end.choose(3, (), {})
    with pytest.raises(RooflabError, match=r"cannot analyze 'model.pt', expected .* an .onnx file"):
        front_end.choose("model.pt", (), {})


def test_settings_of_another_framework_are_refused():
    with pytest.raises(RooflabError, match=r"backward: not for ONNX programs, leave it out"):
        front_end.capture("x.onnx", (), {}, front_end.CaptureOptions(backward=True))


@pytest.mark.parametrize("sizes", [(), ("--dim", "tokens=16"), ("--dim", "context=64", "--batch", "2")])
def test_a_language_model_by_name_is_predicted_whatever_sizes_are_given(command, sizes):
    code, out, err = command("analyze", "llama-3.2-1b", *sizes, "--machine", "h100-sxm", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    tokens, before, batch = {0: (1, 0, 1), 2: (16, 0, 1), 4: (1, 64, 2)}[len(sizes)]
    # 16 layers, 8 heads of 64 for keys and for values, two bytes each; every token so far is kept
    assert found["memory"]["kv_cache_bytes"] == batch * (before + tokens) * 16 * 2 * 8 * 64 * 2
    assert found["memory"]["buffers_bytes"] == 0
    assert found["totals"]["time_s"] > 0
