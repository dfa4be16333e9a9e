"""One operation of which FLOP and bytes are given as numbers, not worked out from shapes."""

from __future__ import annotations

import math
from numbers import Real

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError
from rooflab.types.work import Graph, Op


def given(name: str, flop: float | None, nbytes: float | None, dtype: str = "fp64") -> Graph:
    """The program that is this one operation.

    Args:
        name: of it.
        flop: of one call, a multiply-add as 2, taken as vector arithmetic; None counts none.
        nbytes: that one call must move between cores and memory, both ways together; None counts none.
        dtype: number format of the FLOP.

    Raises:
        RooflabError: neither of both, or what is no number from zero on.
        UnknownNameError: an unknown number format, with near matches.
    """
    for what, value in (("flop", flop), ("bytes_moved", nbytes)):
        right = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
        if value is not None and not right:
            raise RooflabError(f"{what}: got {value!r}, expected a number of one call, zero or above")
    if flop is None and nbytes is None:
        raise RooflabError("neither flop nor bytes_moved is given, expected at least one")
    attrs = {
        "flop": float(flop or 0),
        "read_bytes": float(nbytes or 0),
        "write_bytes": 0.0,
        "kind": "vector",
        "dtype": number_format(dtype).name,
        "by": "hand",
    }
    left = [what for what, value in (("FLOP", flop), ("bytes", nbytes)) if value is None]
    conventions = (
        f"{' and '.join(given for given in ('FLOP', 'bytes') if given not in left)} as given by hand"
        + (f"; {left[0]} were not given and count as none" if left else ", bytes of both ways together as read"),
    )
    op = Op(name=name, kind="custom", attrs=attrs)
    return Graph(framework="hand", tensors=(), ops=(op,), conventions=conventions)
