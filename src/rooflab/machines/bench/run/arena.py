"""Memory to measure in: private, aligned, huge pages asked for, touched first by the thread that uses it."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rooflab.units import MIB

HUGE_PAGE_BYTES = 2 * MIB
LINE_BYTES = 64
# The byte all of an arena is filled with: 0x3f3f… is a normal number in every format. Zeros are not
# neutral: non-temporal stores of zeros have been seen 40 % too fast, and untouched pages share one frame.
FILL = 0x3F


@dataclass(frozen=True)
class Arena:
    """A stretch of memory, aligned to a huge page.

    Attributes:
        address: of its first byte.
        nbytes: usable bytes.
        mapping: keeps it alive.
    """

    address: int
    nbytes: int
    mapping: mmap.mmap

    @staticmethod
    def reserve(nbytes: int) -> Arena:
        """Address space for `nbytes`; no page is there before it is touched (see `touch`)."""
        # MAP_SHARED, Python's default, would make the request for huge pages do nothing.
        mapping = mmap.mmap(-1, nbytes + HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            # A kernel built without huge pages refuses: `huge_share` then says what the memory lies in.
            with contextlib.suppress(OSError):
                mapping.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        return Arena(-(-start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES, nbytes, mapping)

    def touch(self, offset: int = 0, nbytes: int | None = None) -> None:
        """Fill a range; the calling thread's memory node becomes its home."""
        ctypes.memset(self.address + offset, FILL, self.nbytes - offset if nbytes is None else nbytes)

    def view(self, dtype: type[np.generic], offset: int, nbytes: int) -> np.ndarray:
        """A range as a NumPy array."""
        start = self.address - ctypes.addressof(ctypes.c_char.from_buffer(self.mapping)) + offset
        count = nbytes // np.dtype(dtype).itemsize
        return np.frombuffer(self.mapping, dtype=dtype, count=count, offset=start)

    def huge_share(self, root: Path = Path("/")) -> float | None:
        """The share of the touched pages that are huge ones; None where the system does not say."""
        try:
            text = (root / "proc/self/smaps").read_text()
        except OSError:
            return None
        for block in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text):
            first, last = (int(part, 16) for part in block.split(" ", 1)[0].split("-"))
            if first <= self.address < last:
                resident = re.search(r"^Rss:\s+(\d+) kB", block, re.M)
                huge = re.search(r"^AnonHugePages:\s+(\d+) kB", block, re.M)
                if resident and huge and int(resident[1]):
                    return min(1.0, int(huge[1]) / int(resident[1]))
        return None
