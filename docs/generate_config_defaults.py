"""Write what transformers' configuration classes fill in where a section of a config.json leaves a field out.

Files of models with several parts write of each section only what differs from its class. Run, with transformers
installed: python docs/generate_config_defaults.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rooflab.work.llm.defaults import word as spelt
from rooflab.work.llm.families import ALIASES, FAMILIES
from rooflab.work.llm.unread import inert

TABLE = Path(__file__).parents[1] / "src" / "rooflab" / "work" / "llm" / "defaults.toml"
SECTIONS = ("text_config", "vision_config", "llm_config", "language_config")
_READ_WORDS = ("hidden_act", "feed_forward_proj", "position_embedding_type")  # fields of words that are read
_READ_NUMBERS = (
    "head_dim", "num_attention_heads", "num_key_value_heads", "use_sliding_window", "max_window_layers",
    "moe_intermediate_size", "intermediate_size_mlp", "use_qk_norm", "expand", "nope_layer_interval",
    "no_rope_layer_interval", "num_decoder_layers",
)  # fmt: skip
_NEVER = ("tie_word_embeddings", "chunk_size_feed_forward", "image_size", "do_pooling", "vision_use_head")
HEAD = """\
# What a section of a model's config.json means where it leaves a field out: its class's own value. Files of models
# with several parts write of each section only what differs. `parts` are the types of the sections of a file's
# model_type, where they do not say; `fields` the values by a section's model_type.
# Made by docs/generate_config_defaults.py from the classes; the last line of this comment says of which version.
# transformers {version}, models/*/configuration_*.py, github.com/huggingface/transformers, Apache-2.0
"""


def declared(kind: type) -> dict[str, Any]:
    """The values that class `kind` declares for fields that may be read; none for those worked out from others."""
    found = {}
    for field in dataclasses.fields(kind):
        value = field.default
        sort = isinstance(value, (bool, int)) or field.name in _READ_WORDS
        if not sort or value is None or value is dataclasses.MISSING or field.name.startswith("_"):
            continue
        if field.name in _NEVER or (inert(field.name) and field.name not in (*_READ_NUMBERS, *_READ_WORDS)):
            continue
        found[field.name] = value
    return found


def sections() -> Iterator[tuple[str, dict[str, type]]]:
    """Each model_type with sections whose language model is known here, with the classes of its sections."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    known = {*FAMILIES, *ALIASES}
    for word in sorted(CONFIG_MAPPING.keys()):
        try:
            made = CONFIG_MAPPING[word]()
        except (
            ValueError,
            TypeError,
            AttributeError,
            ImportError,
            StrictDataclassError,
        ) as error:
            print(f"{word}: left out: {type(error).__name__}")
            continue
        parts = {name: type(part) for name in SECTIONS if (part := getattr(made, name, None)) is not None}
        language = [part for name, part in parts.items() if name != "vision_config"]
        if any(spelt(part.model_type) in known for part in language):
            yield word, parts


def text() -> str:
    """The table as TOML."""
    import transformers

    parts: list[str] = []
    fields: dict[str, dict[str, Any]] = {}
    for word, kinds in sections():
        named = {name: spelt(kind.model_type) for name, kind in kinds.items()}
        inside = ", ".join(f'{name} = "{kind}"' for name, kind in named.items())
        parts.append(f"{spelt(word)} = {{ {inside} }}")
        fields |= {spelt(kind.model_type): declared(kind) for kind in kinds.values()}
    lines = [HEAD.format(version=transformers.__version__), "[parts]", *dict.fromkeys(parts), "", "[fields]"]
    for kind, values in sorted(fields.items()):
        inside = ", ".join(f"{name} = {_value(value)}" for name, value in values.items())
        lines.append(f"{kind} = {{ {inside} }}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":
    TABLE.write_text(text(), encoding="utf-8")
    print(f"wrote {TABLE}")
