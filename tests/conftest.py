"""What all tests share: the same examples on every run in CI, a fresh Python to call, the command line to call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from support.lanes import pytest_runtest_protocol, pytest_xdist_auto_num_workers  # noqa: F401 (hooks)

# A shared runner stalls for longer than Hypothesis' 200 ms: a deadline there tests the runner.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell that starts tests in the background, or nohup, has them ignore these signals, and what they start too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = Path(__file__).resolve().parents[1]

Fresh = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session", autouse=True)
def _cache_folder(request, tmp_path_factory):
    """Generated loops lie in pytest's own cache: not among the user's, and compiled once for all runs."""
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("rooflab") if cache else tmp_path_factory.mktemp("cache")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(folder))
    patch.setenv("ROOFLAB_KEEP", "0")  # each test takes its loop apart itself
    yield
    patch.undo()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def fresh() -> Fresh:
    """A function that calls this Python anew with the given arguments; it fails where that Python fails."""

    def call(*arguments: object, timeout: float = 120, **more: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **more)
        assert done.returncode == 0, f"{command} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return call


def pytest_configure(config: pytest.Config) -> None:
    """Fewer examples of properties where the slow tests are left out."""
    if "not slow" in (config.option.markexpr or ""):
        settings.load_profile("quick")


class Done(NamedTuple):
    """How a command ended: its exit code, and all that it wrote."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys) -> Callable[..., Done]:
    """Calls the command line in this process: `command("op", "relu", "8")`."""
    from rooflab.cli import main

    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["rooflab", *map(str, arguments)])
        capsys.readouterr()  # what was written before is not the command's
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, *capsys.readouterr())

    return call


@pytest.fixture
def called(command) -> Callable[..., str]:
    """What a command that must succeed printed to stdout."""

    def call(*arguments: object) -> str:
        done = command(*arguments)
        assert done.code == 0, f"{arguments}: {done}"
        return done.out

    return call


@pytest.fixture
def refused(command) -> Callable[..., str]:
    """The one line of a command that must end with 2 and print nothing to stdout."""

    def call(*arguments: object) -> str:
        done = command(*arguments)
        assert done.code == 2, f"{arguments}: {done}"
        assert done.out == ""
        assert done.err.startswith("rooflab: ")
        assert done.err.count("\n") == 1, done.err
        return done.err

    return call
