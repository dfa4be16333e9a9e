"""How long one kernel takes: a mechanism per sort of kernel, in arrays over rows and settings.

A mechanism is two functions. `features` reads off one operation the few numbers that its time depends on
(m, n, k, row length, stride, …). `time` turns columns of these into seconds on a `Device`. Which kinds of
operation a mechanism models is said in `MECHANISMS`; adding one is one file in `gpu` or `cpu` and one line here.
"""

from __future__ import annotations

from rooflab.model.kernels import collective, generic
from rooflab.model.kernels.common import Mechanism
from rooflab.model.kernels.cpu import compiled as cpu_compiled
from rooflab.model.kernels.cpu import matmul as cpu_matmul
from rooflab.model.kernels.cpu import stream as cpu_stream
from rooflab.model.kernels.gpu import (
    attention,
    blocks,
    compiled,
    conv,
    gather,
    matmul,
    normalization,
    optimizer,
    recurrence,
    reduction,
    sort,
    stream,
    window,
)

# First match wins; `generic` models what no other does.
MECHANISMS: tuple[Mechanism, ...] = (
    compiled.MECHANISM,
    cpu_compiled.MECHANISM,
    generic.COMPILED,
    cpu_matmul.MECHANISM,
    cpu_stream.MECHANISM,
    matmul.MECHANISM,
    attention.MECHANISM,
    blocks.MECHANISM,
    stream.MECHANISM,
    reduction.MECHANISM,
    normalization.MECHANISM,
    gather.MECHANISM,
    window.MECHANISM,
    sort.MECHANISM,
    optimizer.MECHANISM,
    collective.MECHANISM,
    conv.MECHANISM,
    recurrence.MECHANISM,
    generic.MECHANISM,
)
