"""Libraries' kernels of attention on GPUs: their names, what some do alike, which one is taken for a row."""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device, Number

# Libraries' kernels whose constants may differ (topics `attention_NAME` of a family's data), by the column
# `kernel`; the first is the one that the family's topic `attention` tells of.
KERNELS: tuple[str, ...] = (
    "",
    "vllm_fa_prompts",
    "vllm_fa_decode",
    "fa_prompts",
    "fa_decode",
    "trtllm_prompts",
    "trtllm_decode",
    "trtllm_gen_prompts",
    "trtllm_gen_decode",
    "flashinfer_prompts",
    "flashinfer_decode",
    "triton_prompts",
    "triton_decode",
    "masked_decode",
    "trtllm_narrow_decode",
    "fa2_prompts",
    "fa2_decode",
    "flashinfer_plain_decode",
    "vllm_flashinfer_prompts",
    "vllm_flashinfer_decode",
    "fa_latent_decode",
    "fa_latent_prompts",
    "trtllm_latent_decode",
    "trtllm_latent_prompts",
)
# Which are of one design: the same instructions and loops, by other tiles. What a family does not state of one is
# that of the first of the others that it states.
LIKE: dict[str, tuple[str, ...]] = {
    "fa2_prompts": ("vllm_flashinfer_prompts", "flashinfer_prompts"),
    "flashinfer_prompts": ("vllm_flashinfer_prompts", "fa2_prompts"),
    "vllm_flashinfer_prompts": ("flashinfer_prompts", "fa2_prompts"),
    "flashinfer_decode": ("vllm_flashinfer_decode", "fa2_decode"),
    "vllm_flashinfer_decode": ("flashinfer_decode", "fa2_decode"),
    "trtllm_narrow_decode": ("trtllm_decode",),
    **{f"vllm_fa_{sort}": (f"fa_{sort}",) for sort in ("prompts", "decode")},
    **{f"fa_{sort}": (f"vllm_fa_{sort}",) for sort in ("prompts", "decode")},
}
# Whether rows of all heads of a group share tiles of prompts, where the code tells (FlashInfer's `packed_qo_len`).
PACKS: dict[str, float] = {
    "flashinfer_prompts": 1.0,
    "vllm_flashinfer_prompts": 1.0,
    "fa2_prompts": 0.0,
    "triton_prompts": 0.0,
}
# Whose tiles of one query hold one head where a window slides, and whose keys are split only where a tile holds
# several heads; q and the result are then turned by kernels of their own, but for one head of keys, where that is
# only another view (Dao-AILab/flash-attention, csrc/flash_attn/flash_api.cpp: `seqlenq_ngroups_swapped`).
PACKS_UNLESS_SLIDING = ("fa2_decode", "fa2_prompts")
# Whose tiles are handed out in the order of their places, not the longest first.
UNSORTED = ("fa2_prompts", "fa2_decode", "flashinfer_prompts", "vllm_flashinfer_prompts", "triton_prompts")
# Which a small kernel prepares each time: it finds how many tiles and parts each sequence has (Dao-AILab/
# flash-attention, hopper/flash_prepare_scheduler.cu), where the caller has no plan of it, as vLLM's layer alone.
SEARCHES = ("vllm_fa_prompts", "vllm_fa_decode")
# Whose keys are split by a plan in prompts too, and whose parts' results are then merged by a kernel.
PLANS_PROMPTS = ("flashinfer_prompts", "vllm_flashinfer_prompts", "flashinfer_decode", "vllm_flashinfer_decode")
# Whose tiles walk over the keys before the window too, and mask them, as SGLang calls them (sgl-project/sglang,
# layers/attention/triton_ops/extend_attention.py; FlashInfer's 0.2 prefill.cuh; vLLM's of both skip them).
WALKS_ALL = ("flashinfer_prompts", "triton_prompts")
# Whose products are of 8 bits where the cache holds such numbers: q is cast to them before, by these libraries'
# callers or by a kernel of the layer (FlashAttention 3 and TensorRT-LLM's generated kernels take q, keys and
# values of one format; FlashInfer's, Triton's and FlashAttention 2's multiply 16 bits, and widen keys and values).
_NARROWS = (
    *("vllm_fa_prompts", "vllm_fa_decode", "fa_prompts", "fa_decode"),
    *("trtllm_prompts", "trtllm_gen_prompts", "trtllm_gen_decode"),
)


def narrows(kernel: str, cached_bytes: float) -> bool:
    """Whether that library's kernel multiplies 8-bit numbers beside a cache of so many bytes a number."""
    return cached_bytes < _HALF_BYTES and kernel in _NARROWS


_HALF_BYTES = 2.0


def chosen(
    codes: np.ndarray, group: Number, blocks: Number, keys: Number, item_bytes: Number, device: Device
) -> np.ndarray:
    """The kernel of each row, where a layer has several for single tokens.

    TensorRT-LLM's XQA kernel shares keys and values between the heads of a group of up to 32. Larger ones have the
    masked kernel, which before Blackwell (`masked_below` of the topic `attention_trtllm_decode`) takes ungrouped
    heads, and few `blocks` (sequences times heads of keys) of 16 bits, too (NVIDIA/TensorRT-LLM, kernelUtils.cpp:
    supportConfigHMMA; decoderXQAImplJIT.cpp: mayHavePerfGain). On Hopper 8 bits have an XQA kernel of their own.
    FlashInfer has one without matrix engines, which SGLang takes for groups of fewer than 4 heads and 16 bits
    (flashinfer_backend.py: should_use_tensor_core).
    """
    first, masked, narrow, library, plain = (float(KERNELS.index(each)) for each in _SINGLE_TOKENS)
    if device.constants.specialised("attention", _SINGLE_TOKENS[-1]) is not device.constants:
        codes = np.where((codes == library) & (group < _MATRIX_GROUP) & (item_bytes >= 2.0), plain, codes)
    ours = codes == first
    if not ours.any():
        return codes
    c = device.constants.specialised("attention", _SINGLE_TOKENS[0])
    least = c("attention.masked_below") * device.units
    worth = blocks * np.maximum(np.floor(keys / _SPLIT_KEYS), 1.0) >= least
    eight = item_bytes < 2.0
    grouped = ((group > 1.0) | (least == 0.0)) & (group <= _XQA_GROUP)
    codes = np.where(ours & ~(grouped & (worth | eight)), masked, codes)
    return np.where(ours & grouped & eight & (c("attention.narrow_apart") > 0), narrow, codes)


_SINGLE_TOKENS = (
    *("trtllm_decode", "masked_decode", "trtllm_narrow_decode"),
    *("flashinfer_decode", "flashinfer_plain_decode"),
)
_MATRIX_GROUP = 4.0  # heads of a group from which on FlashInfer's products are the matrix engine's
_SPLIT_KEYS = 128.0  # fewest keys of a part (decoderXQAConstants.h: kMinHistoryTokensPerBlock)
_XQA_GROUP = 32.0  # most heads of a group
