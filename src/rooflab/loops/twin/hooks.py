"""What a twin calls beside the simulator: counters of blocks, trips of loops, indices out of bounds, the stop.

The memory at `events` holds, as 64-bit words: STOP, which another thread sets to end the run; what went out
of bounds; AT, the loop in which the run was stopped; and from VARIABLES on the value of each loop's variable,
so that an error and a stop can say where they were. The memory at `passes` holds how often each block ran.
"""

from __future__ import annotations

STOP, REF, AXIS, INDEX, LENGTH, AT, VARIABLES = 0, 1, 2, 3, 4, 5, 8
