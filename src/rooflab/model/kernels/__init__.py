"""How long one kernel takes: a mechanism per sort of kernel, in arrays over rows and settings.

A mechanism is two functions. `features` reads off one operation the few numbers that its time depends on
(m, n, k, row length, stride, …). `time` turns columns of these into seconds on a `Device`. Which kinds of
operation a mechanism models is said in `MECHANISMS`; adding one is one file and one line there.
"""

from __future__ import annotations

from rooflab.model.kernels import (
    attention,
    collective,
    compiled,
    conv,
    cpu_matmul,
    cpu_stream,
    gather,
    generic,
    matmul,
    optimizer,
    reduction,
    rows,
    sort,
    stream,
    window,
)
from rooflab.model.kernels.common import Mechanism

# First match wins; `generic` models what no other does.
MECHANISMS: tuple[Mechanism, ...] = (
    compiled.MECHANISM,
    compiled.ELSEWHERE,
    cpu_matmul.MECHANISM,
    cpu_stream.MECHANISM,
    matmul.MECHANISM,
    attention.MECHANISM,
    stream.MECHANISM,
    reduction.MECHANISM,
    rows.MECHANISM,
    gather.MECHANISM,
    window.MECHANISM,
    sort.MECHANISM,
    optimizer.MECHANISM,
    collective.MECHANISM,
    conv.MECHANISM,
    generic.MECHANISM,
)
