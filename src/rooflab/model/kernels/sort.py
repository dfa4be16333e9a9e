"""Ordering: radix sort, selection of the largest, search."""

from __future__ import annotations

from rooflab.model.kernels import passes
from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.passes import CODE, Pass
from rooflab.types.work import Cost, Op
from rooflab.work.formulas.parts import item_bytes

KINDS = ("sort",)
_PASSES = 4
_DIGIT_BITS = 8  # of one pass of a radix sort or selection


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """The passes of a radix sort of keys with their places, or of a selection digit by digit."""
    if not inputs or not outputs:
        return None
    x, name, traffic = inputs[0], op.attrs.get("function"), cost.compulsory
    item = item_bytes(x)
    digits = item * 8 / _DIGIT_BITS
    elements = float(x.elements)
    rows = elements / op.attrs["n"] if op.attrs.get("n") else 1.0
    if name == "search":
        return passes.flat(
            _PASSES,
            Pass(
                code=CODE["gather_scalars"],
                elements=float(inputs[-1].elements),
                sector_bytes=cost.accessed.read_bytes * 8 if cost.accessed else 0.0,
                read_bytes=inputs[-1].nbytes,
                write_bytes=traffic.write_bytes,
            ),
        )
    if name in ("topk", "kthvalue", "median", "mode"):
        count = Pass(
            code=CODE["digit_count"],
            elements=elements * digits,
            blocks=elements / 16384 / 8 * digits,
            read_bytes=traffic.read_bytes,
            inner_bytes=(digits - 1) * x.nbytes,
            inner_size_bytes=x.nbytes,
            starts=3 * digits,
        )
        select = Pass(
            code=CODE["select"],
            elements=elements,
            rows=rows,
            inner_bytes=x.nbytes,
            inner_size_bytes=x.nbytes,
            write_bytes=traffic.write_bytes,
            starts=3.0,
        )
        return passes.flat(_PASSES, count, select)
    pair = x.nbytes + 8.0 * elements  # keys and their places, 64-bit
    copies = Pass(
        code=CODE["vectorized"],
        elements=2 * elements,
        read_bytes=traffic.read_bytes,
        inner_bytes=pair,
        inner_size_bytes=pair,
        starts=2.0,
    )
    histogram = Pass(
        code=CODE["radix_histogram"],
        elements=elements,
        inner_bytes=x.nbytes,
        inner_size_bytes=x.nbytes,
        starts=4.0,
    )
    order = Pass(
        code=CODE["radix_pass"],
        elements=elements * digits,
        inner_bytes=2 * digits * pair,
        inner_size_bytes=pair,
        starts=2 * digits,
    )
    return passes.flat(_PASSES, copies, histogram, order)


MECHANISM = Mechanism("sort", ("gpu",), KINDS, passes.columns(_PASSES), features, passes.timer(_PASSES, "sort"))
