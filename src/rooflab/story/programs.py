"""What will limit this program, here or on hardware I don't have, and what would help?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from rooflab.errors import RooflabError
from rooflab.story.advice import advise
from rooflab.story.machines import as_machine
from rooflab.types.setting import SettingChanges

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.types.machine import Machine
    from rooflab.types.report import Report
    from rooflab.types.variants import Variants


def analyze(
    fn_or_module: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    machine: Machine | str | PathLike[str] | None = None,
    backward: bool = False,
    optimizer: Any = None,
    device: str | None = None,
    attention: Literal["fused", "unfused"] = "fused",
    recorded: bool = False,
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
    trips: Mapping[str, int] | None = None,
    advice: bool = True,
    measure: bool = False,
    progress: Callable[[str, float, float], None] | None = None,
    **setting: Unpack[SettingChanges],
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
        device: whose kernels are counted, "cuda" or "cpu": they differ for dropout and attention (PyTorch). By
            default the machine's kind, "cuda" without a machine.
        attention: "fused" as FlashAttention, or "unfused" with its scores in memory (PyTorch).
        recorded: as it runs while a CUDA graph is recorded of it, as always with mode="graph": some programs ask,
            and run other kernels then (PyTorch).
        name: of the report.
        dims: symbolic sizes of an ONNX file by name.
        trips: of JAX's while loops, by name.
        advice: with a machine, also say what would help (see `advise`).
        measure: also time it here: every operation as it is called, and the whole program (PyTorch in eager mode,
            on a machine that is this one). The times are in the rows' `observation` and in `own_times`.
        progress: called with what is measured, how far, and the total.
        setting: how it runs there: mode, cache, power, dispatch_s, what_if, constants (see `SettingChanges`).

    Raises:
        RooflabError: a program that needs real data, a size or an input that is missing, and the like.
        MissingExtraError: a framework that is not installed.

    >>> import torch
    >>> analyze(torch.nn.Linear(1024, 4096, bias=False), torch.empty(512, 1024)).flop
    4294967296.0
    """
    from rooflab.model.program.setting import check
    from rooflab.story import measured
    from rooflab.work import counting, front_end

    target, checked = as_machine(machine), check(setting)
    if measure:
        measured.check(target, device)
    kernels = device or ("cpu" if target is not None and target.kind == "cpu" else "cuda")
    keeper = measured.keeper(fn_or_module, args, kwargs) if measure else None
    capture = front_end.CaptureOptions(
        backward, optimizer, kernels, attention, dims, trips, recorded or checked.get("mode") == "graph", keeper
    )
    graph = front_end.capture(fn_or_module, args, kwargs, capture)
    title = name or front_end.name_of(fn_or_module)
    report = counting.report(graph, title, front_end.versions(graph.framework))
    if target is None:
        return report
    predicted = predict(report, target, **checked)
    if advice:
        batch, at_batch = _batches(fn_or_module, args, kwargs or {}, capture)

        def as_recorded() -> Report:
            graph = front_end.capture(fn_or_module, args, kwargs, capture._replace(recorded=True, keeper=None))
            return counting.report(graph, title, front_end.versions(graph.framework))

        predicted = advise(predicted, at_batch=at_batch, batch=batch, as_recorded=as_recorded)
    if keeper is None:
        return predicted
    program = (fn_or_module, args, kwargs or {})
    how = {"backward": backward or optimizer is not None, "optimizer": optimizer is not None}
    return measured.measured(predicted, keeper, program, **how, progress=progress)


def _batches(
    module: Any, args: tuple, kwargs: Mapping[str, Any], capture: Any
) -> tuple[int | None, Callable[[int], Report] | None]:
    """How many samples the inputs hold, and what analyzes the program with others; None where not known."""
    from rooflab.work import batches, counting, front_end

    batch = None if capture.optimizer is not None else batches.batch_of(module, args, kwargs)
    if batch is None:
        return None, None

    def at_batch(size: int) -> Report:
        inputs = batches.with_batch(args, kwargs, size)
        try:
            graph = front_end.capture(module, *inputs, capture._replace(keeper=None))
        except Exception as error:  # whatever the module raises: it was written for its own inputs
            raise RooflabError(f"{size} samples: {str(error).partition(chr(10))[0]}") from error
        return counting.report(graph, front_end.name_of(module), front_end.versions(graph.framework))

    return batch, at_batch


