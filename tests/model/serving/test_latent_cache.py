"""Thread blocks that write latent vectors, counted as TensorRT-LLM launches them."""

from __future__ import annotations

from rooflab.model.serving.latent_cache import tensorrt_blocks


def test_prompts_have_a_block_for_32_tokens_of_each_head_of_each_sequence() -> None:
    # 33 tokens are two blocks; 16 heads and the vectors, which count as 8; 4 sequences.
    assert tensorrt_blocks(33, 4, 16, decode=False, narrow=False) == (4 * 2 * 24, 256.0)


def test_single_tokens_of_all_sequences_share_blocks() -> None:
    # 64 tokens are two blocks; 16 heads, 8 for the vectors, 1 for the positions.
    assert tensorrt_blocks(64, 1, 16, decode=True, narrow=False) == (2 * 25, 256.0)


def test_an_8_bit_cache_wants_eight_more_blocks_for_each_heads_q() -> None:
    assert tensorrt_blocks(64, 1, 16, decode=True, narrow=True) == (2 * (25 + 8 * 16), 256.0)
