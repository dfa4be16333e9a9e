"""A language model by what a user has of it: a name of the shipped list, a config.json, a GGUF file, an index."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from rooflab.errors import FileError, UnknownNameError, squash
from rooflab.work.llm import config
from rooflab.work.llm.architecture import Architecture, Experts

LOOKS_LIKE_A_FILE = (".json", ".gguf", ".safetensors")


@functools.cache
def shipped() -> dict[str, dict[str, Any]]:
    """The shipped list: by name the fields, other names, stated parameters and source of each model."""
    text = (resources.files("rooflab.work.llm") / "models.toml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = tomllib.loads(text)["models"]
    return found


def names() -> tuple[str, ...]:
    """The names of the shipped list."""
    return tuple(shipped())


@functools.cache
def named(name: str) -> Architecture:
    """The model of the shipped list called `name`, or one of its other names.

    Raises:
        UnknownNameError: no such model, with near matches.
    """
    by_word = _by_word()
    found = by_word.get(squash(name)) or by_word.get(squash(name.rpartition("/")[2]))
    if found is None:
        known = [*shipped(), *(each for entry in shipped().values() for each in entry["also"])]
        raise UnknownNameError(
            "model", name, known, "(or the path of a config.json, a GGUF file or a safetensors index)"
        )
    entry = shipped()[found]
    made = config.architecture(entry["config"], found, entry["source"])
    made = replace(made, draft_layers=int(entry.get("draft_layers", made.draft_layers)))
    return _routed(made, float(entry["repeated"])) if "repeated" in entry else made


def _routed(model: Architecture, repeated: float) -> Architecture:
    """`model` with experts that tokens choose alike."""
    blocks = tuple(
        replace(block, feed=replace(block.feed, repeated=repeated)) if isinstance(block.feed, Experts) else block
        for block in model.blocks
    )
    return replace(model, blocks=blocks)


def is_named(name: str) -> bool:
    """Whether `name` is one of the shipped list."""
    return squash(name) in _by_word()


@functools.cache
def _by_word() -> dict[str, str]:
    return {squash(word): name for name, entry in shipped().items() for word in (name, *entry["also"])}


def model(target: str | Path) -> Architecture:
    """The model that `target` stands for: a name, or the path of a file or of a folder with a config.json.

    One of the shipped list is called by the name that was asked for.

    Raises:
        UnknownNameError: no such name, with near matches.
        FileError: a file that cannot be read, or is none of the formats.
        RooflabError: a configuration of an unknown architecture, or with a field that has no sense.
    """
    path = Path(target)
    if path.is_dir():
        return _in_folder(path)
    if path.is_file() or str(target).endswith(LOOKS_LIKE_A_FILE):
        return _in_file(path)
    return replace(named(str(target)), name=_word(str(target)))


def _word(name: str) -> str:
    """The word of the shipped list that `name` is: one of a model's other names where it is one."""
    for entry_name, entry in shipped().items():
        for word in (entry_name, *entry["also"]):
            if squash(word) == squash(name):
                return word
    return _by_word()[squash(name.rpartition("/")[2])]


def _in_folder(path: Path) -> Architecture:
    for pattern in ("config.json", "*.gguf", "*.safetensors.index.json"):
        found = sorted(path.glob(pattern))
        if found:
            return _in_file(found[0])
    raise FileError(f"{path}: no config.json, GGUF file or safetensors index in it")


def _in_file(path: Path) -> Architecture:
    from rooflab.work.llm import gguf, safetensors

    if not path.is_file():
        raise FileError(f"{path}: no such file; expected a config.json, a GGUF file or a safetensors index")
    if path.suffix == ".gguf" or gguf.is_mine(path):
        return gguf.read_gguf(path)
    if path.name.endswith((".index.json", ".safetensors")):
        return safetensors.read_safetensors(path)
    return config.read_config(path)
