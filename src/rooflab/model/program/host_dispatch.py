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
    **dict.fromkeys(("copy", "layout", "fold"), "copy"),
}
_FEW = 8  # operands that an ordinary call has at most; more are lists of tensors (foreach, fused optimizers)


def dispatch_s(ops: Sequence[Op], device: Device, setting: Setting) -> np.ndarray:
    """Host seconds of one execution of each of `ops`, (operations, settings), what launches nothing included.

    The times of the table were taken from profiler traces of one host; a known host is as many times faster
    or slower at all of them as it is at one bare element-wise call (`dispatch.bare_s`), which the setting or
    the machine's runtimes state. One that is not known is taken as that of the table, and `spread` says how
    far off that may be. Gradients are dispatched by the autograd engine in C++: a share of the forward call's
    time. A call on lists of tensors (foreach, fused optimizers) also handles each of them.
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


def spread(ops: Sequence[Op], device: Device, setting: Setting) -> float:
    """Standard deviation of ln(true / predicted) of the host time of a whole program of `ops`.

    From run to run and from program to program it differs on every host. Of a host that is known one bare call is
    known, which says what its other calls take only so well; one that is not known is as far off as hosts differ.
    """
    c = device.constants
    of_host = c("dispatch.bare_spread" if is_known(ops, device.machine, setting) else "dispatch.hosts_spread")
    return float(np.hypot(c("dispatch.spread"), of_host))


def _slower(device: Device, setting: Setting, framework: str) -> Number:
    """How many times longer a call takes than on the host of the table."""
    c = device.constants
    call_s = _call_s(device.machine, setting, framework)
    if call_s is not None:
        slower = call_s / c("dispatch.bare_s")
    else:
        # A CPU has no kernel to launch, no stream to look up.
        slower = c("dispatch.cpu_share") if device.machine.kind == "cpu" else 1.0
    return slower * device.factor["dispatch"]


def is_known(ops: Sequence[Op], machine: Machine, setting: Setting) -> bool:
    """Whether the host's own time of a call is known: given, or measured with the machine."""
    return _call_s(machine, setting, _framework(ops)) is not None


def _call_s(machine: Machine, setting: Setting, framework: str) -> float | None:
    """One bare call on the host at hand: given, else the machine's own; of a CPU only if it is of that framework.

    Frameworks differ tenfold there. What was measured on a host that a runtime names says nothing of others with
    that card.
    """
    if setting.dispatch_s is not None:
        return setting.dispatch_s
    runtimes = [each for each in machine.runtimes if each.dispatch_s and each.host is None]
    own = [each for each in runtimes if framework and framework in each.framework.lower()]
    if machine.kind == "cpu":
        runtimes = []
    return next((each.dispatch_s for each in [*own, *runtimes]), None)
