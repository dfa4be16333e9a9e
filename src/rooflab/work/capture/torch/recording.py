"""Programs that ask whether a CUDA graph is being recorded: they may run other operators then."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch

from rooflab.work.capture.torch.places import line, site


@contextlib.contextmanager
def answered(recorded: bool, asked: list[str]) -> Iterator[None]:
    """Answer `torch.cuda.is_current_stream_capturing` with `recorded`; `asked` gets each line that asks, once.

    Transformers ask it before they look into a mask's data, which nothing may while a graph is recorded, and
    attend under the whole mask then.
    """
    before = torch.cuda.is_current_stream_capturing

    def answer() -> bool:
        # PyTorch's own questions, of random numbers and optimizers, change no operator.
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "torch":
            return False
        where = line(site()) or "the program"
        if where not in asked:
            asked.append(where)
        return recorded

    torch.cuda.is_current_stream_capturing = answer
    try:
        yield
    finally:
        torch.cuda.is_current_stream_capturing = before