def op(
    kind: str,
    *shapes: str | int | tuple[int, ...],
    dtype: str = "fp32",
    machine: Machine | str | PathLike[str] | None = None,
    attrs: Mapping[str, Any] | None = None,
    advice: bool = True,
    time: str | float | None = None,
    **more: Any,
) -> Report:
    """What one operation asks for, from shapes alone: FLOP, bytes, intensity; its time and bound on a machine.

    Args:
        kind: "matmul", "conv2d", "attention", "softmax", "relu", "add", "lstm", "all_reduce", "adam", …
        shapes: of the operands: (4096, 1024) or "4096x1024", or "4096x1024:int8" for a format of its own.
        dtype: number format of the operands.
        machine: the one to predict it on: a `Machine`, or a name or file of one.
        attrs: attributes of the operation: causal, window, stride, groups, hidden, ranks, … Those that are no
            setting can be written as keywords too.
        advice: with a machine, also say what would help (see `advise`).
        time: what it took on that machine by your own timing, "660 us" or seconds: its share of the roof, of the
            floor, of the prediction, and what would explain it (see `Report.with_times`).
        more: how it runs (mode, cache, power, dispatch_s, what_if, constants: see `SettingChanges`), and
            attributes.

    Raises:
        UnknownNameError: an unknown kind, attribute, number format or machine, with near matches.
        RooflabError: shapes that cannot be read or do not fit each other.

    >>> op("matmul", (4096, 4096), (4096, 4096), dtype="bf16").flop
    137438953472
    """
    from rooflab.model.program.setting import check
    from rooflab.story import own_times
    from rooflab.work import by_hand, counting

    target = as_machine(machine)
    measured_s = None if time is None else own_times.seconds(time, "time")
    if measured_s is not None and target is None:
        raise RooflabError(f"time is {time!r}: expected the machine that it was measured on too, as machine=…")
    settings = check({key: value for key, value in more.items() if key in SettingChanges.__annotations__})
    attributes = {key: value for key, value in more.items() if key not in SettingChanges.__annotations__}
    graph = by_hand.graph(kind, shapes, dtype=dtype, **{**attributes, **(attrs or {})})
    report = counting.report(graph, by_hand.title(kind, shapes, dtype))
    if target is None:
        return report
    predicted = predict(report, target, **settings)
    predicted = advise(predicted) if advice else predicted
    return predicted if measured_s is None else predicted.with_times(measured_s)


def predict(report: Report, machine: Machine | str | PathLike[str], **setting: Unpack[SettingChanges]) -> Report:
    """`report` with each row and the whole program predicted on `machine`.

    Args:
        report: what `analyze` or `op` returned, on another machine or on none.
        machine: a `Machine`, or a name or file of one.
        setting: what is not given is as in `report` (see `SettingChanges`).

    Raises:
        UnknownNameError: no machine, or no what-if, of that name, with near matches.
        RooflabError: a machine that lacks a number which predictions need, a factor that is not above zero.
    """
    import msgspec

    from rooflab.model.program import forecast, precision
    from rooflab.model.program import setting as settings
    from rooflab.work import counting

    target = as_machine(machine)
    assert target is not None
    checked = settings.check(setting)
    what_if = checked.get("what_if")
    change = None if what_if is None else settings.what_if(what_if)
    if change is not None and change.batch is not None:
        raise RooflabError(
            "what-if batch: the shapes of a captured program are fixed; analyze it again on inputs of that "
            "batch, or let `rooflab analyze FILE.py:NAME --what-if batch=N` do so"
        )
    if change is not None and change.dtype is not None:
        graph = precision.change_dtype(report.captured or report.graph, change.dtype)
        other = counting.report(graph, f"{report.name} in {change.dtype}", report.environment)
        report = msgspec.structs.replace(other, setting=report.setting)
    report = _without_times(report)
    return forecast.predict_on(report, target, settings.setting(report, target, checked, change))


def _without_times(report: Report) -> Report:
    """`report` without what was measured: that was of the program as it ran before."""
    import msgspec

    rows = report.rows
    if report.measurement is not None:
        rows = tuple(msgspec.structs.replace(row, observation=None, unobserved=None) for row in rows)
    return msgspec.structs.replace(report, rows=rows, measured_s=None, measurement=None, own_times=())


def variants(
    report: Report,
    machines: Sequence[Machine | str | PathLike[str]],
    what_ifs: Sequence[Mapping[str, Any] | str] = (),
    *,
    names: Sequence[str] = (),
    at_batch: Callable[[int], Report] | None = None,
    **setting: Unpack[SettingChanges],
) -> Variants:
    """One program on several machines, on each as it is and under each what-if.

    Args:
        report: what `analyze` or `op` returned.
        machines: each a `Machine`, or a name or file of one.
        what_ifs: each as `what_if` of `SettingChanges`; "batch=64" too where `at_batch` is given.
        names: what to call the machines; by default as they are given.
        at_batch: analyzes the same program with that batch size.
        setting: of all variants (see `SettingChanges`).

    Raises:
        UnknownNameError: no machine, or no what-if, of that name, with near matches.
        RooflabError: what `predict` raises, a what-if of the batch without `at_batch`.

    >>> square = op("matmul", "4096x4096", "4096x4096", dtype="bf16")
    >>> variants(square, ["h200-sxm", "a100-sxm-80gb"], ["bandwidth=2x"]).names
    ('h200-sxm', 'h200-sxm, bandwidth=2x', 'a100-sxm-80gb', 'a100-sxm-80gb, bandwidth=2x')
    """
    from rooflab.model.program import setting as settings
    from rooflab.types.variants import Variants

    checked = settings.check(setting)
    changes = [(_what_if_text(each), each, settings.what_if(each)) for each in what_ifs]
    called = tuple(names) or tuple(map(_name, machines))
    lines, reports = [], []
    for name, target in zip(called, map(as_machine, machines), strict=True):
        assert target is not None
        lines.append(name)
        reports.append(predict(report, target, **checked))
        for text, what_if, change in changes:
            program, rest = report, what_if
            if change.batch is not None and at_batch is not None:
                program, rest = at_batch(change.batch), settings.without_batch(what_if)
            lines.append(f"{name}, {text}")
            reports.append(predict(program, target, **{**checked, "what_if": rest}))
    return Variants(name=report.name, names=tuple(lines), reports=tuple(reports))


def _name(machine: Machine | str | PathLike[str]) -> str:
    return os.fspath(machine) if isinstance(machine, (str, os.PathLike)) else machine.name


def _what_if_text(what_if: Mapping[str, Any] | str) -> str:
    if isinstance(what_if, str):
        return what_if
    return ",".join(f"{name}={value}" for name, value in what_if.items())
