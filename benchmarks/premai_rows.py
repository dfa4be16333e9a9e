"""premAI's comparison of engines on an A100, as cases of `serving.py`, and why others of its rows are none."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from measured import LeftOut
from serving_rows import ServingCase, step_of, table

from rooflab.model.parallel.layout import Layout

_PREMAI = {
    "vllm": "vllm-0", "transformers (pytorch)": "transformers-4", "AutoGPTQ": "transformers-4",
    "PyTorch Lightning": "transformers", "llama.cpp": "llama.cpp", "ctransformers": "llama.cpp",
    "exllamav2": "exllamav2", "ctranslate": "exllamav2", "DeepSpeed": "vllm-0", "Optimum Nvidia": "tensorrt-llm-0",
}  # fmt: skip
# Why others are not answered, by that repository's own scripts (bench_*/bench.py) and these engines' sources.
_PREMAI_NOT = {
    "Nvidia TensorRT-LLM": "counts all places of a padded result: faster than its weights can be read",
    "onnx": "no cache: each token computes all before it again, by ONNX Runtime's kernels, which no table has",
    "AutoAWQ": "Python modules of its own around each kernel, whose time on the host nobody states",
}
_PREMAI_FORM_NOT = {
    ("ctranslate", "int8"): "cuBLAS's 8-bit product of a single row, scaled before and after: no table has it",
    ("Optimum Nvidia", "float16"): "as fast as its row in 32 bits within 0.4 %: one of them is not what it says",
}
# llama-cpp-python copies all logits into a list and from it into an array (Llama.eval, spring 2024), 1.0 ms
# for 32,000 on a Zen 4, and turns all tokens of the answer into text again at each of them.
_BINDING_S = 2e-3
_BITSANDBYTES = {"int8": "bnb_int8", "int4": "bnb_nf4"}
_PREMAI_FORMATS = {
    "llama.cpp": {"int8": "q8_0", "int4": "q4_k"},
    "ctransformers": {"int8": "q8_0", "int4": "q4_k"},
    "vllm": {"int4": "int4_wo"},
    "exllamav2": {"int8": "exl2_8", "int4": "exl2_4"},
    "transformers (pytorch)": _BITSANDBYTES,
    "PyTorch Lightning": _BITSANDBYTES,
}


def premai(path: Path) -> Iterator[ServingCase | LeftOut]:
    """`serve_premai_engines_a100`: one sequence of 512 tokens after a short question on an A100.

    vLLM's "float32" sets an attribute that nothing reads: 16 bits, as its two rows agree within 0.1 %. AutoGPTQ's
    wide rows are transformers' model as it is (4.39, bench_pytorch/requirements.txt); Lightning's is PyTorch run
    eagerly too. CTranslate2 launches cuBLAS's products and kernels of its own from C++ as ExLlamaV2 does;
    DeepSpeed's ragged kernels join what vLLM's do (deepspeed/inference/v2), without graphs; Optimum's are
    TensorRT-LLM's, launched from C++.
    """
    for row in table(path):
        engine, dtype = row["framework"], row["dtype"]
        word = _PREMAI_FORMATS.get(engine, {}).get(dtype) or ("fp16" if "16" in dtype else "")
        word = word or ("fp16" if engine == "vllm" and dtype == "float32" else "")
        wide = _PREMAI.get(engine, "").startswith("transformers") or engine in ("ctranslate", "Optimum Nvidia")
        word = word or ("fp32" if wide and dtype == "float32" else "")
        if (engine, dtype) in _PREMAI_FORM_NOT:
            yield LeftOut(path.name, f"{engine} {dtype}: {_PREMAI_FORM_NOT[engine, dtype]}")
        elif engine not in _PREMAI:
            yield LeftOut(path.name, f"{engine}: {_PREMAI_NOT.get(engine, 'no engine of rooflab')}")
        elif not word:
            yield LeftOut(path.name, f"{engine} {dtype}: no format of rooflab")
        elif "llama" not in row["model"].casefold() and "mistral" not in row["model"].casefold():
            yield LeftOut(path.name, f"{row['model']}: not a model of that repository")
        else:
            model = "mistral-7b" if "mistral" in row["model"].casefold() else "llama-2-7b"
            words = (word, word, word, "fp16")
            early = _PREMAI[engine] == "llama.cpp"  # before May 2024: graphs came with pull request 6766
            step = step_of(model, "a100-sxm-80gb", _PREMAI[engine], Layout(), words, flash=not early,
                           joined=not early, graphs=not early and engine != "DeepSpeed")  # fmt: skip
            if engine == "PyTorch Lightning":  # LitGPT's q, k and v are one product (lit_gpt/model.py)
                step = copy.copy(step)
                step.engine = dataclasses.replace(step.engine, joins_projections=True)
            yield ServingCase(
                table="premai", group=f"{model} A100 {engine}", step=step, clients=1.0, prompt=32.0,
                answer=512.0,
                static=True, tpot_s=1.0 / float(row["value"]), outside_s=_BINDING_S * (engine == "llama.cpp"),
            )  # fmt: skip
