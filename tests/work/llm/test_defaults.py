"""Fields that a section of a configuration leaves out: what its class fills in, and that a reader is told so."""

from __future__ import annotations

import json

import pytest

from rooflab.errors import RooflabError
from rooflab.work.llm import config, defaults
from rooflab.work.llm.mixers import Attention

# As files of models with a tower are published: the section says its type and what differs from its class.
GEMMA = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "mm_tokens_per_image": 256,
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                    "num_hidden_layers": 34, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "num_attention_heads": 16,
                      "model_type": "siglip_vision_model", "num_hidden_layers": 27, "patch_size": 14},
}  # fmt: skip


def test_a_section_means_what_its_class_fills_in() -> None:
    model = config.architecture(GEMMA, "gemma", "config.json")
    # Gemma3TextConfig: 8 heads and 4 of keys and values of 256, 262,208 tokens; the head shares the table.
    attention = 2560 * 256 * (8 + 2 * 4) + 8 * 256 * 2560 + 2 * 256
    layer = attention + 3 * 2560 * 10240 + 4 * 2560
    tower = model.tower.parameters() if model.tower else 0
    assert model.parameters - tower == 34 * layer + 262208 * 2560 + 2560
    sliding = [each.count for each in model.blocks if isinstance(each.mixer, Attention) and each.mixer.window]
    assert sliding == [29]  # all but each sixth of 34
    assert "text_config leaves out vocab_size 262208, num_attention_heads 8, " in model.notes()[0]
    assert model.notes()[0].endswith("as transformers' class of gemma3_text fills them in.")
    assert model.said() == ()  # it is in the numbers


def test_a_tower_s_patches_are_averaged_to_the_tokens_that_the_model_takes() -> None:
    tower = config.architecture(GEMMA, "gemma", "config.json").tower
    assert tower is not None
    assert tower.merge == (896 // 14) ** 2 // 256 == 16
    block = 4 * (1152 * 1152 + 1152) + 2 * 1152 * 4304 + 4304 + 1152 + 2 * 2 * 1152
    parts = 27 * block + 2 * 1152 + 3 * 14 * 14 * 1152 + 64 * 64 * 1152 + 1152 * 2560
    assert tower.parameters() == parts


def test_a_section_without_a_type_is_of_the_type_that_the_whole_gives_it() -> None:
    llava = {
        "model_type": "llava", "text_config": {"vocab_size": 32064, "max_position_embeddings": 4096},
        "vision_config": {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
                          "num_hidden_layers": 24, "image_size": 336, "patch_size": 14},
    }  # fmt: skip
    model = config.architecture(llava, "llava", "config.json")
    layer = 4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096  # LlamaConfig: the 7B's sizes
    assert model.tower is not None
    assert model.parameters - model.tower.parameters() == 32 * layer + 2 * 32064 * 4096 + 4096
    assert model.tower.project == (1024, 4096, 4096)
    assert model.tower.positions == 24 * 24 + 1


def test_heads_of_keys_and_values_are_the_class_s_own_not_as_many_as_queries() -> None:
    inside = {"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "sliding_window": None}
    made = config.architecture({"model_type": "llava", "text_config": inside}, "pixtral", "config.json")
    mixer = made.blocks[0].mixer
    assert isinstance(mixer, Attention)
    assert (mixer.heads, mixer.kv_heads, mixer.size, mixer.window) == (
        32,
        8,
        160,
        0,
    )  # null stands there: no window
    assert (
        defaults.left_out({"text_config": {**inside, "n_head": 40}}, "text_config").get("num_attention_heads")
        is None
    )


def test_what_stands_beside_the_section_is_not_overruled() -> None:
    outer = {"model_type": "llava", "vocab_size": 40000, "text_config": {"model_type": "llama"}}
    assert config.architecture(outer, "llava", "config.json").vocabulary == 40000


def test_a_file_of_one_part_must_state_its_sizes() -> None:
    with pytest.raises(RooflabError, match="no field num_attention_heads"):
        config.architecture({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1}, "x", "config.json")


def test_a_section_of_an_unknown_type_is_filled_by_nothing() -> None:
    assert defaults.left_out({"model_type": "new", "text_config": {"model_type": "newer"}}, "text_config") == {}
    assert defaults.left_out({"model_type": "llava"}, "text_config") == {}


def test_a_model_that_speaks_is_the_part_that_gives_text_and_names_the_others(tmp_path) -> None:
    text = {"model_type": "qwen2_5_omni_text", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000}  # fmt: skip
    thinker = {"model_type": "qwen2_5_omni_thinker", "text_config": text}
    whole = {"model_type": "qwen2_5_omni", "thinker_config": thinker,
             "talker_config": {"num_hidden_layers": 3}}  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(whole), encoding="utf-8")
    model = config.read_config(path)
    assert model.layers == 2
    assert model.left_out == ("talker_config",)


def test_drafting_layers_stated_as_none_are_none() -> None:
    llama = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
             "intermediate_size": 128, "vocab_size": 100, "num_nextn_predict_layers": 0}  # fmt: skip
    assert config.architecture(llama, "x", "config.json").draft_layers == 0
