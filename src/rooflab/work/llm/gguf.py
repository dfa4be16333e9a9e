"""The header of a GGUF file as an `Architecture`: its metadata, and how its tensors are stored; no weights read.

Layout by ggml-org/ggml, docs/gguf.md: magic, version, counts, metadata, then name, shape, type and place of each
tensor. Versions 2 and 3.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from rooflab.errors import FileError
from rooflab.work.llm import config
from rooflab.work.llm.architecture import Architecture

_MAGIC = b"GGUF"
_MOST_ENTRIES = 1 << 20  # of metadata or tensors, and _MOST_LENGTH of a string or list: larger ones are damage
_MOST_LENGTH = 1 << 26
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _LIST = 8, 9
# Types of tensors by their numbers (ggml.h): a name of `formats.toml`, bytes of a block, elements of a block.
_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("fp32", 4, 1), 1: ("f16", 2, 1), 2: ("q4_0", 18, 32), 3: ("q4_1", 20, 32), 6: ("q5_0", 22, 32),
    7: ("q5_1", 24, 32), 8: ("q8_0", 34, 32), 10: ("q2_k", 84, 256), 11: ("q3_k", 110, 256),
    12: ("q4_k", 144, 256), 13: ("q5_k", 176, 256), 14: ("q6_k", 210, 256), 16: ("iq2_xxs", 66, 256),
    17: ("iq2_xs", 74, 256), 18: ("iq3_xxs", 98, 256), 19: ("iq1_s", 50, 256), 20: ("iq4_nl", 18, 32),
    21: ("iq3_s", 110, 256), 23: ("iq4_xs", 136, 256), 30: ("bf16", 2, 1), 39: ("mxfp4", 17, 32),
}  # fmt: skip

# `general.architecture` of a file: the model_type whose layers it has.
_ARCHITECTURES = {
    "llama": "llama", "llama4": "llama4", "qwen2": "qwen2", "qwen2moe": "qwen2_moe", "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3", "phi3": "phi3",
    "deepseek2": "deepseek_v2", "gpt-oss": "gpt_oss", "mamba": "mamba", "mamba2": "mamba2", "falcon": "falcon",
    "gptj": "gptj", "gptneox": "gpt_neox", "gpt2": "gpt2", "starcoder2": "starcoder2", "command-r": "cohere",
    "glm4": "glm4", "glm4moe": "glm4_moe", "minimax-m2": "minimax_m2", "nemotron": "nemotron", "olmo2": "olmo2",
    "bloom": "bloom", "stablelm": "stablelm",
}  # fmt: skip
# Fields of a config.json by the metadata that holds them, after the architecture's name.
_FIELDS = {
    "hidden_size": "embedding_length", "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length", "vocab_size": "vocab_size", "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count", "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "n_shared_experts": "expert_shared_count", "first_k_dense_replace": "leading_dense_block_count",
    "sliding_window": "attention.sliding_window", "q_lora_rank": "attention.q_lora_rank",
    "kv_lora_rank": "attention.kv_lora_rank", "state_size": "ssm.state_size", "conv_kernel": "ssm.conv_kernel",
    "time_step_rank": "ssm.time_step_rank", "n_groups": "ssm.group_count",
}  # fmt: skip


def is_mine(path: Path) -> bool:
    """Whether the file begins as a GGUF file does."""
    try:
        with path.open("rb") as file:
            return file.read(4) == _MAGIC
    except OSError:
        return False


def read_gguf(path: Path) -> Architecture:
    """The architecture that a GGUF file's header describes, with the formats of its tensors.

    Raises:
        FileError: it is no GGUF file, is cut off within its header, or is of another version.
        RooflabError: an unknown architecture, or a field that is missing.
    """
    try:
        with path.open("rb") as file:
            metadata, tensors = _header(file, path)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    except (struct.error, UnicodeDecodeError) as error:
        raise FileError(f"{path}: damaged or cut off within its header: {error}") from error
    fields = _config(metadata, tensors, path)
    name = str(metadata.get("general.name") or path.stem)
    made = config.architecture(fields, name, str(path))
    return config.with_formats(made, _formats(tensors))


def _header(file: BinaryIO, path: Path) -> tuple[dict[str, Any], dict[str, tuple[tuple[int, ...], int]]]:
    if file.read(4) != _MAGIC:
        raise FileError(f"{path}: does not begin as a GGUF file does")
    version = _scalar(file, "<I")
    if version not in (2, 3):
        raise FileError(f"{path}: GGUF version {version}; versions 2 and 3 are read")
    count, entries = _scalar(file, "<Q"), _scalar(file, "<Q")
    if max(count, entries) > _MOST_ENTRIES:
        raise FileError(f"{path}: {count} tensors and {entries} entries of metadata: damaged")
    metadata = {}
    for _ in range(entries):
        key = _text(file, path)
        metadata[key] = _value(file, _scalar(file, "<I"), path)
    tensors = {}
    for _ in range(count):
        name = _text(file, path)
        dimensions = _scalar(file, "<I")
        if dimensions > 8:
            raise FileError(f"{path}: tensor {name!r} has {dimensions} dimensions: damaged")
        shape = tuple(_scalar(file, "<Q") for _ in range(dimensions))
        sort = _scalar(file, "<I")
        _scalar(file, "<Q")
        tensors[name] = (shape, sort)
    return metadata, tensors


def _scalar(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _text(file: BinaryIO, path: Path) -> str:
    length = _scalar(file, "<Q")
    if length > _MOST_LENGTH:
        raise FileError(f"{path}: a text of {length} bytes in the header: damaged")
    raw = file.read(length)
    if len(raw) < length:
        raise FileError(f"{path}: cut off within its header")
    return raw.decode()


def _value(file: BinaryIO, sort: int, path: Path) -> Any:
    if sort in _SCALARS:
        return _scalar(file, _SCALARS[sort])
    if sort == _STRING:
        return _text(file, path)
    if sort != _LIST:
        raise FileError(f"{path}: metadata of type {sort}, which GGUF does not have: damaged")
    inner, length = _scalar(file, "<I"), _scalar(file, "<Q")
    if length > _MOST_LENGTH:
        raise FileError(f"{path}: a list of {length} entries in the header: damaged")
    return [_value(file, inner, path) for _ in range(length)]


def _config(
    metadata: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], int]], path: Path
) -> dict[str, Any]:
    """The fields of a config.json that says the same."""
    word = str(metadata.get("general.architecture", ""))
    fields: dict[str, Any] = {}
    for name, key in _FIELDS.items():
        value = metadata.get(f"{word}.{key}")
        if isinstance(value, list):  # by layer: the most is what the sizes of tensors go by
            value = max((each for each in value if isinstance(each, int)), default=None)
        if value:
            fields[name] = value
    if "vocab_size" not in fields and isinstance(metadata.get("tokenizer.ggml.tokens"), list):
        fields["vocab_size"] = len(metadata["tokenizer.ggml.tokens"])
    fields["model_type"] = _ARCHITECTURES.get(word, word)
    if word == "llama" and fields.get("num_experts"):
        fields["model_type"] = "mixtral"
    if word == "gpt-oss":
        fields["intermediate_size"] = fields.get("moe_intermediate_size")
    if word == "llama4":
        fields["intermediate_size_mlp"] = fields.get("intermediate_size")
        fields["intermediate_size"] = fields.get("moe_intermediate_size")
        fields["interleave_moe_layer_step"] = metadata.get("llama4.interleave_moe_layer_step", 1)
    if word == "deepseek2":
        rotary = metadata.get("deepseek2.rope.dimension_count", 64)
        key = metadata.get(
            "deepseek2.attention.key_length_mla", metadata.get("deepseek2.attention.key_length", 192)
        )
        value = metadata.get(
            "deepseek2.attention.value_length_mla", metadata.get("deepseek2.attention.value_length", 128)
        )
        fields |= {"qk_rope_head_dim": rotary, "qk_nope_head_dim": key - rotary, "v_head_dim": value}
    if word in ("mamba", "mamba2"):
        fields["intermediate_size"] = metadata.get(f"{word}.ssm.inner_size")
        fields["expand"] = (metadata.get(f"{word}.ssm.inner_size") or 0) // (
            fields.get("hidden_size") or 1
        ) or None
    fields["tie_word_embeddings"] = bool(tensors) and "output.weight" not in tensors
    return {name: value for name, value in fields.items() if value is not None}


def _formats(tensors: Mapping[str, tuple[tuple[int, ...], int]]) -> dict[str, tuple[str, float]]:
    """By part of the model the format that most of its weights have, and the bits of one in the mean."""
    found: dict[str, dict[int, int]] = {}
    for name, (shape, sort) in tensors.items():
        if len(shape) > 1:
            of = found.setdefault(_part(name), {})
            of[sort] = of.get(sort, 0) + math.prod(shape)
    made = {}
    for part, sorts in found.items():
        known = {sort: count for sort, count in sorts.items() if sort in _TYPES}
        if known and len(known) == len(sorts):
            bits = sum(8 * _TYPES[sort][1] / _TYPES[sort][2] * count for sort, count in known.items())
            most = max(known, key=lambda sort: known[sort])
            made[part] = (_TYPES[most][0], bits / sum(known.values()))
    if "head" not in made and "embedding" in made:
        made["head"] = made["embedding"]
    return made


def _part(name: str) -> str:
    if name.startswith("token_embd"):
        return "embedding"
    if name.startswith("output."):
        return "head"
    if "_exps" in name:
        return "experts"
    return "attention" if "attn" in name or "ssm" in name else "linear"
