"""What a report is of, in a line: framework, training or not, inputs, batch, file."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from rooflab.types.report import Report
from rooflab.types.work import TensorSpec

_FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX", "onnx": "ONNX", "numpy": "NumPy", "hand": ""}
_SHOWN = 4  # inputs that are written out


def line(report: Report) -> str:
    """Framework, what runs of it, inputs, the batch, the file; what is unknown is left out."""
    graph = report.captured or report.graph
    inputs = graph.held("input")
    written = ", ".join(map(_tensor, inputs[:_SHOWN]))
    more = f" and {len(inputs) - _SHOWN} more" if len(inputs) > _SHOWN else ""
    # Of one-dimensional inputs the first size is no batch.
    size = graph.leading_size if all(len(each.shape) > 1 for each in inputs) else None
    parts = [
        _FRAMEWORKS.get(graph.framework, graph.framework),
        _runs(report),
        f"input{'' if len(inputs) == 1 else 's'} {written}{more}" if inputs else "",
        f"batch (the first size) {size:,.0f}" if size is not None else "",
        _file(report),
    ]
    return " · ".join(part for part in parts if part)


def _runs(report: Report) -> str:
    phases = {row.op.phase for row in report.rows}
    if "optimizer" in phases:
        return "a training step with its optimizer"
    return "forward and backward pass" if "backward" in phases else "forward pass"


def _tensor(spec: TensorSpec) -> str:
    shape = " × ".join(f"{size:,.0f}" for size in spec.shape) or "one number"
    return f"{spec.name or ''} {shape} {spec.dtype}".strip()


def _file(report: Report) -> str:
    """The file that most operations were called from, by name."""
    files = Counter(row.op.where.rpartition(":")[0] for row in report.rows if row.op.where)
    return PurePath(max(files, key=files.__getitem__)).name if files else ""
