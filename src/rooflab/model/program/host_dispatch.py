"""What each operation of an eager program costs the host: by sort of operation, scaled to the host at hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.types.machine import Machine
from rooflab.types.setting import Setting
from rooflab.types.work import Op

# Which time of the constants' topic "dispatch" an operation of a kind takes; "other" for kinds not listed.
_SORTS: dict[str, str] = {
    **dict.fromkeys(("pointwise", "cast", "dropout", "random", "create"), "pointwise"),
    **dict.fromkeys(("view",), "view"),
    **dict.fromkeys(("matmul", "conv", "grouped_matmul"), "matmul"),
    **dict.fromkeys(("attention",), "attention"),
    **dict.fromkeys(("norm", "softmax", "loss"), "norm"),
    **dict.fromkeys(("copy", "layout"), "copy"),
}
_FEW = 8  # operands that an ordinary call has at most; more are lists of tensors (foreach, fused optimizers)


def dispatch_s(ops: Sequence[Op], device: Device, setting: Setting) -> np.ndarray:
    """Host seconds of one execution of each of `ops`, (operations, settings), what launches nothing included.

    The times of the table were taken from profiler traces of one host; another host is as many times faster
    or slower at all of them as it is at one bare element-wise call (`dispatch.bare_s`), which the setting or
    the machine's runtimes state. Gradients are dispatched by the autograd engine in C++: a share of the
    forward call's time. A call on lists of tensors (foreach, fused optimizers) also handles each of them.
    """
    c = device.constants
    sort_s = {sort: c(f"dispatch.{sort}_s") for sort in {*_SORTS.values(), "other"}}
    backward, operand_s = c("dispatch.backward_share"), c("dispatch.operand_s")
    profiled = np.array(
        [
            sort_s[_sort(op)] * (backward if op.phase == "backward" else 1.0)
            + operand_s * max(len(op.inputs) + len(op.outputs) - _FEW, 0)
            for op in ops
        ],
        float,
    )
    scale = c("dispatch.profiler_share") * _slower(device, setting, _framework(ops))
    return profiled[:, None] * scale * np.ones((1, np.size(device.factor["dispatch"])))


def _sort(op: Op) -> str:
    kind = (op.kind or "").removesuffix("_backward")
    return _SORTS.get(kind, "other")


def _framework(ops: Sequence[Op]) -> str:
    return "torch" if any(op.name.startswith("aten.") for op in ops) else ""


def _slower(device: Device, setting: Setting, framework: str) -> Number:
    """How many times longer a call takes than on the host of the table."""
    c = device.constants
    call_s = setting.dispatch_s
    if call_s is None:
        call_s = _measured(device.machine, framework)
    slower = 1.0 if call_s is None else call_s / c("dispatch.bare_s")
    if call_s is None and device.machine.kind == "cpu":
        # No kernel to launch, no stream to look up.
        slower = c("dispatch.cpu_share")
    return slower * device.factor["dispatch"]


def _measured(machine: Machine, framework: str) -> float | None:
    """The machine's own time of one call; of a CPU only if it is of that framework: they differ tenfold."""
    runtimes = [each for each in machine.runtimes if each.dispatch_s]
    own = [each for each in runtimes if framework and framework in each.framework.lower()]
    if machine.kind == "cpu":
        runtimes = []
    return next((each.dispatch_s for each in [*own, *runtimes]), None)
