"""A fixture for pytest, `rooflab_gate`: a test fails where predicted or measured cost is worse than saved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rooflab.types.comparison import Comparison
    from rooflab.types.result import Result

    # Takes a result, and the keywords `file` and `fail_if`; returns None where a file was written.
    Gate = Callable[..., Comparison | None]

FOLDER = "rooflab_baselines"  # beside the test's file
_NOT_IN_NAMES = re.compile(r"[^\w.=,+-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --rooflab-update."""
    group = parser.getgroup("rooflab")
    group.addoption(
        "--rooflab-update",
        action="store_true",
        help="write what rooflab_gate is given to its file, instead of holding it against that",
    )


@pytest.fixture
def rooflab_gate(request: pytest.FixtureRequest) -> Gate:
    """A function that fails the test where a result is worse than the saved one.

    `rooflab_gate(result, fail_if=("time>+5%",), file=None)` takes what rooflab returns: a `Report` (predicted), a
    `Profile` or `LoopReport` (measured), or any other result that `rooflab.compare` takes. The file is named after
    the test, in a folder beside it; `pytest --rooflab-update` writes it. A saved report is predicted again, by
    this rooflab on the machine of the new one, so that only the program's own changes count.
    """
    calls = 0

    def gate(
        result: Result, *, fail_if: str | Iterable[str] = ("time>+5%",), file: str | Path | None = None
    ) -> Comparison | None:
        nonlocal calls
        calls += 1
        path = _file(request, file, calls)
        if request.config.getoption("--rooflab-update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            result.save(path)
            return None
        return _held(result, path, fail_if)

    return gate


def _file(request: pytest.FixtureRequest, file: str | Path | None, calls: int) -> Path:
    """Where the saved result is: `file` beside the test, else named after the test and how often it asked."""
    if file is not None:
        return request.path.parent / file
    name = _NOT_IN_NAMES.sub("_", request.node.name)
    more = f"-{calls}" if calls > 1 else ""
    return request.path.parent / FOLDER / f"{request.path.stem}-{name}{more}.json"


def _held(result: Result, path: Path, fail_if: str | Iterable[str]) -> Comparison:
    import rooflab

    if not path.exists():
        pytest.fail(f"{path}: no saved result; `pytest --rooflab-update` writes it", pytrace=False)
    base = rooflab.load(path)
    if isinstance(base, rooflab.Report) and isinstance(result, rooflab.Report):
        base = base if base.setting is None or result.machine is None else base.on(result.machine)
    found = rooflab.compare(base, result, fail_if=fail_if, names=(path.name, "this run"))
    if not found.ok:
        from rooflab.views.comparison.sheet import sentences

        bad = [gate for gate in found.gates if gate.outcome not in ("passed", "within error")]
        lines = [f"{gate.condition}: {gate.outcome}: {gate.says}" for gate in bad]
        pytest.fail("\n".join(["worse than what was saved", *lines, *sentences(found)]), pytrace=False)
    return found
