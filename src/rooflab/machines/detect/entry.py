"""`detect`, the one function that callers need: which machine, and what of it is granted."""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rooflab.errors import FileError, MeasureError
from rooflab.machines.detect.files import Tree
from rooflab.machines.detect.gpus import read_gpus
from rooflab.machines.detect.host import Host
from rooflab.machines.detect.linux import detect_linux


def detect(
    root: Path = Path("/"),
    *,
    allowed_cpus: Collection[int] | None = None,
    system: str | None = None,
    gpus: bool = True,
) -> Host:
    """The machine whose file system starts at `root`, and what of it this process may use.

    Args:
        root: "/" for the running machine, or a directory that holds a snapshot of its /proc and /sys.
        allowed_cpus: use these CPUs only, instead of what affinity allows.
        system: "Linux" or "Darwin"; by default the running one at "/", else Linux.
        gpus: whether to ask NVML; never asked for a snapshot.

    Raises:
        FileError: `root` is not a directory.
        MeasureError: another operating system, no CPU found, or `allowed_cpus` names one that is not online.
    """
    root = Path(root)
    if not root.is_dir():
        raise FileError(f"{root}: not a directory, expected '/' or a snapshot of a machine's /proc and /sys")
    tree = Tree.at(root.resolve())
    system = system or (platform.system() if tree.is_live else "Linux")
    if system == "Darwin":
        from rooflab.machines.detect.darwin import detect_darwin

        host = detect_darwin(tree)
    elif system == "Linux":
        host = detect_linux(tree)
    else:
        raise MeasureError(f"cannot tell what machine this is on {system}, expected Linux or macOS (Darwin)")
    if allowed_cpus is not None:
        host = _restricted(host, allowed_cpus)
    if gpus and tree.is_live:
        listed, note = read_gpus()
        return replace(host, gpus=listed, gpus_note=note)
    return replace(host, gpus_note="not asked for" if tree.is_live else "a snapshot holds no GPUs")


def _restricted(host: Host, allowed_cpus: Collection[int]) -> Host:
    """`host` with only the CPUs that the caller names.

    Raises:
        MeasureError: none is named, or one that is not online.
    """
    numbers = {cpu.number for cpu in host.cpus}
    wanted = sorted(set(allowed_cpus))
    wrong = [number for number in wanted if number not in numbers]
    if wrong or not wanted:
        got = f"CPU {wrong[0]}, which is not online" if wrong else "no CPU"
        raise MeasureError(f"allowed_cpus: got {got}, expected some of {_listed(sorted(numbers))}")
    limited_by = (*host.limited_by, "argument") if len(wanted) < len(host.allowed_cpus) else host.limited_by
    clocks = (cpu.max_hz for cpu in host.cpus if cpu.number in wanted and cpu.max_hz)
    return replace(
        host, allowed_cpus=tuple(wanted), limited_by=limited_by, reported_max_hz=max(clocks, default=None)
    )


def _listed(numbers: list[int]) -> str:
    """The numbers as the kernel lists them: "0-3,8"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number, number])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)
