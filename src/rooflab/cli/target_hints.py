"""What to write instead, where the target of `analyze` is the name of a model, a constructor or a file alone."""

from __future__ import annotations

import ast
import os
import re

from rooflab.errors import near_matches

FORMS = (
    "expected FILE.py:NAME, package.module:NAME, a file that ends in .onnx, .gguf or .json, or the name of a "
    "shipped model"
)
# "gpt2", "meta-llama/Llama-3.1-8B": as models are named on the Hugging Face hub.
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def names_no_function(text: str) -> str:
    """The refusal of a target without a function's name, with the form that fits what it looks like."""
    refused = f"{text!r} names no function, {FORMS}"
    if os.path.isfile(text) and text.endswith(".py"):
        names = _functions(text)
        return f"{refused}; {f'such as {text}:{names[0]}' if names else 'and it defines no function'}"
    if os.path.exists(text) or text.endswith(".py") or not _HUB_NAME.fullmatch(text):
        return refused
    from rooflab.work.llm import models

    near = near_matches(text.rpartition("/")[2], models.names())
    if near:
        refused += f"; did you mean {', '.join(near)}?"
    return (
        f"{refused}; a model of Hugging Face is given by a function in a file of yours: def model(batch=1): with"
        " torch.device('meta'): return"
        f" AutoModelForCausalLM.from_config(AutoConfig.from_pretrained({text!r})), torch.zeros(batch, 128,"
        " dtype=torch.long); see docs/tutorials/what-will-limit-my-model.md"
    )


def builds_a_model(place: str, name: str, made: str) -> str:
    """What to write where `name` of `place` returns a `made` without inputs."""
    module = place if not place.endswith(".py") else os.path.basename(place).removesuffix(".py")
    return (
        f"a target gives the inputs too, from a file of yours: from {module} import {name}; def model(): with"
        f" torch.device('meta'): return {name}(), torch.empty(…) with the shape that {made} takes"
    )


def _functions(path: str) -> list[str]:
    """Functions that `path` defines and that need no argument, in order."""
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read()).body
    except (SyntaxError, ValueError, OSError):  # what is wrong with the file is said where it is imported
        return []
    return [
        one.name
        for one in body
        if isinstance(one, ast.FunctionDef)
        and not one.name.startswith("_")
        and len(one.args.args) <= len(one.args.defaults)
        and not any(default is None for default in one.args.kw_defaults)
    ]
