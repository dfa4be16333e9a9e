"""tinygrad functions as graphs of work: scheduled into kernels, each counted over its loops, none run.

tinygrad fuses before it runs anything, so an operation here is one of its kernels (kind "kernel"), with the
bytes that cross memory and not those of each tensor operation. Kernels are lowered for its NULL device without
optimisation: the plain loops, whose loads and stores are the accessed bytes. tinygrad's own `Estimates` of
such a kernel are `ops` = 2·fma + vector + special + other here, `mem` = compulsory and `lds` = accessed bytes.
They differ in two ways: integers and logic ("other": index arithmetic aside) are operations there and no FLOP
here; and of a kernel that it has optimised it counts what is left (unrolled loops save the first addition,
registers save loads).
"""

from __future__ import annotations

from rooflab.work.capture.tinygrad.trace import capture

__all__ = ["capture"]
