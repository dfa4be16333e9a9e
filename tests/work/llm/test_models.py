"""Models by name, config.json, GGUF header, safetensors index: parameters as published, clear errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.work.llm import config, formats, models
from rooflab.work.llm.architecture import Experts
from rooflab.work.llm.mixers import Latent


@pytest.mark.parametrize("name", models.names())
def test_parameters_are_those_that_the_makers_state(name: str) -> None:
    # Stated with three digits or more; Nemotron-4's 340B and Qwen3.5's 397B are rounded.
    assert models.named(name).parameters == pytest.approx(models.shipped()[name]["parameters"], rel=3.2e-3)


def test_active_parameters_of_experts() -> None:
    # DeepSeek-V3: 37B active (arXiv:2412.19437), the head and the table of tokens among them
    assert models.named("deepseek-ai/DeepSeek-R1").active_parameters == pytest.approx(37.5e9, rel=0.01)
    assert models.named("qwen3-235b-a22b").active_parameters == pytest.approx(22.2e9, rel=0.01)


def test_other_names_mean_the_same_model() -> None:
    assert models.named("meta-llama/Llama-3.1-8B-Instruct") == models.named("llama-3.1-8b")
    with pytest.raises(RooflabError, match=r"unknown model 'llama-3.1-9b'; did you mean .*llama-3.1-8b"):
        models.named("llama-3.1-9b")


def test_layers_of_deepseek() -> None:
    model = models.named("deepseek-v3")
    assert [block.count for block in model.blocks] == [3, 58]
    assert model.blocks[1].mixer == Latent(128, 1536, 512, 128, 64, 128)
    assert model.blocks[1].feed == Experts(256, 8, 2048, shared=2048)
    assert model.stored == "fp8_block"


def write_config(folder: Path, **fields: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return path


LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
}  # fmt: skip


def test_a_config_file(tmp_path: Path) -> None:
    model = models.model(write_config(tmp_path, **LLAMA))
    # 2 x (64 x 64 x 2 + 2 x 64 x 32 + 3 x 64 x 128 + 2 x 64) + 2 x 1000 x 64 + 64
    assert model.parameters == 2 * (8192 + 4096 + 24576 + 128) + 128000 + 64
    assert models.model(tmp_path) == model


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({**LLAMA, "model_type": "lama"}, "unknown model_type of .*config.json 'lama'; did you mean llama"),
        ({**LLAMA, "model_type": "zzzz"}, 'write that into the file: "model_type": "llama"'),
        ({"hidden_size": 64}, "no model_type, which says how the layers are built"),
        (
            {k: v for k, v in LLAMA.items() if k != "num_hidden_layers"},
            "no field num_hidden_layers .also called n_l",
        ),
        ({**LLAMA, "vocab_size": -5}, "vocab_size is -5, expected a whole number above 0"),
        (
            {**LLAMA, "num_attention_heads": 5},
            "hidden_size 64 over num_attention_heads 5 leaves a rest: add head_dim",
        ),
        ({**LLAMA, "hidden_size": "wide"}, "hidden_size is 'wide', expected a whole number above 0"),
    ],
)
def test_a_bad_config_is_one_line(tmp_path: Path, fields: dict, words: str) -> None:
    with pytest.raises(RooflabError, match=words) as error:
        models.model(write_config(tmp_path, **fields))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON list, expected the object"),
        (None, "no such file; expected a config.json"),
    ],
)
def test_what_is_no_config(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RooflabError, match=words):
        models.model(path)


def test_a_safetensors_index_needs_its_config(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 404352}, "weight_map": {"a": "b"}}))
    with pytest.raises(RooflabError, match=r"no config\.json beside it"):
        models.model(path)
    write_config(tmp_path, **LLAMA)
    assert models.model(path).hidden == 64
    path.write_text(json.dumps({"metadata": {"total_size": 40}, "weight_map": {"a": "b"}}))
    with pytest.raises(RooflabError, match="do the two belong together"):
        models.model(path)


def test_formats() -> None:
    assert formats.weight_format("Q4_K_M").nbytes == pytest.approx(4.8944 / 8)
    assert formats.weight_format("mxfp4").bits == 4 + 8 / 32
    assert formats.weight_format("nvfp4").bits == 4 + 8 / 16
    with pytest.raises(RooflabError, match="unknown weight format 'fp5'"):
        formats.weight_format("fp5")
    with pytest.raises(UnknownNameError):  # no letters behind a known name but the sizes of mixtures
        formats.weight_format("q4_k_mm")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"vocab_size": 9, "num_hidden_layers": 2, "num_attention_heads": 4},
            r'its num_attention_heads, .*"llama" is',
        ),
        ({"vocab_size": 9, "kv_lora_rank": 4}, r'its kv_lora_rank, .*"deepseek_v3" is nearest'),
        ({"vocab_size": 9, "num_local_experts": 4}, r'its num_local_experts, .*"mixtral" is nearest'),
        ({"projection_dim": 9}, "neither vocab_size nor num_hidden_layers are there"),
    ],
)
def test_an_unknown_architecture_is_likened_by_its_fields(tmp_path, fields, said):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "zork", **fields}))
    with pytest.raises(UnknownNameError, match=said):
        models.model(str(path))


def test_a_section_of_its_own_keeps_what_is_beside_it_out(tmp_path):
    """A head_dim beside text_config is another part's; 4096 / 32 is the language model's. Sound is left out."""
    text = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32}
    text |= {"intermediate_size": 11008, "vocab_size": 32000}
    whole = {
        "model_type": "flamingo",
        "head_dim": 1280,
        "audio_config": {"num_hidden_layers": 32},
        "text_config": text,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(whole))
    found = models.model(str(path))
    assert found.blocks[0].mixer.size == 128
    assert found.left_out == ("audio_config",)


def test_kinds_of_layers_by_name():
    """As transformers 5 writes them: mlp_layer_types, and layers_block_type with attention's long names."""
    fields = {"hidden_size": 64, "vocab_size": 100, "num_attention_heads": 4, "intermediate_size": 128}
    moe = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1}
    latent = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}
    made = config.architecture(
        {"model_type": "deepseek_v3", "num_hidden_layers": 3, "mlp_layer_types": ["dense", "sparse", "sparse"]}
        | fields | moe | latent, "glm", "here",
    )  # fmt: skip
    assert [(type(block.feed).__name__, block.count) for block in made.blocks] == [("Mlp", 1), ("Experts", 2)]
    mamba = {"mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "conv_kernel": 4, "n_groups": 1}
    kinds = ["linear_attention", "moe", "full_attention", "mlp"]
    made = config.architecture(
        {"model_type": "nemotron_h", "layers_block_type": kinds, "num_key_value_heads": 2, "head_dim": 16}
        | fields | moe | mamba, "nemotron", "here",
    )  # fmt: skip
    assert [type(block.mixer or block.feed).__name__ for block in made.blocks] == [
        "StateSpace", "Experts", "Attention", "Mlp"
    ]  # fmt: skip


_PLAIN = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, ""),
        ({"rope_theta": 1e4, "bos_token_id": 1, "rms_norm_eps": 1e-5, "initializer_range": 0.02}, ""),
        ({"num_experts": 0, "use_moe": False, "hidden_act": "silu", "layer_types": ["full_attention"] * 4}, ""),
        ({"altup_num_inputs": 4}, "altup_num_inputs = 4"),
        ({"use_engram_memory": True}, "use_engram_memory = true"),
        ({"num_experts": 8}, "num_experts = 8"),
        ({"layer_types": ["full_attention", "linear_attention"] * 2}, "layer_types linear_attention"),
        ({"memory_config": {"slots": 16}}, "memory_config = {…}"),
    ],
)
def test_fields_that_nobody_reads_are_named(fields: dict, said: str) -> None:
    found = config.architecture(_PLAIN | fields, "x", "config.json").doubts
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_no_shipped_model_has_fields_that_nobody_reads() -> None:
    assert [name for name in models.names() if models.named(name).doubts] == []


