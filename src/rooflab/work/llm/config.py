"""Hugging Face's `config.json` as an `Architecture`: which field is what, for each `model_type`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.work.llm import defaults, feeds, layers, quantized, recurrent_layers, unread
from rooflab.work.llm.architecture import Architecture, Block
from rooflab.work.llm.families import ALIASES, FAMILIES, Family
from rooflab.work.llm.fields import Fields
from rooflab.work.llm.towers import encoder_of, relative_of, tower_of

# Sections of the language model, by what makers call them.
_LANGUAGE = ("text_config", "llm_config", "language_config")
_MOST_BYTES = 16 * 2**20  # of a configuration; real ones have under 100 kB


def read_config(path: Path) -> Architecture:
    """The architecture that `path`, a config.json, describes.

    Raises:
        FileError: it cannot be read, or is not a JSON object.
        RooflabError: an unknown `model_type`, or a field that is missing or has no sense.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise FileError(f"{path}: {path.stat().st_size} bytes, expected a model's config.json of a few kB")
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    except ValueError as error:
        raise FileError(f"{path}: not JSON: {error}; expected a model's config.json") from error
    if not isinstance(found, dict):
        raise FileError(f"{path}: a JSON {type(found).__name__}, expected the object of a model's config.json")
    folder = path.parent.name if path.stem == "config" else ""  # what it is of; another name says so itself
    name = str(found.get("_name_or_path") or folder or path.stem)
    return architecture(found, name, str(path))


def architecture(config: Mapping[str, Any], name: str, source: str) -> Architecture:
    """The architecture of a configuration: of its language model, with the towers beside it.

    Args:
        config: the JSON object of a config.json.
        name, source: what the result is called, where it is from.

    Raises:
        RooflabError: an unknown `model_type`, or a field that is missing or has no sense.
    """
    thinker = config.get("thinker_config")  # of models that also speak, the part that gives text (Qwen-Omni)
    if isinstance(thinker, Mapping):
        config = {**{k: v for k, v in config.items() if k != "thinker_config"}, **thinker}
    section = next((each for each in _LANGUAGE if config.get(each)), "")
    filled = defaults.left_out(config, section)
    inner = {**filled, **(config.get(section) or {})}
    # What stands beside the language model's own section is of all, or of another part (a tower's head_dim).
    shared = {k: v for k, v in config.items() if not inner.get("hidden_size") or k in _OF_ALL}
    whole = {**filled, **{k: v for k, v in shared.items() if k not in ("vision_config", "text_config")}}
    whole |= config.get(section) or {}
    fields = Fields(whole, source)
    word, family = _family(config, inner, fields)
    hidden = fields.size("hidden_size")
    each_layer = [
        (layers.mixer_of(family, word, fields, number), feeds.feed_of(family, word, fields, number))
        for number in range(fields.layers() * family.parts)
    ]
    cross = layers.cross_of(family, fields)
    parallel = fields.flag("use_parallel_residual", family.parallel)
    groups: dict[Any, int] = {}
    for each in each_layer:
        groups[each] = groups.get(each, 0) + 1
    norms = layers.norms_of(family, word, fields) + (cross is not None)
    side, side_rows = layers.side_of(word, fields), fields.count("vocab_size_per_layer_input")
    streams, beside = layers.streams_of(family, word, fields), recurrent_layers.beside_of(family, fields)
    blocks = tuple(
        Block(count, mixer, feed, cross, norms, parallel, side, streams, beside)
        for (mixer, feed), count in groups.items()
    )
    positions = fields.size("max_position_embeddings") + family.table if family.table is not None else 0
    tied = fields.flag("tie_word_embeddings", default=bool(config.get("tie_word_embeddings", family.tied)))
    formats, unsure = quantized.stored(config, whole)
    tower = tower_of(config, hidden)
    made = Architecture(
        name=name,
        hidden=hidden,
        vocabulary=fields.size("vocab_size"),
        blocks=blocks,
        tied=tied,
        encoder=encoder_of(family, word, fields),
        tower=tower,
        positions=positions,
        layer_norm=family.layer_norm or fields.get("rmsnorm") is False,
        head_bias=family.head_bias,
        embedding_norm=word == "bloom",
        relative=relative_of(word, fields),
        context=fields.maybe("max_position_embeddings"),
        side_vocabulary=side_rows if side else 0,
        draft_layers=next((n for n in map(fields.count, _DRAFTS) if n), 0),
        left_out=_left_out(config, tower is not None),
        source=source,
        **formats,
    )
    taken = {k: v for k, v in filled.items() if k in fields.asked and whole[k] == v}
    if taken:
        made = dataclasses.replace(made, filled=(_filled(section, defaults.type_of(config, section), taken),))
    found = unread.unread(fields, family.mixer)
    doubts = [f"{name}: {unsure}."] if unsure else []
    if found:
        doubts.append(unread.sentence(name, word, found))
    return dataclasses.replace(made, doubts=tuple(doubts)) if doubts else made


