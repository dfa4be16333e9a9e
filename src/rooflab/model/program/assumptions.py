"""What predictions of a program take for granted, said in a line each; and the device that they are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rooflab.model.device.device import ASSUMED_CACHE, Device, device_of
from rooflab.model.program import floor, host_dispatch
from rooflab.types.machine import Machine
from rooflab.types.report import Report
from rooflab.types.setting import LIBRARIES, Setting
from rooflab.units import iec


def device_for(report: Report, machine: Machine, setting: Setting, knobs: Mapping[str, Any]) -> Device:
    """`machine` as `setting` says, with `knobs`, and with the library that multiplies the program's matrices."""
    return device_of(
        machine,
        cache=setting.cache,
        power=setting.power,
        knobs=knobs,
        constants=setting.constants,
        threads=setting.threads,
        library=_library(report, setting),
    )


def _library(report: Report, setting: Setting) -> str | None:
    """Whose products of matrices the program calls, of those that are measured; None of a framework of its own."""
    framework = report.graph.framework
    return (setting.library or "numpy") if framework == "hand" else framework if framework in LIBRARIES else None


NOTES = ("floor: ", "caches: ", "constants: ", "host: ", "products: ", "cores: ", "threads: ")


def notes(report: Report, device: Device, setting: Setting) -> list[str]:
    """What the predictions take for granted, a line for each of `NOTES` that there is something to say of."""
    convolves = any(op.kind in ("conv", "conv_backward") for op in report.graph.ops)
    said = [floor.note(device, convolves)]
    if device.cache_name == ASSUMED_CACHE:
        size = iec(float(np.ravel(device.cache_bytes)[0]), 3)
        said.append(
            f"caches: {device.machine.name} states none; a last cache of {size} is assumed, as its like have"
        )
    said += _library_notes(report, device, setting)
    framework = report.graph.framework
    if setting.mode != "compiled" and (framework == "numpy" or (framework == "hand" and device.cores is not None)):
        said.append(_of_numpy(device, framework))
    if setting.threads is not None and device.cores is None:
        said.append(f"threads: {setting.threads} were asked for; those are of CPUs and change nothing here")
    if setting.constants is not None:
        said.append(f"constants: {setting.constants.family}'s as given, not as the family's file has them")
    if setting.mode == "eager" and not host_dispatch.is_known(report.graph.ops, device.machine, setting):
        said.append(
            "host: not known, taken as one in another server with wide bars; narrower with the time of one bare "
            "eager call on yours (--dispatch, dispatch_s)"
        )
    return said


def _of_numpy(device: Device, framework: str) -> str:
    """How many cores NumPy's calls have, which an operation by hand stands for."""
    if device.cores is None:
        return "cores: NumPy runs on CPUs; here each call is one kernel, as CuPy would launch it"
    calls = "NumPy's calls run" if framework == "numpy" else "taken as a call of NumPy: these run"
    return f"cores: {calls} on one core of {_count(device)}, products of matrices alone on more"


def _count(device: Device) -> int:
    return int(device.machine.compute_units or 1)


def _library_notes(report: Report, device: Device, setting: Setting) -> list[str]:
    """Whose products a CPU's predictions rest on: measured here, or a share of its peak."""
    cores = device.cores
    if cores is None or not device.machine.products or not any(op.kind == "matmul" for op in report.graph.ops):
        return []
    if not cores.products:
        name = _library(report, setting) or report.graph.framework
        how = "; `rooflab measure --library` does" if name in LIBRARIES else ""
        return [f"products: those of {name} were not measured here, a share of the peak stands for them{how}"]
    fits = next(iter(cores.products.values()))
    row = fits[max(fits)]
    who = {"numpy": "NumPy", "torch": "PyTorch"}.get(row.library, row.library)
    threads = setting.threads or row.threads
    told = "".join(f", {name}={value}" for name, value in row.environment.items())
    kernels = f", kernels for {row.kernels}" if row.kernels else ""
    other = "" if report.graph.framework != "hand" else "; --library names another"
    return [
        f"products: as {who} computes them here, measured ({row.blas or 'its library'}{kernels}{told}; "
        f"{threads} thread{'s' if threads > 1 else ''}){other}"
    ]
