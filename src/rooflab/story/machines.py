"""What can this machine do?"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError
from rooflab.machines.detect import detect, require_memory

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.types.machine import Machine


def measure(
    *,
    quick: bool = False,
    threads: int | None = None,
    sustained: bool = False,
    library: bool = False,
    progress: Callable[[str, float, float], None] | None = None,
) -> Machine:
    """What this machine can really do: bandwidth and latency of every level, peaks, disk, overheads, BLAS.

    Needs no root, compiler, counters or network; takes about 20 s, `quick` about 7 s.

    Args:
        quick: fewer sizes and rounds, no disk.
        threads: how many of the granted hardware threads to use; one per granted core by default.
        sustained: also run the fp64 peak for 10 s, to see what power limits leave of the burst clock.
        library: also time products of matrices in PyTorch where it is installed, and more of them in NumPy: about
            20 s more. Without it those of NumPy are timed briefly.
        progress: called with the stage's name, what is done and the total.

    Returns:
        The machine, with its self-checks. After Ctrl-C, `incomplete` says where it stopped.

    Raises:
        MeasureError: too little memory, more threads than granted, a kernel with a wrong result.
        KeyboardInterrupt: Ctrl-C before anything was measured.
    """
    host = detect()
    require_memory(host)
    from rooflab.machines.bench import measuring, plan
    from rooflab.machines.bench.result.assemble import assemble

    thoroughness = plan.QUICK if quick else plan.DEFAULT
    thoroughness = plan.with_library(plan.with_sustained(thoroughness, sustained), library)
    findings = measuring.run(host, thoroughness, threads, progress)
    return assemble(findings, _now())


def machine(name_or_path: str | PathLike[str]) -> Machine:
    """The machine of that name in the catalogue, or in that TOML or JSON file.

    Args:
        name_or_path: a catalogue name or alias ("h200-sxm", "NVIDIA H100 80GB HBM3"), or a path.

    Raises:
        UnknownNameError: no such machine, with near matches.
        FileError: a file that cannot be read, or that contradicts itself.
    """
    from rooflab.machines import catalog

    return catalog.find(os.fspath(name_or_path))


def as_machine(machine_or_name: Machine | str | PathLike[str] | None) -> Machine | None:
    """The machine that is given, or that a name or a path means.

    Raises:
        RooflabError: something else.
    """
    from rooflab.types.machine import Machine

    if isinstance(machine_or_name, (str, os.PathLike)):
        return machine(machine_or_name)
    if machine_or_name is None or isinstance(machine_or_name, Machine):
        return machine_or_name
    raise RooflabError(f"machine is {machine_or_name!r:.60}, expected a Machine, or a name or file of one")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
