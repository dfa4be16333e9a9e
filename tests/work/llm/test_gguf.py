"""Headers of GGUF files: layers by their tensors' names and lists by layer, numbers against the tensors' own."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from rooflab.errors import RooflabError
from rooflab.work.llm import models, precision
from rooflab.work.llm.architecture import Architecture, Experts
from rooflab.work.llm.mixers import Attention, Delta, Latent, ShortConv, StateSpace


def gguf(metadata: dict[str, object], tensors: dict[str, tuple[tuple[int, ...], int]]) -> bytes:
    """A GGUF header with these entries, by ggml's docs/gguf.md."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += text(key)
        if isinstance(value, str):
            out += struct.pack("<I", 8) + text(value)
        elif isinstance(value, list) and isinstance(value[0], str):
            out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(each) for each in value)
        elif isinstance(value, list):  # of true and false (7), or of numbers (5)
            sort, form = (7, "<?") if isinstance(value[0], bool) else (5, "<i")
            out += struct.pack("<IIQ", 9, sort, len(value)) + b"".join(struct.pack(form, each) for each in value)
        else:
            assert isinstance(value, int)
            out += struct.pack("<II", 4, value)
    for name, (shape, sort) in tensors.items():
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", sort, 0)
    return out


METADATA: dict[str, object] = {
    "general.architecture": "llama", "general.name": "tiny", "llama.embedding_length": 64, "llama.block_count": 2,
    "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2, "llama.feed_forward_length": 128,
    "tokenizer.ggml.tokens": ["a", "b", "c"],
}  # fmt: skip
TENSORS = {
    "token_embd.weight": ((64, 3), 12),  # Q4_K
    "output.weight": ((64, 3), 14),  # Q6_K
    "blk.0.ffn_up.weight": ((64, 128), 12),
    "blk.0.ffn_down.weight": ((128, 64), 14),
    "blk.0.attn_q.weight": ((64, 64), 8),  # Q8_0
}


def test_a_gguf_header(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf(METADATA, TENSORS))
    model = models.model(path)
    assert (model.name, model.layers, model.vocabulary, model.tied) == ("tiny", 2, 3, False)
    found = precision.stored(model)
    assert found.linear.bits == (4.5 + 6.5625) / 2  # as many weights in each
    assert found.attention.bits == 8.5
    assert found.head.bits == 6.5625


