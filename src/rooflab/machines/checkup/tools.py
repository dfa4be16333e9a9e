"""Profilers and tools of counters: which are installed and answer; `load` reads what they write anywhere."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from rooflab.machines.checkup.outside import Answer, without_names
from rooflab.machines.checkup.seen import Seen
from rooflab.types.checkup import Grant

_GRANT = partial(Grant, topic="tools")
_VERSION = re.compile(r"\d+(?:\.\d+)+")


class Tool(NamedTuple):
    """A tool: its names on the PATH, how it is asked for its version, what it gives, how to get it."""

    name: str
    programs: tuple[str, ...]
    asks: tuple[str, ...]
    gives: str
    todo: str


TOOLS = (
    Tool("perf", ("perf",), ("--version",), "counted runs of programs", "install linux-perf or linux-tools"),
    Tool("py-spy", ("py-spy",), ("--version",), "rooflab hotspots", "python -m pip install 'rooflab[hotspots]'"),
    Tool("LIKWID", ("likwid-perfctr",), ("-v",), "counted regions and runs", "install likwid"),
    Tool(
        "Nsight Systems",
        ("nsys",),
        ("--version",),
        "timelines of CUDA programs",
        "install it (developer.nvidia.com)",
    ),
    Tool(
        "Nsight Compute", ("ncu",), ("--version",), "counters of CUDA kernels", "install it (developer.nvidia.com)"
    ),
    Tool(
        "ROCm profilers",
        ("rocprofv3", "rocprof-compute", "rocprof", "omniperf"),
        ("--version",),
        "timelines and counters of AMD's GPUs",
        "install rocprofiler-sdk",
    ),
)
_SMI = "nvidia-smi"


def commands() -> dict[str, list[str]]:
    """What is run to ask each tool that is on the PATH, by its name."""
    found = {}
    for tool in TOOLS:
        program = next((path for path in map(shutil.which, tool.programs) if path), None)
        if program is not None:
            found[tool.name] = [program, *tool.asks]
    smi = shutil.which(_SMI)
    if smi is not None:
        found[_SMI] = [smi, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return found


def grants(seen: Seen, asked: Mapping[str, list[str]], answers: Mapping[str, Answer] | None) -> tuple[Grant, ...]:
    """A line for each tool that could be of use here; `answers` None where none was asked."""
    nvidia = seen.drivers.nvidia_version is not None or seen.drivers.nvidia_cards > 0 or seen.drivers.wsl_gpu
    amd = bool(seen.drivers.amd_nodes)
    useful = {"perf": seen.linux, "py-spy": True, "LIKWID": seen.linux, "ROCm profilers": amd}
    lines = []
    for tool in TOOLS:
        if tool.name in asked:
            lines.append(_found(tool, None if answers is None else answers.get(tool.name)))
        elif useful.get(tool.name, nvidia):
            # Without such a GPU a line on its profiler would only be noise.
            lines.append(_absent(tool))
    return tuple(lines)


def _absent(tool: Tool) -> Grant:
    grant = partial(_GRANT, name=tool.name, source="PATH")
    return grant(status="missing", found="not installed", means=f"no {tool.gives} from here", todo=tool.todo)


def _found(tool: Tool, answer: Answer | None) -> Grant:
    grant = partial(_GRANT, name=tool.name, source=f"{tool.programs[0]} {' '.join(tool.asks)}")
    doubt = f"whether it gives {tool.gives} is not known"
    if answer is None or answer.late:
        found = "found, not tried" if answer is None else "found, did not answer"
        return grant(status="unknown", found=found, means=doubt, todo=f"try `{tool.programs[0]} {tool.asks[0]}`")
    said = without_names(answer.said)
    version = _VERSION.search(said)
    values = {"version": version[0] if version else None}
    if answer.works and version:
        return grant(status="ok", found=version[0], values=values)
    found = f"found, but it answers: {said or f'exit code {answer.code}'}"
    return grant(status="limited", found=found, means=f"no {tool.gives} from here", todo=tool.todo, values=values)
