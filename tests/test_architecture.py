"""docs/architecture.md holds the folders of src/rooflab, each with its own first line, and the import layers."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from rooflab import views
from rooflab.types.result import RESULTS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "rooflab"
PAGE = ROOT / "docs" / "architecture.md"
_MAP = re.compile(r"^\| `(rooflab/[\w/]*)` \| (.+) \|$", re.MULTILINE)
_LAYER = re.compile(r"^\| (\d+) \| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)
_PATH = re.compile(r"`([\w-]+(?:/[\w.-]+)*(?:/|\.py|\.toml))`")


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def first_line(file: Path) -> str:
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0]


def folders() -> dict[str, str]:
    """Each folder with Python files, as the map names it, and the first line of its `__init__.py`."""
    found = sorted({path.parent for path in PACKAGE.rglob("*.py")})
    return {
        f"{folder.relative_to(PACKAGE.parent).as_posix()}/": first_line(folder / "__init__.py")
        for folder in found
        if (folder / "__init__.py").exists()
    }


def test_every_folder_with_python_files_says_what_it_is_for():
    silent = [
        str(path.parent.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if not (path.parent / "__init__.py").exists() or not first_line(path.parent / "__init__.py")
    ]
    assert not silent, f"no __init__.py with a docstring in {sorted(set(silent))}"


def test_the_map_is_the_folders_each_with_its_first_line(page):
    lines = [f"| `{name}` | {words} |" for name, words in folders().items()]
    written = [match[0] for match in _MAP.finditer(page)]
    missing, extra = (
        [line for line in lines if line not in written],
        [line for line in written if line not in lines],
    )
    said = "\n".join(
        ["docs/architecture.md: the map differs from the folders of src/rooflab."]
        + (["Add these lines (alphabetical):", *missing] if missing else [])
        + (["Take these out: no such folder, or other words:", *extra] if extra else [])
    )
    assert not missing, said
    assert not extra, said
    assert written == lines, "docs/architecture.md: the lines of the map are not in alphabetical order, or twice"


def test_the_layers_are_those_of_the_import_contract(page):
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [one for one in configuration["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    written = [re.findall(r"`(\w+)`", match[2]) for match in _LAYER.finditer(page)]
    assert written == [re.findall(r"\w+", layer) for layer in contract["layers"]], "the table of layers, top first"


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_and_folder_that_is_named_is_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    bases = (PACKAGE, PACKAGE.parent, ROOT)
    gone = [path for path in _PATH.findall(text) if not any((base / path).exists() for base in bases)]
    assert not gone, f"{name} names what is neither in src/rooflab nor in the repository: {gone}"


def test_the_links_of_contributing_lead_somewhere():
    targets = re.findall(r"\]\(([^)#:]+)[^)]*\)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


@pytest.mark.parametrize("kind", RESULTS)
def test_every_type_of_result_has_a_room_with_the_three_names(kind):
    room = views.room(kind)
    assert callable(room.show)
    assert callable(room.html)
    assert {".json", ".html"} <= set(room.WRITERS)
    assert getattr(importlib.import_module(RESULTS[kind]), kind).__name__ == kind
