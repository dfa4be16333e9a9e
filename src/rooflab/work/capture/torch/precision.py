"""Which fp32 products PyTorch hands to tensor cores as TF32: its own flags say, when the product runs."""

from __future__ import annotations

import torch

CONVENTION = "fp32 products: TF32 where PyTorch's flags allow it (convolutions and recurrences by default)"
# Kind of operation → the switch that PyTorch has for it.
_SWITCH = {
    "matmul": "matmul",
    "grouped_matmul": "matmul",
    "conv": "conv",
    "conv_backward": "conv",
    "rnn": "rnn",
    "rnn_backward": "rnn",
}
KINDS = frozenset(_SWITCH)


def tf32(kind: str) -> bool:
    """Whether PyTorch would compute fp32 products of `kind` in TF32 now, on an NVIDIA GPU that has it.

    `torch.backends.cuda.matmul.allow_tf32` is off by default, `torch.backends.cudnn.allow_tf32` on:
    https://docs.pytorch.org/docs/stable/notes/cuda.html (TensorFloat-32 on Ampere and later devices).
    A machine without TF32 computes them in fp32.
    """
    switch = _SWITCH[kind]
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    if getter is not None:  # since PyTorch 2.9: one switch per kind, which the older flags set too
        return getter("cuda", switch) == "tf32"
    if switch == "matmul":
        return torch.get_float32_matmul_precision() != "highest"
    return torch.backends.cudnn.allow_tf32
