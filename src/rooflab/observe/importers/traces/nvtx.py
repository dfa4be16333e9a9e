"""Texts of NVTX ranges: PyTorch's operators, as `torch.autograd.profiler.emit_nvtx` names them."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from rooflab.types.trace import NONE, Signature

# "aten::addmm, seq = 12, op_id = 34, sizes = [[8], [4, 2], [2, 8]], input_op_ids = [(33, 0)]": each part only
# where it is known (getNvtxStr of PyTorch's torch/csrc/profiler/util.cpp).
_OPERATOR = re.compile(
    r"(?P<name>[^,]+?)(?:, seq = (?P<seq>\d{1,18}))?(?:, op_id = (?P<op>\d{1,18}))?"
    r"(?:, sizes = (?P<sizes>\[[\d\[\], -]*\]))?(?:, input_op_ids = .*)?",
    re.DOTALL,
)
_SIZES = msgspec.json.Decoder(tuple[tuple[int, ...], ...])
# Stands for the number format of an argument, which is not in the text.
_UNRECORDED = "unrecorded"


class Operator(NamedTuple):
    """An operator that a range is of."""

    name: str
    sequence: int
    signature: Signature


def operator(text: str) -> Operator | None:
    """The operator that `text` names; None for what is no text of emit_nvtx's."""
    if " = " not in text:
        return None
    found = _OPERATOR.fullmatch(text)
    if found is None or not (found["seq"] or found["op"] or found["sizes"]):
        return None
    sequence = NONE if found["seq"] is None else int(found["seq"])
    return Operator(found["name"], sequence, _signature(found["sizes"]))


def _signature(text: str | None) -> Signature:
    try:
        sizes = _SIZES.decode(text) if text else ()
    except msgspec.DecodeError:
        return Signature()
    return Signature(shapes=sizes, dtypes=(_UNRECORDED,) * len(sizes))
