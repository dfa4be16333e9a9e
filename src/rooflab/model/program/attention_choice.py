"""Which of PyTorch's attention kernels each row runs on a machine: the row is named by the operator that runs.

The front end records the kernel of every architecture (`rooflab.work.attention_kernels`); here the machine's is
taken. Where that is math, the scores cross memory, and half formats are multiplied in fp32.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from rooflab.model.device.constants import constants_of
from rooflab.types.machine import Machine
from rooflab.types.report import Report
from rooflab.types.work import Cost, Op
from rooflab.work.attention_kernels import architecture_of
from rooflab.work.costs import costs

_OPERATORS = {
    "flash": "aten._scaled_dot_product_flash_attention",
    "efficient": "aten._scaled_dot_product_efficient_attention",
    "cudnn": "aten._scaled_dot_product_cudnn_attention",
    "math": "aten._scaled_dot_product_attention_math",
}
_CONVENTION = "attention kernels: "


def with_kernels(report: Report, machine: Machine) -> Report:
    """`report` with the kernel that PyTorch would run on `machine` in the name of each row of attention."""
    architecture = architecture_of(constants_of(machine).family) if machine.kind == "gpu" else None
    ran = Counter[str]()
    costed: dict[tuple[int, str], Cost | None] = {}  # rows of a repeated block share one cost
    rows = list(report.rows)
    for number, row in enumerate(rows):
        kernels = dict(row.op.attrs.get("kernels", ()))
        if not kernels:
            continue
        kernel = kernels.get(architecture) or ("efficient" if row.op.attrs.get("mask") else "flash")  # as captured
        op = _with_kernel(row.op, kernel)
        if architecture in kernels:
            ran[kernel] += op.count
        if (kernel == "math") == bool(row.op.attrs.get("fused", True)):
            key = id(row.cost), kernel
            if key not in costed:
                costed[key] = costs(msgspec.structs.replace(report.graph, ops=(op,)))[0]
            row = msgspec.structs.replace(row, cost=costed[key])
        rows[number] = row if op == row.op else msgspec.structs.replace(row, op=op)
    if not any("kernels" in row.op.attrs for row in rows):
        return report
    kept = tuple(line for line in report.conventions if not line.startswith(_CONVENTION))
    if ran:
        each = ", ".join(f"{kernel} × {times}" for kernel, times in ran.items())
        kept += (f"{_CONVENTION}{each}, as PyTorch chooses on {architecture}",)
    if all(new is old for new, old in zip(rows, report.rows, strict=True)):
        return msgspec.structs.replace(report, conventions=kept)
    graph = msgspec.structs.replace(report.graph, ops=tuple(row.op for row in rows))
    return msgspec.structs.replace(report, graph=graph, rows=tuple(rows), conventions=kept)


def _with_kernel(op: Op, kernel: str) -> Op:
    attrs = {name: value for name, value in op.attrs.items() if name not in ("fused", "compute")}
    if kernel == "math":
        attrs |= {"fused": False, "compute": "fp32"}
    suffix = "_backward" if op.kind == "attention_backward" else ""
    return msgspec.structs.replace(op, name=_OPERATORS[kernel] + suffix, attrs=attrs)
