"""The documentation is true: its blocks run and print what it says, its links lead somewhere.

`python` blocks with prompts are doctests, one session a page; `console` blocks are shell lines and what they
print. In both … stands for anything, and spaces are alike. Other blocks (`sh`, `text`, `toml`) are not run. A page
that says `<!-- needs NAME -->` is skipped where that framework is not installed.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import rooflab
from rooflab.types import toml

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NEEDS = re.compile(r"<!-- needs (\w+) -->")
_SET = re.compile(r"[A-Z_]+=\S*")


class Block(NamedTuple):
    """A fenced block: its language, its text and the line on which the text begins."""

    language: str
    text: str
    line: int


class Checker(doctest.OutputChecker):
    """Accepts … for anything: three dots at the start of a line are a prompt."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want.replace("…", "..."), got.replace("…", "..."), optionflags)


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1) for match in _FENCE.finditer(text)]


def has(page: str, *languages: str) -> bool:
    return any(block.language in languages for block in blocks(page))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if has(page, "console", "python") and "/reference/" not in page]
)
def test_the_blocks_of_a_page_run_and_print_what_it_says(page, tmp_path, monkeypatch):
    for framework in _NEEDS.findall((ROOT / page).read_text(encoding="utf-8")):
        if importlib.util.find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    for block in blocks(page):
        where = f"{page}, line {block.line}"
        if block.language == "python":
            run_python(block, session, where)
        elif block.language == "console":
            run_console(block, where)


def run_python(block: Block, session: dict[str, object], where: str) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, session, where, where, 0)
    assert test.examples, f"{where}: a python block without prompts shows nothing that a test could check"
    said: list[str] = []
    runner = doctest.DocTestRunner(checker=Checker(), optionflags=FLAGS, verbose=False)
    failed = runner.run(test, out=said.append, clear_globs=False).failed
    session.update(test.globs)
    assert not failed, "".join(said)


def run_console(block: Block, where: str) -> None:
    commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert commands[0] == "", f"{where}: a console block begins with $"
    for command in commands[1:]:
        line, _, want = command.partition("\n")
        words = shlex.split(line)
        settings = dict(word.split("=", 1) for word in itertools.takewhile(_SET.fullmatch, words))
        program, *arguments = words[len(settings) :]
        known = {"rooflab": [sys.executable, "-m", "rooflab"], "python": [sys.executable]}
        assert program in known, f"{where}: {program} is not run by the tests"
        done = subprocess.run(
            [*known[program], *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "COLUMNS": "120", **settings},
        )
        assert done.returncode == 0, f"{where}: {line}: exit {done.returncode}\n{done.stderr}"
        assert Checker().check_output(want, done.stdout, FLAGS), f"{where}: {line}: printed\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [
        target
        for target in _LINK.findall(text)
        if "://" not in target and not target.startswith("#")
        if not ((ROOT / page).parent / target.partition("#")[0]).exists()
    ]
    assert missing == []


def test_the_two_commands_of_the_readme():
    commands = [block.text.strip() for block in blocks("README.md") if block.language == "sh"]
    assert commands[:2] == [
        "python -m pip install . && rooflab measure",
        "python -m pip install '.[test]' && python -m pytest",
    ]


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "docs" / "generate_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_current(generator):
    for name, text in generator.pages().items():
        committed = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
        assert committed == text, f"docs/reference/{name} is out of date: python docs/generate_reference.py"


def test_the_reference_holds_every_public_name_and_command(generator):
    pages = generator.pages()
    for name in rooflab.__all__:
        assert f"## `rooflab.{name}`" in pages["api.md"]
    for command in ("machine", "measure"):
        assert f"## `rooflab {command}`" in pages["cli.md"]


def test_the_example_of_a_machine_file_loads():
    (text,) = [block.text for block in blocks("docs/machine-file.md") if block.language == "toml"]
    machine = toml.loads(text, "docs/machine-file.md")
    assert machine.peak("fp16").value == 65e12
    assert machine.level("memory").rate().value == 448e9


def test_every_self_check_is_explained():
    source = Path(rooflab.__file__).parent / "machines" / "bench" / "result"
    names = set()
    for path in (source / "checks.py", source / "assemble.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check":
                (name,) = [each.value for each in node.keywords if each.arg == "name"]
                # An f-string is the name of a level followed by its constant part.
                names.add(name.value if isinstance(name, ast.Constant) else f"L1{name.values[-1].value}")
    explained = (ROOT / "docs" / "how-measuring-works.md").read_text(encoding="utf-8")
    assert len(names) > 8
    assert [name for name in sorted(names) if f"`{name}`" not in explained] == []


def test_the_site_leads_to_every_page():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r": (\S+\.md)$", text, re.MULTILINE)
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(named) == sorted(page for page in pages if not page.startswith("decisions/"))


def test_decisions_are_numbered_in_order():
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert [name[:4] for name in names] == [f"{number:04}" for number in range(1, len(names) + 1)]