@pytest.mark.parametrize(
    ("asked", "called"),
    [("deepseek-r1", "deepseek-r1"), ("DeepSeek-R1", "deepseek-r1"), ("deepseek-v3", "deepseek-v3")],
)
def test_a_model_is_called_as_it_was_asked_for(asked: str, called: str) -> None:
    assert models.model(asked).name == called
    assert models.model(asked).parameters == models.named("deepseek-v3").parameters


@pytest.mark.parametrize(
    ("fields", "windows"),
    [
        ({"sliding_window": 8, "sliding_window_pattern": "LLG"}, {8: 3, 0: 1}),
        ({"sliding_window": 8, "sliding_window_pattern": 2}, {8: 2, 0: 2}),
        ({"attention_chunk_size": 16}, {16: 3, 0: 1}),
        ({"attention_chunk_size": 16, "no_rope_layers": [1, 0, 1, 0]}, {16: 2, 0: 2}),
    ],
)
def test_layers_with_a_window_by_a_pattern_or_in_chunks(fields: dict, windows: dict) -> None:
    blocks = config.architecture(_PLAIN | fields, "x", "config.json").blocks
    assert {block.mixer.window: block.count for block in blocks} == windows


def test_a_model_that_gives_no_text_is_refused_as_one(tmp_path: Path) -> None:
    fields = _PLAIN | {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    with pytest.raises(RooflabError, match=r"model_type bert, BertForMaskedLM: gives no text token by token"):
        config.architecture(fields, "x", "config.json")
    with pytest.raises(UnknownNameError, match="bart"):
        config.architecture(fields | {"architectures": ["BertLMHeadModel"]}, "x", "config.json")


def test_kinds_of_fewer_layers_than_there_are_are_refused() -> None:
    with pytest.raises(RooflabError, match="layer_types has 2 entries, expected one for each of 4 layers"):
        config.architecture(
            _PLAIN | {"sliding_window": 8, "layer_types": ["full_attention"] * 2}, "x", "config.json"
        )


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"model_type": "mimo_v2_flash", "sliding_window": 8, "hybrid_layer_pattern": [1, 0]},
         "hybrid_layer_pattern"),
        ({"model_type": "gpt_neo", "attention_layers": ["global", "local"]}, "attention_layers"),
        ({"model_type": "llama4", "attention_chunk_size": 8, "no_rope_layers": [1, 1],
          "intermediate_size_mlp": 64, "num_local_experts": 4, "num_experts_per_tok": 1}, "no_rope_layers"),
        ({"model_type": "dots1", "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
          "moe_layer_freq": [0, 1]}, "moe_layer_freq"),
        ({"model_type": "deci", "num_key_value_heads_per_layer": [2, 1]}, "num_key_value_heads_per_layer"),
    ],
)  # fmt: skip
def test_any_list_by_layer_that_ends_early_is_refused(fields: dict, name: str) -> None:
    with pytest.raises(RooflabError, match=f"{name} has 2 entries, expected one for each of 4 layers"):
        config.architecture(_PLAIN | {"intermediate_size": 128} | fields, "x", "config.json")


