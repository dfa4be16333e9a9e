"""What PyTorch's choice of an attention kernel looks at, read off the tensors and settings of a call."""

from __future__ import annotations

import functools
from typing import Any

import torch

from rooflab.work.attention_kernels import AttentionCall, AttentionMask, architectures, choose
from rooflab.work.capture.torch.tensors import dtype_name

_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def call_of(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    gqa: bool = True,
) -> AttentionCall:
    """A call of scaled_dot_product_attention as its choice of a kernel sees it."""
    three = (query, key, value)
    grads = torch.is_grad_enabled()
    dtypes = {dtype_name(one.dtype) for one in three}
    return AttentionCall(
        shapes=(tuple(query.shape), tuple(key.shape), tuple(value.shape)),
        dtype=dtypes.pop() if len(dtypes) == 1 else None,
        last_strides=(query.stride(-1), key.stride(-1), value.stride(-1)),
        offset_bytes=tuple(one.storage_offset() * one.element_size() for one in three),  # type: ignore[arg-type]
        mask=None if mask is None else AttentionMask(mask.dim(), mask.stride(-1), grads and mask.requires_grad),
        gradient=grads and any(one.requires_grad for one in three),
        dropout=dropout,
        causal=causal,
        gqa=gqa,
        off=_off(),
        deterministic=torch.are_deterministic_algorithms_enabled()
        and not torch.is_deterministic_algorithms_warn_only_enabled(),
        torch=_VERSION[:2],  # type: ignore[arg-type]
    )


def _off() -> frozenset[str]:
    backends = torch.backends.cuda
    left_on = {
        "flash": backends.flash_sdp_enabled(),
        "efficient": backends.mem_efficient_sdp_enabled(),
        "cudnn": backends.cudnn_sdp_enabled(),
        "math": backends.math_sdp_enabled(),
    }
    return frozenset(name for name, on in left_on.items() if not on)


@functools.lru_cache(maxsize=1024)
def kernels(call: AttentionCall) -> tuple[tuple[str, str], ...]:
    """(architecture, kernel) for those architectures on which some kernel takes `call`."""
    chosen = ((architecture, choose(call, architecture).name) for architecture in architectures())
    return tuple((architecture, name) for architecture, name in chosen if name is not None)


@functools.lru_cache(maxsize=1024)
def why_math(call: AttentionCall) -> str | None:
    """Why no fused kernel takes `call` on any GPU of NVIDIA's since Ampere; None where one does."""
    chosen = [
        choose(call, architecture) for architecture in architectures() if architecture not in ("sm70", "rocm")
    ]
    if any(one.name != "math" for one in chosen):
        return None
    # Of all reasons that of the memory-efficient kernel, which takes most.
    return f"the memory-efficient kernel {dict(chosen[-1].refused).get('efficient', 'is not asked')}"
