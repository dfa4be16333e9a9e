"""A framework's profiler set on a program from outside: through a sitecustomize.py on PYTHONPATH."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from rooflab.observe.running import armed
from rooflab.units import duration

STEPS, SECONDS = 3, 5.0
_LARGEST_BYTES = 1 << 30
_SITE = '''"""Chains to the program's own sitecustomize after a profiler was made ready (rooflab run --profile)."""

import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
try:
    _spec = importlib.util.spec_from_file_location("_rooflab_armed", os.path.join(_here, "armed.py"))
    _armed = importlib.util.module_from_spec(_spec)
    sys.modules["_rooflab_armed"] = _armed
    _spec.loader.exec_module(_armed)
    _armed.arm()
except Exception as error:
    with open(os.path.join(_here, "error"), "a") as _file:
        _file.write(f"{type(error).__name__}: {error}\\n")
sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != _here]
_ours = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
    if _ours is not None:
        sys.modules["sitecustomize"] = _ours
'''


class Recorded(NamedTuple):
    """What one process of a program left.

    Attributes:
        file: the profiler's; None where nothing was recorded.
        sentence: which part of the program it is of, or why there is none.
    """

    file: Path | None
    sentence: str


class Session:
    """A folder that arms a program's Python, and what it left there; `env` is what the program must be given."""

    def __init__(self, steps: int = STEPS, seconds: float = SECONDS, keep: Path | None = None) -> None:
        self._keep = keep
        self._folder = Path(tempfile.mkdtemp(prefix="rooflab-profile-"))
        self._left = self._folder / "left"
        self._left.mkdir()
        site = self._folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
        shutil.copyfile(armed.__file__, site / "armed.py")
        settings = {"folder": str(self._left), "steps": steps, "seconds": seconds}
        others = os.environ.get("PYTHONPATH")
        self.env: Mapping[str, str] = {
            "PYTHONPATH": os.pathsep.join([str(site), others] if others else [str(site)]),
            armed.SETTINGS: json.dumps(settings),
        }
        self._site = site

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def recorded(self) -> list[Recorded]:
        """What each process left, those with a file first; the files are there until the end of `with`.

        Where `keep` is given they are moved there.
        """
        found = [self._read(path) for path in sorted(self._left.glob("*.said"))]
        error = self._site / "error"
        if error.exists():
            found.append(Recorded(None, f"no profiler could be made ready: {error.read_text().splitlines()[-1]}"))
        return sorted(found, key=lambda one: one.file is None)

    def _read(self, path: Path) -> Recorded:
        said = json.loads(path.read_text("utf-8"))
        who = f"process {said['pid']} ({said['framework']})"
        if said.get("error"):
            return Recorded(None, f"{who} was not profiled: {said['error']}")
        if not said.get("file"):
            return Recorded(None, f"{who} was not profiled: {_why_none(said)}")
        file = Path(said["file"])
        if file.stat().st_size > _LARGEST_BYTES:
            return Recorded(None, f"{who}: its profile is larger than 1 GiB and was left out: --profile-seconds 1")
        if self._keep is not None:
            file = Path(shutil.move(file, self._keep / file.name))
        return Recorded(file, f"{who} was profiled {' '.join(_what(said))}")


def _why_none(said: Mapping[str, Any]) -> str:
    if "file" not in said:
        return "it was killed, or has not ended"
    if said["framework"] == "jax":
        return "it compiled no function"
    if said["why"] == "few":
        more = armed.WARM_UP + 1
        return f"its optimizer took {said['steps']} steps, and the first that is recorded is step {more}"
    if said["why"] == "thread":
        return "the thread that was recorded had not ended"
    return "multiprocessing started it, and it has no optimizer of its own"


def _what(said: Mapping[str, Any]) -> Iterator[str]:
    yield said["what"]
    steps = f", {said['steps']} steps" if said["steps"] > 1 else ""
    yield f"for {duration(said['seconds'])}{steps}"
    if said["why"] == "time":
        yield "(its time was up; --profile-seconds gives more)"
