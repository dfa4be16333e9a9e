"""Language models as architectures and graphs, from their configuration alone: no weights, no framework."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from rooflab.errors import UnknownNameError
from rooflab.types.work import Graph

# Sizes of a program by the names that `rooflab analyze --dim` takes, with what they are where not given.
SIZES = {"batch": 1, "tokens": 1, "context": 0, "adapters": 0}


def capture(target: str | os.PathLike[str], sizes: Mapping[str, int]) -> Graph:
    """The program of the model that `target` stands for: a name, a config.json, a GGUF file, a safetensors index.

    Args:
        target: see `models.model`.
        sizes: of `SIZES`: sequences, new tokens of each, tokens that the cache holds before, rank of adapters.

    Raises:
        UnknownNameError: another size, or an unknown model.
        RooflabError: a number or a configuration without sense.
    """
    from rooflab.work.llm.graph import graph
    from rooflab.work.llm.models import model

    for name in sizes:
        if name not in SIZES:
            raise UnknownNameError("size of a language model", name, SIZES)
    of = SIZES | dict(sizes)
    described = model(os.fspath(target))
    made = graph(
        described,
        sequences=of["batch"],
        new=of["tokens"],
        before=of["context"],
        adapters=of["adapters"],
    )
    return msgspec.structs.replace(made, unknown=(*made.unknown, *(said.rstrip(".") for said in described.said())))
