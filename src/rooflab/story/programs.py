"""What will limit this program, here or on hardware I don't have, and what would help?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rooflab.errors import RooflabError
from rooflab.story.machines import as_machine

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.model.calibration import Calibration
    from rooflab.model.constants import Constants
    from rooflab.model.transfer import Transfer
    from rooflab.types.machine import Machine
    from rooflab.types.prediction import Cache, Mode, Power
    from rooflab.types.report import Report


def analyze(
    fn_or_module: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    machine: Machine | str | PathLike[str] | None = None,
    backward: bool = False,
    optimizer: Any = None,
    device: str = "cuda",
    attention: Literal["fused", "unfused"] = "fused",
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
    trips: Mapping[str, int] | None = None,
    mode: Mode | None = None,
    cache: Cache = "warm",
    power: Power = "burst",
    dispatch_s: float | None = None,
    what_if: Mapping[str, Any] | str | None = None,
    constants: Constants | str | PathLike[str] | None = None,
) -> Report:
    """What a program asks for, operation by operation: FLOP, bytes, intensity, memory; no weights, no GPU.

    Args:
        fn_or_module: a PyTorch module, exported program or function, a JAX or tinygrad function, or the
            path of an ONNX file. Which it is, its inputs tell.
        args: its inputs. Tensors on PyTorch's "meta" device and `jax.ShapeDtypeStruct` need no memory.
        kwargs: its inputs by keyword.
        machine: also say what binds each operation on it: a `Machine`, or a name or file of one.
        backward: the backward pass too.
        optimizer: a step of it too: "sgd", "adam", "adamw", or a torch optimizer (PyTorch).
        device: whose kernels are counted, "cuda" or "cpu": they differ for dropout and attention (PyTorch).
        attention: "fused" as FlashAttention, or "unfused" with its scores in memory (PyTorch).
        name: of the report.
        dims: symbolic sizes of an ONNX file by name.
        trips: of JAX's while loops, by name.
        mode: "eager" (each operation dispatched by the host; what PyTorch does by itself), "graph" (kernels
            back to back, no host: CUDA graphs, engines) or "compiled" (after fusion, no host). By default
            eager for PyTorch, compiled for JAX, graph for the others.
        cache: "warm" as when it runs again and again, or "cold".
        power: "burst" or "sustained": whether power and heat limit the clock.
        dispatch_s: host seconds of one bare element-wise call in eager mode, which the times of all sorts of
            calls scale with; by default the machine's, else its family's.
        constants: a file that `rooflab calibrate` wrote, instead of the constants of the machine's family.
        what_if: changes to the machine, such as {"bandwidth": 2} or "bandwidth=2x".

    Raises:
        RooflabError: a program that needs real data, a size or an input that is missing, and the like.
        MissingExtraError: a framework that is not installed.

    >>> import torch
    >>> analyze(torch.nn.Linear(1024, 4096, bias=False), torch.empty(512, 1024)).flop
    4294967296.0
    """
    from rooflab.work import answer, front_end

    found = as_machine(machine)
    settings = front_end.Settings(backward, optimizer, device, attention, dims, trips)
    graph = front_end.capture(fn_or_module, args, kwargs, settings)
    title = name or front_end.name_of(fn_or_module)
    report = answer.report(graph, title, front_end.versions(graph.framework))
    if found is None:
        return report
    return predict(
        report,
        found,
        mode=mode,
        cache=cache,
        power=power,
        dispatch_s=dispatch_s,
        what_if=what_if,
        constants=constants,
    )


def op(
    kind: str,
    *shapes: str | int | tuple[int, ...],
    dtype: str = "fp32",
    machine: Machine | str | PathLike[str] | None = None,
    cache: Cache = "warm",
    power: Power = "burst",
    constants: Constants | str | PathLike[str] | None = None,
    **attrs: Any,
) -> Report:
    """What one operation asks for, from shapes alone: FLOP, bytes, intensity; its time and bound on a machine.

    Args:
        kind: "matmul", "conv2d", "attention", "softmax", "relu", "add", "lstm", "all_reduce", "adam", …
        shapes: of the operands: (4096, 1024) or "4096x1024", or "4096x1024:int8" for a format of its own.
        dtype: number format of the operands.
        machine: the one to predict it on: a `Machine`, or a name or file of one.
        cache, power, constants: as `analyze`.
        attrs: the operation's settings: causal, window, stride, groups, hidden, ranks, …

    Raises:
        UnknownNameError: an unknown kind, setting, number format or machine, with near matches.
        RooflabError: shapes that cannot be read or do not fit each other.

    >>> op("matmul", (4096, 4096), (4096, 4096), dtype="bf16").flop
    137438953472
    """
    from rooflab.work import answer, by_hand

    found = as_machine(machine)
    graph = by_hand.graph(kind, shapes, dtype=dtype, **attrs)
    report = answer.report(graph, by_hand.title(kind, shapes, dtype))
    return report if found is None else predict(report, found, cache=cache, power=power, constants=constants)


def predict(
    report: Report,
    machine: Machine | str | PathLike[str],
    *,
    mode: Mode | None = None,
    cache: Cache | None = None,
    power: Power | None = None,
    dispatch_s: float | None = None,
    what_if: Mapping[str, Any] | str | None = None,
    constants: Constants | str | PathLike[str] | None = None,
) -> Report:
    """`report` with each row and the whole program predicted on `machine` (see `analyze` for the settings).

    Raises:
        UnknownNameError: no machine, or no what-if, of that name, with near matches.
        RooflabError: a machine that lacks a number which predictions need, a factor that is not above zero.
    """
    import msgspec

    from rooflab.model import forecast, recast, whatif
    from rooflab.work import answer

    found = as_machine(machine)
    assert found is not None
    change = None if what_if is None else whatif.change(what_if)
    if change is not None:
        mode, cache, power = change.mode or mode, change.cache or cache, change.power or power
    if change is not None and change.batch is not None:
        raise RooflabError(
            "what-if batch: the shapes of a captured program are fixed; analyze it again on inputs of that "
            "batch, or let `rooflab analyze FILE.py:NAME --what-if batch=N` do so"
        )
    if change is not None and change.dtype is not None:
        graph = recast.recast(report.captured or report.graph, change.dtype)
        other = answer.report(graph, f"{report.name} in {change.dtype}", report.environment)
        report = msgspec.structs.replace(other, setting=report.setting)
    factors = None if change is None else whatif.factors_on(found, change)
    setting = whatif.setting(report, mode=mode, cache=cache, power=power, dispatch_s=dispatch_s, factors=factors)
    return forecast.on(report, found, setting, _constants(constants, found))


def calibrate(
    timings: str | PathLike[str],
    machine: Machine | str | PathLike[str],
    *,
    cache: Cache = "warm",
    constants: Constants | str | PathLike[str] | None = None,
    progress: Callable[[str, float, float], None] | None = None,
) -> Calibration:
    """The fitted constants of a machine's family refitted to your own timings; what changed, whether it helps.

    Args:
        timings: a CSV or JSON file of operations with their times (`rooflab calibrate --help` shows one), or a
            report's JSON whose rows carry observed times.
        machine: the one that was timed: a `Machine`, or a name or file of one.
        cache: "warm" where the operations were run again and again, or "cold".
        constants: to start from and to stay near; those of the machine's family by default.
        progress: called with what is done, how far, and the total.

    Returns:
        Errors on rows not used in fitting before and after, each constant that moved, those that stayed. Its
        `constants` go to `analyze` and `predict`.

    Raises:
        FileError: a file that cannot be read, or without a row that can be used.
        RooflabError: fewer than 8 times.
    """
    from rooflab.model import calibration
    from rooflab.model import timings as files

    found = as_machine(machine)
    assert found is not None
    read = files.read(os.fspath(timings))
    base = _constants(constants, found)
    return calibration.fit(read.timed, found, cache=cache, constants=base, dropped=read.dropped, progress=progress)


def _constants(given: Constants | str | PathLike[str] | None, machine: Machine) -> Constants | None:
    from rooflab.model import overrides

    if given is None:
        return None
    found = overrides.read(os.fspath(given)) if isinstance(given, (str, os.PathLike)) else given
    return overrides.fitting(found, machine)


def transfer(
    nbytes: float | str,
    path: Sequence[str],
    *,
    machine: Machine | str | PathLike[str] | None = None,
    host: Machine | str | PathLike[str] | None = None,
    rates: Mapping[str, str | float] | None = None,
    latencies: Mapping[str, str | float] | None = None,
    expands: Mapping[str, float] | None = None,
    threads: int | Mapping[str, int] = 1,
    chunk: float | str = "8 MB",
    overlap: bool = True,
    sample: float | str | None = None,
    device_samples_per_s: float | None = None,
) -> Transfer:
    """How long data is on its way from stage to stage, which stage binds, and how long a device waits for it.

    Args:
        nbytes: to move, or text with a unit ("150 GB").
        path: the stages in order: "network", "disk", "DRAM", "PCIe", "HBM", "internet", a level or link of the
            machine or host, or any name with a rate of its own ("decompress").
        machine: the device at the end: a `Machine`, or a name or file of one.
        host: the computer it sits in, such as one that `rooflab measure` saved.
        rates: bytes/s, or text ("10 Gbit/s"), by stage.
        latencies: seconds, or text ("1 ms"), of a request, by stage.
        expands: bytes that leave a stage per byte that enters it: {"decompress": 3}.
        threads: requests at once, of every stage or by stage.
        chunk: bytes of one request at the start of the way.
        overlap: whether the stages work side by side, or one after the other.
        sample: bytes of one training sample at the start of the way.
        device_samples_per_s: how many the device could compute; the result's `feed` says how long it waits.

    Raises:
        UnknownNameError: an unknown stage or machine, with near matches.
        RooflabError: no bytes, no known rate, a sample without the device's pace.

    >>> transfer("90 GB", ["network", "PCIe"], rates={"network": "10 Gbit/s", "PCIe": "63 GB/s"}).binds
    'network'
    """
    from rooflab import units
    from rooflab.model import transfer as model

    def bytes_of(given: float | str) -> float:
        return units.parse(given, "byte") if isinstance(given, str) else given

    stages = model.stages(
        path,
        machine=as_machine(machine),
        host=as_machine(host),
        rates=rates,
        latencies=latencies,
        expands=expands,
        threads=threads,
    )
    found = model.through(bytes_of(nbytes), stages, chunk_bytes=bytes_of(chunk), overlap=overlap)
    if sample is None and device_samples_per_s is None:
        return found
    if sample is None or device_samples_per_s is None:
        raise RooflabError("a feed needs both: sample, such as '150 kB', and device_samples_per_s, such as 2500")
    return found._replace(feed=model.feed(found, bytes_of(sample), device_samples_per_s))