@pytest.mark.parametrize("cut", [6, 30, 120, 400])
def test_a_cut_gguf_file_is_one_line(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(gguf(METADATA, TENSORS)[:cut])
    with pytest.raises(RooflabError, match=r"cut.gguf: (damaged or )?cut off within its header"):
        models.model(path)


def test_a_gguf_file_of_no_known_architecture(tmp_path: Path) -> None:
    path = tmp_path / "new.gguf"
    path.write_bytes(gguf({**METADATA, "general.architecture": "quen3"}, TENSORS))
    with pytest.raises(RooflabError, match=r"unknown model_type of .*new.gguf 'quen3'; did you mean qwen3"):
        models.model(path)


Shapes = dict[str, tuple[int, ...]]


def read(tmp_path: Path, word: str, metadata: dict[str, object], shapes: Shapes) -> Architecture:
    """The model of a file of this architecture, its tensors of 16 bits, with an embedding of 100 tokens tied."""
    path = tmp_path / f"{word}.gguf"
    named: dict[str, object] = {"general.architecture": word, "general.name": word}
    named |= {
        f"{word}.{key}": value for key, value in {"embedding_length": 64, "vocab_size": 100, **metadata}.items()
    }
    tensors = {"token_embd.weight": (64, 100), "output_norm.weight": (64,), **shapes}
    path.write_bytes(gguf(named, {name: (shape, 1) for name, shape in tensors.items()}))
    return models.model(path)


HEADS: dict[str, object] = {
    "block_count": 2, "attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 16,
    "feed_forward_length": 128,
}  # fmt: skip


def norms(number: int, *names: str) -> Shapes:
    return {f"blk.{number}.{name}_norm.weight": (64,) for name in names}


def attends(number: int) -> Shapes:
    """4 heads of 16, 2 of keys and values."""
    q, kv = (64, 64), (64, 32)
    parts = {"attn_q": q, "attn_k": kv, "attn_v": kv, "attn_output": q}
    return {f"blk.{number}.{name}.weight": shape for name, shape in parts.items()} | norms(number, "attn")


def dense(number: int, inner: int = 128) -> Shapes:
    parts = {"ffn_gate": (64, inner), "ffn_up": (64, inner), "ffn_down": (inner, 64)}
    return {f"blk.{number}.{name}.weight": shape for name, shape in parts.items()} | norms(number, "ffn")


def experts(number: int, count: int, inner: int) -> Shapes:
    parts = {
        "ffn_gate_exps": (64, inner, count), "ffn_up_exps": (64, inner, count), "ffn_gate_inp": (64, count),
        "ffn_down_exps": (inner, 64, count),
    }  # fmt: skip
    return {f"blk.{number}.{name}.weight": shape for name, shape in parts.items()} | norms(number, "ffn")


def test_numbers_are_held_against_the_tensors_own(tmp_path: Path) -> None:
    whole = attends(0) | dense(0) | attends(1) | dense(1)
    model = read(tmp_path, "llama", HEADS, whole)
    assert model.parameters == sum(math.prod(s) for s in whole.values()) + 64 * 100 + 64
    assert model.doubts == ()
    wider = read(tmp_path, "llama", HEADS, whole | {"blk.0.attn_gate.weight": (64, 64), "rope_freqs.weight": (8,)})
    more, read_as = f"{model.parameters + 4096:.5g}", f"{model.parameters:.5g}"
    assert wider.doubts == (
        f"llama: its tensors have {more} numbers, its layers as they are read {read_as}: "
        "weights and time are of these.",
    )
    part = read(tmp_path, "llama", {**HEADS}, attends(0))  # of a file that was split, without the other layer
    assert part.doubts != ()


def test_layers_that_draft_are_no_layers_of_the_model(tmp_path: Path) -> None:
    """llama.cpp counts them among the blocks, and their tensors are in the file."""
    sizes = {**HEADS, "block_count": 3, "nextn_predict_layers": 1, "expert_count": 8, "expert_used_count": 2}
    sizes |= {"expert_feed_forward_length": 32, "leading_dense_block_count": 1}
    tensors = attends(0) | dense(0) | attends(1) | experts(1, 8, 32) | attends(2) | experts(2, 8, 32)
    model = read(tmp_path, "glm4moe", sizes, tensors | {"blk.2.nextn.eh_proj.weight": (128, 64)})
    assert (model.layers, model.draft_layers, model.doubts) == (2, 1, ())
    assert [type(block.feed).__name__ for block in model.blocks] == ["Mlp", "Experts"]


def test_layers_that_convolve_and_layers_that_attend_by_their_tensors(tmp_path: Path) -> None:
    convolves = {
        "blk.0.shortconv.in_proj.weight": (64, 192), "blk.0.shortconv.conv.weight": (3, 64),
        "blk.0.shortconv.out_proj.weight": (64, 64),
    }  # fmt: skip
    q_norm = {"blk.1.attn_q_norm.weight": (16,), "blk.1.attn_k_norm.weight": (16,)}
    sizes = {**HEADS, "attention.head_count_kv": [0, 2], "shortconv.l_cache": 3}
    tensors = convolves | norms(0, "attn") | dense(0) | attends(1) | q_norm | dense(1)
    model = read(tmp_path, "lfm2", sizes, tensors)
    assert [type(block.mixer) for block in model.blocks] == [ShortConv, Attention]
    assert model.blocks[1].mixer.kv_heads == 2  # type: ignore[union-attr]
    assert model.doubts == ()


def test_a_layer_of_nemotron_h_is_what_its_tensors_are(tmp_path: Path) -> None:
    """Mamba-2, attention, experts with a shared one, a dense part: one norm each."""
    mixed = 128 + 2 * 2 * 16
    mamba = {
        "blk.0.ssm_in.weight": (64, 128 + mixed + 8), "blk.0.ssm_conv1d.weight": (4, mixed),
        "blk.0.ssm_conv1d.bias": (mixed,), "blk.0.ssm_a": (1, 8), "blk.0.ssm_d": (1, 8), "blk.0.ssm_dt.bias": (8,),
        "blk.0.ssm_norm.weight": (64, 2), "blk.0.ssm_out.weight": (128, 64), **norms(0, "attn"),
    }  # fmt: skip
    routed = {
        "blk.2.ffn_up_exps.weight": (64, 32, 8), "blk.2.ffn_down_exps.weight": (32, 64, 8),
        "blk.2.ffn_up_shexp.weight": (64, 48), "blk.2.ffn_down_shexp.weight": (48, 64),
        "blk.2.ffn_gate_inp.weight": (64, 8), **norms(2, "attn"),
    }  # fmt: skip
    plain = {"blk.3.ffn_up.weight": (64, 128), "blk.3.ffn_down.weight": (128, 64), **norms(3, "attn")}
    sizes: dict[str, object] = {
        **HEADS, "block_count": 4, "attention.head_count_kv": [0, 2, 0, 0], "feed_forward_length": [0, 0, 0, 128],
        "ssm.inner_size": 128, "ssm.time_step_rank": 8, "ssm.state_size": 16, "ssm.group_count": 2,
        "ssm.conv_kernel": 4, "expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 32,
        "expert_shared_feed_forward_length": 48, "expert_shared_count": 1,
    }  # fmt: skip
    model = read(tmp_path, "nemotron_h_moe", sizes, mamba | attends(1) | routed | plain)
    assert [type(block.mixer).__name__ for block in model.blocks] == [
        "StateSpace",
        "Attention",
        "NoneType",
        "NoneType",
    ]
    assert isinstance(model.blocks[0].mixer, StateSpace)
    assert isinstance(model.blocks[2].feed, Experts)
    assert model.blocks[2].feed.shared == 48
    assert model.doubts == ()


def test_linear_attention_by_its_state_though_its_queries_are_called_as_attention_s(tmp_path: Path) -> None:
    linear = {
        "blk.0.attn_qkv.weight": (64, 2 * 2 * 16 + 64), "blk.0.attn_gate.weight": (64, 64),
        "blk.0.ssm_ba.weight": (64, 8), "blk.0.ssm_conv1d.weight": (4, 128),
        "blk.0.ssm_a": (4,), "blk.0.ssm_dt.bias": (4,), "blk.0.ssm_norm.weight": (16,),
        "blk.0.ssm_out.weight": (64, 64), **norms(0, "attn"),
    }  # fmt: skip
    gated = attends(1) | {"blk.1.attn_q.weight": (64, 128)}
    gated |= {"blk.1.attn_q_norm.weight": (16,), "blk.1.attn_k_norm.weight": (16,)}
    sizes: dict[str, object] = {
        **HEADS, "ssm.inner_size": 64, "ssm.time_step_rank": 4, "ssm.state_size": 16, "ssm.group_count": 2,
        "ssm.conv_kernel": 4, "full_attention_interval": 2,
    }  # fmt: skip
    model = read(tmp_path, "qwen35", sizes, linear | dense(0) | gated | dense(1))
    assert [type(block.mixer) for block in model.blocks] == [Delta, Attention]
    assert model.doubts == ()


def test_latent_attention_beside_linear_attention(tmp_path: Path) -> None:
    """Kimi Linear: 4 heads of 16, keys of 8 + 16 from a latent vector of 32 in the second layer."""
    parts = {"attn_q": 64, "attn_k": 64, "attn_v": 64, "ssm_f_a": 16, "ssm_g_a": 16, "ssm_beta": 4}
    linear = {f"blk.0.{name}.weight": (64, width) for name, width in parts.items()}
    linear |= {
        "blk.0.ssm_f_b.weight": (16, 64),
        "blk.0.ssm_g_b.weight": (16, 64),
        "blk.0.attn_output.weight": (64, 64),
    }
    linear |= {f"blk.0.ssm_conv1d_{name}.weight": (4, 1, 64) for name in "qkv"}
    linear |= {
        "blk.0.ssm_a": (1, 4),
        "blk.0.ssm_dt.bias": (64,),
        "blk.0.ssm_norm.weight": (16,),
        **norms(0, "attn"),
    }
    latent = {
        "blk.1.attn_q.weight": (64, 4 * 24), "blk.1.attn_kv_a_mqa.weight": (64, 40),
        "blk.1.attn_kv_a_norm.weight": (32,), "blk.1.attn_k_b.weight": (16, 32, 4),
        "blk.1.attn_v_b.weight": (32, 16, 4), "blk.1.attn_output.weight": (64, 64), **norms(1, "attn"),
    }  # fmt: skip
    sizes: dict[str, object] = {
        "block_count": 2, "attention.head_count": 4, "attention.head_count_kv": [0, 1], "feed_forward_length": 128,
        "attention.key_length": 40, "attention.key_length_mla": 24, "attention.value_length_mla": 16,
        "attention.kv_lora_rank": 32, "rope.dimension_count": 8, "kda.head_dim": 16, "ssm.conv_kernel": 4,
    }  # fmt: skip
    model = read(tmp_path, "kimi-linear", sizes, linear | dense(0) | latent | dense(1))
    assert [type(block.mixer) for block in model.blocks] == [Delta, Latent]
    assert model.doubts == ()


def test_windows_and_heads_by_layer(tmp_path: Path) -> None:
    """Step 3.5: twice the heads where a window is, a gate of one number a head, all heads normalised."""

    def layer(number: int, heads: int) -> Shapes:
        own = attends(number) | dense(number) | {
            f"blk.{number}.attn_q.weight": (64, heads * 16), f"blk.{number}.attn_output.weight": (heads * 16, 64),
            f"blk.{number}.attn_gate.weight": (64, heads),
        }  # fmt: skip
        return own | {f"blk.{number}.attn_{each}_norm.weight": (16,) for each in "qk"}

    sizes: dict[str, object] = {
        **HEADS, "attention.head_count": [4, 8], "attention.head_count_kv": [2, 2],
        "attention.sliding_window": 512, "attention.sliding_window_pattern": [False, True],
    }  # fmt: skip
    model = read(tmp_path, "step35", {**sizes, "leading_dense_block_count": 2}, layer(0, 4) | layer(1, 8))
    assert [(block.mixer.heads, block.mixer.window) for block in model.blocks] == [(4, 0), (8, 512)]  # type: ignore[union-attr]
    assert model.doubts == ()


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (
            {"attention.head_count_kv": [2]},
            "attention.head_count_kv has 1 entries, expected one for each of 2 layers",
        ),
        (
            {"attention.key_length": [16, 32]},
            "attention.key_length differs by layer .16 to 32., which is not read",
        ),
    ],
)
def test_lists_by_layer_that_cannot_be_read_are_one_line(tmp_path: Path, metadata: dict, said: str) -> None:
    with pytest.raises(RooflabError, match=said) as caught:
        read(tmp_path, "llama", {**HEADS, **metadata}, attends(0))
    assert "\n" not in str(caught.value)


def test_a_tensor_of_an_unknown_type_is_refused_not_taken_for_16_bits(tmp_path: Path) -> None:
    path = tmp_path / "new.gguf"
    path.write_bytes(gguf(METADATA, {**TENSORS, "blk.0.ffn_gate.weight": ((64, 128), 77)}))
    with pytest.raises(RooflabError, match=r"new.gguf: tensor 'blk.0.ffn_gate.weight' is of type 77; types 0, 1"):
        models.model(path)
