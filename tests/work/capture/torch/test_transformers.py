"""Models of transformers, built from their configurations without weights: at least 99.5 % of ops have a cost."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs, uncosted  # noqa: E402

IDS = torch.empty(1, 16, dtype=torch.int64, device="meta")
TEXT = {"input_ids": IDS}
SIZES = {"num_hidden_layers": 2}


# name: model, configuration, inputs
MODELS = {
    "bert": ("BertModel", "BertConfig", SIZES, TEXT),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_layer": 2}, TEXT),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**SIZES, "num_key_value_heads": 8}, TEXT),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", SIZES, TEXT),
    "deepseek": ("DeepseekV3ForCausalLM", "DeepseekV3Config", {**SIZES, "first_k_dense_replace": 1}, TEXT),
    "t5": ("T5ForConditionalGeneration", "T5Config", {"num_layers": 2}, {**TEXT, "decoder_input_ids": IDS}),
    "vit": (
        "ViTForImageClassification",
        "ViTConfig",
        SIZES,
        {"pixel_values": torch.empty(1, 3, 224, 224, device="meta")},
    ),
    "whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {"encoder_layers": 2, "decoder_layers": 2},
        {"input_features": torch.empty(1, 80, 3000, device="meta"), "decoder_input_ids": IDS},
    ),
    "mamba": ("MambaForCausalLM", "MambaConfig", SIZES, TEXT),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_operation_of_a_known_model_is_counted(name, backward):
    model, config, sizes, inputs = MODELS[name]
    with torch.device("meta"):
        module = getattr(transformers, model)(getattr(transformers, config)(**sizes)).train(backward)
    with torch.set_grad_enabled(backward):
        graph = capture(module, (), inputs, backward=backward)
    known = costs(graph)
    assert sum(one is not None for one in known) >= 0.995 * len(known), uncosted(graph)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_experts_that_are_not_chosen_do_not_count():
    config = transformers.MixtralConfig(**SIZES)
    with torch.device("meta"):
        module = transformers.MixtralForCausalLM(config)
    with torch.no_grad():
        graph = capture(module, (), TEXT)
    pairs = [(op, cost) for op, cost in zip(graph.ops, costs(graph), strict=True) if op.kind == "grouped_matmul"]
    # 16 tokens to 2 experts each, three products of 4096 × 14336, two layers
    assert sum(cost.total_flop for _, cost in pairs) == 2 * 2 * (16 * 2) * 3 * 4096 * 14336