def nas(*layers_: dict) -> dict:
    return {
        "model_type": "nemotron-nas", "hidden_size": 8192, "num_attention_heads": 64, "vocab_size": 128256,
        "num_hidden_layers": len(layers_), "intermediate_size": None, "num_key_value_heads": None,
        "block_configs": list(layers_),
    }  # fmt: skip


def test_layers_that_a_search_chose_have_sizes_of_their_own():
    whole = {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}}
    none = {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 1.3125}}
    model = config.architecture(nas(whole, none, none), "nas", "config.json")
    first, others = model.blocks
    assert first.mixer is not None
    # 2/3 of 5.25 times 8192 is 28,672 as Llama 70B's; of 1.3125, 7,168.
    assert (first.count, first.mixer.kv_heads, first.feed.inner) == (1, 8, 28672)
    assert (others.count, others.mixer, others.feed.inner) == (2, None, 7168)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (
            {"ffn": {"ffn_mult": 2}},
            "block_configs has no attention of layer 0, expected one",
        ),
        (
            {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": -1}},
            "ffn_mult is -1, expected a number",
        ),
        ({"attention": {"replace_with_linear": True}, "ffn": {"ffn_mult": 1}}, "replaced with one product"),
    ],
)
def test_a_layer_that_no_search_describes_is_refused(layer, said):
    with pytest.raises(RooflabError, match=said):
        config.architecture(nas(layer), "nas", "config.json")


