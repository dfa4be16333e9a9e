"""Libraries: which are installed, whether they are new enough, whether a tiny real use of each works."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import re
import signal
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rooflab.machines.checkup import trials
from rooflab.machines.checkup.outside import Answer, without_names
from rooflab.types.checkup import Grant

_DATA = Path(__file__).parents[1] / "data" / "libraries.toml"
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
# Of OpenBLAS, MKL and OpenMP: they change which kernel runs, and on how many threads.
_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
# Of frameworks while they are tried: JAX would take most of a GPU's memory, and TensorFlow's parts talk.
QUIET = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "3"}


class Library(NamedTuple):
    """A row of libraries.toml."""

    name: str
    distribution: str
    trial: str
    without: str
    extra: str = ""
    least: str = ""
    below: str = ""

    @property
    def todo(self) -> str:
        """How to get it."""
        return f"python -m pip install 'rooflab[{self.extra}]'" if self.extra else "install rooflab again"


@functools.cache
def libraries() -> tuple[Library, ...]:
    """The rows of libraries.toml."""
    return tuple(Library(**row) for row in tomllib.loads(_DATA.read_text(encoding="utf-8"))["library"])


def versions() -> dict[str, str]:
    """The version of each library that is installed, by its distribution."""
    found = {}
    for each in libraries():
        try:
            found[each.distribution] = importlib.metadata.version(each.distribution)
        except importlib.metadata.PackageNotFoundError:
            # not installed: its line says so
            continue
    return found


def commands(installed: Mapping[str, str]) -> dict[str, list[str]]:
    """What is run to try each installed library, by its name.

    -P keeps what lies in the current folder from being taken for the library.
    """
    script = str(Path(trials.__file__))
    return {
        each.name: [sys.executable, "-P", script, each.trial]
        for each in libraries()
        if each.distribution in installed
    }


def grants(
    installed: Mapping[str, str], answers: Mapping[str, Answer] | None, within_s: float
) -> tuple[Grant, ...]:
    """A line for each library, those of the core first; `answers` of the trials, None where nothing was tried."""
    lines = []
    for each in sorted(libraries(), key=lambda one: bool(one.extra)):
        answer = None if answers is None else answers.get(each.name)
        lines.append(_grant(each, installed.get(each.distribution), answer, within_s))
    return tuple(lines)


def _grant(library: Library, version: str | None, answer: Answer | None, within_s: float) -> Grant:
    grant = functools.partial(
        Grant,
        topic="libraries",
        name=library.name,
        source=f"metadata of {library.distribution}, a use of it in another process",
    )
    stops = not library.extra
    if version is None:
        values: dict[str, Any] = {"version": None}
        return grant(
            status="missing",
            found="not installed",
            means=library.without,
            todo=library.todo,
            values=values,
            stops=stops,
        )
    values = {"version": version}
    doubt, needed = _doubt(library, version)
    if answer is None:
        found = f"{version}, not tried"
        means = doubt or "whether it works is not known"
        return grant(
            status="unknown",
            found=found,
            means=means,
            todo=needed or "run `rooflab doctor` without --quick",
            values=values,
        )
    if answer.late:
        found = f"{version}, no answer within {within_s:.0f} s"
        means = "whether it works is not known"
        todo = f"try it: python -c 'import {library.trial}'; look again when the machine is less busy"
        return grant(status="unknown", found=found, means=means, todo=todo, values=values)
    outcome = _outcome(answer)
    said = without_names(outcome["said"])
    values |= _plain(outcome["told"])
    if not outcome["works"]:
        again = f"python -m pip install --force-reinstall {library.distribution}"
        return grant(
            status="missing",
            found=f"{version} is installed but does not work: {said}",
            means=library.without,
            todo=needed or again,
            values=values,
            stops=stops,
        )
    means, todo = _told(library, outcome["told"])
    if doubt or means:
        return grant(
            status="limited", found=f"{version}: {said}", means=doubt or means, todo=needed or todo, values=values
        )
    return grant(status="ok", found=f"{version}: {said}", values=values)


def _outcome(answer: Answer) -> dict[str, Any]:
    """What the trial printed last; where it died before, how."""
    for line in reversed(answer.output.splitlines()):
        if line.startswith(trials.MARK):
            try:
                return json.loads(line.removeprefix(trials.MARK))
            except ValueError:
                # cut off: it died while it wrote
                break
    died = f"ended with exit code {answer.code}"
    if answer.code is not None and answer.code < 0:
        try:
            died = f"ended by {signal.Signals(-answer.code).name}"
        except ValueError:
            died = f"ended by signal {-answer.code}"
    return {"works": False, "said": f"{died}: {answer.said}" if answer.said else died, "told": {}}


def _plain(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a trial told beside its sentence, texts without names."""
    return {name: without_names(value) if isinstance(value, str) else value for name, value in told.items()}


def _doubt(library: Library, version: str) -> tuple[str, str]:
    """Why `version` is not one that rooflab was made for, and what to do; empty where it is."""
    asked = f"'{library.distribution}>={library.least}{f',<{library.below}' if library.below else ''}'"
    todo = f"python -m pip install {asked}"
    if library.least and ordered(version) < ordered(library.least):
        return f"older than {library.least}, the oldest that rooflab was tried with", todo
    if library.below and ordered(version) >= ordered(library.below):
        return f"rooflab is made for versions below {library.below}", todo
    return "", ""


def _told(library: Library, told: Mapping[str, Any]) -> tuple[str, str]:
    """What a working library still lacks, and what to do."""
    if told.get("gpu_error"):
        return "GPUs cannot be used by it", "match the build of torch with the driver (pytorch.org)"
    if told.get("run_error"):
        return "its kernels are captured, but cannot be run here to be timed", (
            "nothing for predictions; to run them, install what is missing (its CPU device wants clang)"
        )
    if library.trial == "numpy":
        set_here = [f"{name}={os.environ[name]}" for name in _VARIABLES if os.environ.get(name)]
        if set_here:
            return f"{', '.join(set_here)} is set: it decides which kernel runs on how many threads", (
                "unset it, unless it is meant"
            )
    return "", ""


def ordered(version: str) -> tuple[int, ...]:
    """The numbers that `version` begins with, to be compared; what follows ("+cu128", "rc1") does not count.

    >>> ordered("2.13.0+cpu") >= ordered("2.13")
    True
    """
    match = _NUMBERS.match(version)
    numbers = [int(each) for each in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
