"""What indices and masks pick, how NumPy goes about it, and which accesses no prefetcher foresees."""

from __future__ import annotations

from rooflab.model.kernels.common import Specs
from rooflab.model.kernels.cpu import core_times
from rooflab.model.kernels.cpu.walk import LINE_BYTES, along_rows
from rooflab.types.work import Cost, Op


def way(op: Op, inputs: Specs, torch: bool) -> str:
    """How NumPy picks: runs of a mask, single elements of one dimension, or rows, each by itself."""
    if "runs" in op.attrs:
        return "run"
    if torch or len(inputs) < 2:
        return "piece"
    alone = len(inputs) == 2 and op.attrs.get("piece") == 1
    return "element" if alone or len(inputs[0].shape) == 1 else "piece"


def picked(op: Op, inputs: Specs) -> float:
    """Rows of a table that its indices pick, or runs that a mask leaves."""
    known = op.attrs.get("runs", op.attrs.get("rows", op.attrs.get("pieces")))
    return float(min((spec.elements for spec in inputs[1:]), default=0) if known is None else known)


def random_accesses(op: Op, inputs: Specs, outputs: Specs, cost: Cost, torch: bool) -> tuple[float, float]:
    """Accesses that no prefetcher foresees, and the bytes that they are spread over."""
    if op.kind in ("gather", "scatter"):
        in_order = not {"runs", "rows"}.isdisjoint(op.attrs)  # what a mask picks, prefetchers foresee
        # What is counted in bins has its table in the result alone.
        table = outputs[0] if not torch and op.kind == "scatter" and not op.attrs.get("base") else inputs[0]
        item = table.nbytes / max(table.elements, 1)
        reach = op.attrs["within"] * item if "within" in op.attrs else table.nbytes
        return (0.0, 0.0) if in_order else (picked(op, inputs), reach)
    sums = torch and op.kind == "reduction" and op.attrs.get("function") in ("sum", "mean", "nansum")
    if sums and not along_rows(op, inputs[0], outputs[0]):
        x = inputs[0]
        if outputs[0].nbytes > core_times.PAGE_BYTES:
            # PyTorch sums down a few vectors at a time, and each row lies on another page.
            return x.nbytes / (2 * LINE_BYTES), x.nbytes
    return 0.0, 0.0