def test_heads_of_keys_and_values_may_be_listed_by_layer():
    deci = {**LLAMA, "model_type": "deci", "num_hidden_layers": 2, "num_key_value_heads_per_layer": [4, 1]}
    deci.pop("num_key_value_heads", None)
    made = config.architecture(deci, "deci", "config.json")
    assert [each.mixer.kv_heads for each in made.blocks] == [4, 1]


def test_a_tower_s_sizes_by_other_names_count_and_without_any_it_is_refused():
    whole = {**LLAMA, "vision_config": {"layers": 3, "width": 128, "mlp_ratio": 2.0, "patch_size": 14}}
    tower = config.architecture(whole, "vl", "config.json").tower
    assert (tower.hidden, tower.blocks[0].count, tower.blocks[0].feed.inner) == (128, 3, 256)
    with pytest.raises(RooflabError, match="vision_config: no field hidden_size"):
        config.architecture({**LLAMA, "vision_config": {"patch_size": 14}}, "vl", "config.json")


def test_an_encoder_of_sound_that_is_not_read_is_named():
    whole = {**LLAMA, "audio_processor": {"config": {"num_blocks": 24}}}
    assert config.architecture(whole, "mm", "config.json").left_out == ("audio_processor",)


def test_a_tower_without_a_number_of_layers_is_named_not_guessed():
    """As Gemma 3n's files: convolutions by the name of another library's model, sound by its type alone."""
    fields = _PLAIN | {
        "intermediate_size": 128,
        "vision_config": {"model_type": "timm_x", "hidden_size": 32, "architecture": "m"},
        "audio_config": {"model_type": "some_audio", "hidden_size": 16},
    }  # fmt: skip
    model = config.architecture(fields, "x", "config.json")
    assert (model.tower, model.left_out) == (None, ("audio_config", "vision_config"))
    assert "audio_config, vision_config are not read" in model.notes()[0]
    deep = fields | {"vision_config": {"hidden_size": 32, "num_hidden_layers": 3}}
    model = config.architecture(deep, "x", "config.json")
    assert model.tower is not None
    assert (model.tower.blocks[0].count, model.left_out) == (3, ("audio_config",))


@pytest.mark.parametrize(("file", "called"), [("config.json", "tiny-model"), ("variant.json", "variant")])
def test_a_config_without_a_name_is_called_by_its_folder_or_its_own_name(tmp_path: Path, file: str, called: str):
    path = tmp_path / "tiny-model" / file
    path.parent.mkdir()
    path.write_text(json.dumps(_PLAIN | {"intermediate_size": 128}), encoding="utf-8")
    assert config.read_config(path).name == called


STEP = {
    "model_type": "step3p5", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "vocab_size": 100, "intermediate_size": 128, "moe_num_experts": 8, "moe_top_k": 2, "moe_intermediate_size": 32,
    "share_expert_dim": 48,
}  # fmt: skip


def test_layers_with_experts_by_their_numbers() -> None:
    kinds = ["Mlp", "Mlp", "Experts", "Experts"]
    for named in ("2,3", "2, 3", [2, 3]):
        made = config.architecture({**STEP, "moe_layers_enum": named}, "step", "config.json")
        assert [type(b.feed).__name__ for b in made.blocks for _ in range(b.count)] == kinds
    made = config.architecture(STEP, "step", "config.json")
    assert [(type(b.feed).__name__, b.count) for b in made.blocks] == [("Mlp", 3), ("Experts", 1)]
    for bad in ("2,x", 3, ["a"], "2,,3"):
        with pytest.raises(RooflabError, match=r"config.json: moe_layers_enum is .*, expected numbers of layers"):
            config.architecture({**STEP, "moe_layers_enum": bad}, "step", "config.json")
