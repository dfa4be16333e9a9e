"""Which thread blocks write latent vectors into the cache, where an engine's kernel is known."""

from __future__ import annotations

import numpy as np

from rooflab.model.serving.batch import Number


def tensorrt_blocks(
    tokens: Number, sequences: Number, heads: Number, *, decode: bool, narrow: bool
) -> tuple[Number, float]:
    """Thread blocks, and threads of each, of TensorRT-LLM's kernel that turns q and writes latent vectors.

    A block has 32 tokens of one head, of one sequence of so many new `tokens` or, in decoding, of all together
    (one sequence then). The vectors count as eight heads; single tokens have one more for their positions, and
    eight for each head whose q an 8-bit cache wants `narrow` (NVIDIA/TensorRT-LLM, kernels/mlaKernels.cu:
    invokeMLARopeContext, invokeMLARopeGeneration).
    """
    of_tokens = heads * (9.0 if narrow else 1.0) + 9.0 if decode else heads + 8.0
    return sequences * np.ceil(tokens / _TOKENS) * of_tokens, _THREADS


_TOKENS = 32.0
_THREADS = 256.0