def _filled(section: str, kind: str, taken: Mapping[str, Any]) -> str:
    """What is said of fields that the file's section of a `model_type` leaves out."""
    sizes = {k: v for k, v in taken.items() if isinstance(v, int) and not isinstance(v, bool)}
    values = ", ".join(f"{name} {value}" for name, value in sizes.items()) or "fields"
    return f"{section} leaves out {values}: as transformers' class of {kind} fills them in."


# Words for the layers of multi-token prediction: DeepSeek's, MiniMax's, Qwen's, MiMo's.
_DRAFTS = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "mtp_num_layers")
_OF_ALL = ("tie_word_embeddings", "dtype", "torch_dtype", "quantization_config", "vocab_size", "model_type")
_DEPTHS = ("num_hidden_layers", "encoder_layers", "num_layers", "depth", "resampler_depth")
_READ = ("text_config", "llm_config", "language_config", "vision_config", "quantization_config")


def _left_out(config: Mapping[str, Any], tower: bool) -> tuple[str, ...]:
    """Sections of further parts with layers of their own (of sound, of speech, between two parts), not read.

    `tower`: whether that of images is read.
    """
    return tuple(
        name
        for name, value in sorted(config.items())
        if isinstance(value, Mapping)
        and (
            name == "audio_processor"  # Phi-4-multimodal's encoder of sound
            or (name == "audio_config" and value)  # files may state nothing of it but its type
            or (name == "vision_config" and value and not tower)
            or (name.endswith("_config") and name not in _READ
                and any(value.get(word) for word in (*_DEPTHS, *_LANGUAGE)))
        )
    )  # fmt: skip


def with_formats(model: Architecture, formats: Mapping[str, tuple[str, float]]) -> Architecture:
    """`model` stored as the tensors of a file are: by part the format of most, and the bits of a weight."""
    main = formats.get("linear") or formats.get("attention") or formats.get("experts")
    return dataclasses.replace(
        model,
        stored=main[0] if main else model.stored,
        expert_stored=formats["experts"][0] if "experts" in formats else model.expert_stored,
        formats=tuple((part, word, bits) for part, (word, bits) in formats.items()),
    )


def _family(config: Mapping[str, Any], inner: Mapping[str, Any], fields: Fields) -> tuple[str, Family]:
    word = defaults.word(inner.get("model_type") or config.get("model_type"))
    word = ALIASES.get(word, word)
    if not word:
        raise RooflabError(
            f"{fields.source}: no model_type, which says how the layers are built; add one, such as "
            '"model_type": "llama" for layers of attention and a gated feed-forward part'
        )
    if word not in FAMILIES:
        if none := _generates_none(config):
            raise RooflabError(f"{fields.source}: model_type {word}, {none}")
        like = _like({**config, **inner})
        raise UnknownNameError(f"model_type of {fields.source}", word, [*FAMILIES, *ALIASES], like + _DESCRIBE)
    return word, FAMILIES[word]


# Fields that only some families have, and the family nearest to one with them; the first that is met counts.
_TELLING = (
    (("kv_lora_rank",), "deepseek_v3"),
    (("linear_num_value_heads",), "qwen3_next"),
    (("hybrid_override_pattern",), "nemotron_h"),
    (("mamba_d_state", "attn_layer_period"), "jamba"),
    (("state_size", "ssm_state_size"), "mamba2"),
    (("moe_intermediate_size",), "qwen3_moe"),
    (("num_local_experts", "num_experts", "n_routed_experts"), "mixtral"),
    (("encoder_layers", "decoder_layers"), "bart"),
    (("num_key_value_heads", "num_attention_heads"), "llama"),
)


_GENERATE = ("CausalLM", "ConditionalGeneration", "LMHeadModel", "Seq2SeqLM")


def _generates_none(config: Mapping[str, Any]) -> str:
    """What is said of a model whose classes give no text, by their names; "" where one of them does."""
    names = [str(name) for name in config.get("architectures") or []]
    gives = any(word in name for name in names for word in _GENERATE)
    if gives or not any("For" in name for name in names):
        return ""
    return (
        f"{', '.join(names)}: gives no text token by token, which is what is served here; `rooflab analyze "
        "file.py:model` takes such a model in PyTorch"
    )


def _like(config: Mapping[str, Any]) -> str:
    """Which family a configuration's own fields are most like, in words."""
    if not any(word in config for word in ("vocab_size", "num_hidden_layers", "n_layer")):
        return "(neither vocab_size nor num_hidden_layers are there: is it a language model's?) "
    for fields, family in _TELLING:
        for name in fields:
            if config.get(name):
                return f'(by its {name}, "model_type": "{family}" is nearest) '
    return ""


_DESCRIBE = (
    '(if its layers are those of a known one, write that into the file: "model_type": "llama" is attention with '
    'shared heads and a gated feed-forward part, "mixtral" the same with experts, "deepseek_v3" latent attention '
    "with experts)"
)
