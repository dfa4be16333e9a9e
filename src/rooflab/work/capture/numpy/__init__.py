"""NumPy: a function is run on copies of its arrays, which note what is asked of them."""

from __future__ import annotations

from rooflab.work.capture.numpy.trace import capture

__all__ = ["capture"]
