"""The header of a GGUF file as an `Architecture`: its metadata, and how its tensors are stored; no weights read.

Layout by ggml-org/ggml, docs/gguf.md: magic, version, counts, metadata, then name, shape, type and place of each
tensor. Versions 2 and 3.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from rooflab.errors import FileError
from rooflab.work.llm import config, gguf_fields
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
    21: ("iq3_s", 110, 256), 22: ("iq2_s", 82, 256), 23: ("iq4_xs", 136, 256), 29: ("iq1_m", 56, 256),
    30: ("bf16", 2, 1), 34: ("tq1_0", 54, 256), 35: ("tq2_0", 66, 256), 39: ("mxfp4", 17, 32),
    40: ("nvfp4", 36, 64),
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
    fields = gguf_fields.fields_of(metadata, tensors, path)
    name = str(metadata.get("general.name") or path.stem)
    made = config.with_formats(config.architecture(fields, name, str(path)), _formats(tensors, path))
    doubt = _differs(made, metadata, tensors)
    return dataclasses.replace(made, doubts=(*made.doubts, doubt)) if doubt else made


# A share of all numbers by which layers as they are read may differ from what the file has: biases and scales.
_OFF = 0.005


def _differs(made: Architecture, metadata: Mapping[str, Any], tensors: gguf_fields.Tensors) -> str:
    """What is said where a whole file's tensors have more or fewer numbers than its layers as read; else ""."""
    found = gguf_fields.parameters_of(tensors, made.layers)
    whole = "token_embd.weight" in tensors and metadata.get("split.count", 1) in (0, 1)
    if not whole or abs(made.parameters / found - 1.0) <= _OFF:
        return ""
    return (
        f"{made.name}: its tensors have {found:.5g} numbers, its layers as they are read {made.parameters:.5g}: "
        "weights and time are of these."
    )


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


def _formats(tensors: gguf_fields.Tensors, path: Path) -> dict[str, tuple[str, float]]:
    """By part of the model the format that most of its weights have, and the bits of one in the mean."""
    found: dict[str, dict[int, int]] = {}
    for name, (shape, sort) in tensors.items():
        if sort not in _TYPES:
            raise FileError(
                f"{path}: tensor {name!r} is of type {sort}; types {', '.join(map(str, _TYPES))} are read"
            )
        if len(shape) > 1:
            of = found.setdefault(_part(name), {})
            of[sort] = of.get(sort, 0) + math.prod(shape)
    made = {}
    for part, sorts in found.items():
        bits = sum(8 * _TYPES[sort][1] / _TYPES[sort][2] * count for sort, count in sorts.items())
        most = max(sorts, key=lambda sort: sorts[sort])
        made[part] = (_TYPES[most][0], bits / sum(sorts.values()))
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
