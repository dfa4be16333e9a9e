"""What changes from run to run by chance, changed within a run: where results lie in memory, where threads run."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from rooflab.timing.finish import leaves

PAUSE_S = 0.05  # a library's threads that wait for work by spinning go to sleep: OpenBLAS' after 2^26 cycles
_QUICK_S = 2e-3  # calls of so long are made for their results alone
_RESULTS = 5  # at most, that are kept meanwhile
_RESULT_BYTES = 64 * 2**20  # of all of them
_PADS = (513, 4608)  # bytes: from malloc, not of Python's own small blocks, up to a page and more


class Elsewhere:
    """Puts what a call will allocate to another place, each time that it is called.

    The same code on the same data takes 5 to 20 % more or less by where its memory begins in a line, a page and
    the sets of a cache, and by which cores its threads are put on; a run keeps the place that it got by chance
    (Mytkowicz, Diwan, Hauswirth and Sweeney, "Producing wrong data without doing anything obviously wrong!",
    ASPLOS 2009; Curtsinger and Berger, "Stabilizer", ASPLOS 2013, who move it within a run, as is done here).
    """

    def __init__(
        self,
        call: Callable[[], Any],
        call_s: float,
        *,
        keeps: bool = True,
        pause: Callable[[float], object] = time.sleep,
        seed: int = 0,
    ) -> None:
        """Takes what is called, how long it takes, and whether its results can be kept: those of its work done.

        Args:
            call: what is timed.
            call_s: seconds that it takes.
            keeps: false where a result stands for work that is still to be done.
            pause: waits so many seconds.
            seed: of the sizes.
        """
        self._call, self._pause = call, pause
        self._keeps = keeps and call_s < _QUICK_S
        self._random = random.Random(seed)

    def __call__(self) -> list[Any]:
        """Wait until threads sleep; return what must be kept while the next calls are timed."""
        self._pause(PAUSE_S)
        kept: list[Any] = [bytearray(self._random.randint(*_PADS))]
        for _ in range(self._random.randrange(_RESULTS + 1) if self._keeps else 0):
            result = self._call()
            if sum(map(_nbytes, leaves(result))) * _RESULTS > _RESULT_BYTES:
                break
            kept += [result, bytearray(self._random.randint(*_PADS))]
        return kept


def _nbytes(value: Any) -> int:
    nbytes = getattr(value, "nbytes", 0)
    return nbytes if isinstance(nbytes, int) else 0
