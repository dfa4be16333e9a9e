"""A safetensors index or file as an `Architecture`: by the config.json beside it, held against its bytes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from rooflab.errors import FileError, RooflabError
from rooflab.work.llm import config
from rooflab.work.llm.architecture import Architecture

_MOST_HEADER_BYTES = 100 * 2**20  # that the format allows (huggingface/safetensors, README)


def read_safetensors(path: Path) -> Architecture:
    """The architecture of the config.json beside an index or a file; its bytes must be those of the weights.

    Raises:
        FileError: it cannot be read, or there is no config.json beside it.
        RooflabError: the configuration makes another model than the file holds.
    """
    beside = path.parent / "config.json"
    if not beside.is_file():
        raise FileError(
            f"{path}: no config.json beside it; the index names tensors but not heads, windows or experts a token"
        )
    made = config.read_config(beside)
    stated = _index_bytes(path) if path.suffix == ".json" else _file_bytes(path)
    if stated is None:
        return made
    bits = 8.0 * stated / made.parameters
    if not _LEAST_BITS < bits < _MOST_BITS:
        raise RooflabError(
            f"{path}: {stated} bytes for the {made.parameters} parameters of {beside.name}: {bits:.3g} bits a "
            "weight; do the two belong together?"
        )
    return made


_LEAST_BITS, _MOST_BITS = 2.0, 40.0  # of a weight on disk: 2-bit formats, fp32 and what is stored twice


def _index_bytes(path: Path) -> float | None:
    found = _json(path, path.read_bytes())
    total = found.get("metadata", {}).get("total_size")
    if not isinstance(found.get("weight_map"), dict):
        raise FileError(f"{path}: no weight_map, which a safetensors index has")
    return float(total) if isinstance(total, (int, float)) and total > 0 else None


def _file_bytes(path: Path) -> float:
    with path.open("rb") as file:
        raw = file.read(8)
        length = struct.unpack("<Q", raw)[0] if len(raw) == 8 else 0
        if not 2 <= length <= _MOST_HEADER_BYTES:
            raise FileError(f"{path}: no safetensors file: its header would have {length} bytes")
        header = _json(path, file.read(length))
    total = 0.0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if not isinstance(entry, dict) or not isinstance(entry.get("data_offsets"), list):
            raise FileError(f"{path}: tensor {name!r} without data_offsets: damaged")
        first, last = entry["data_offsets"]
        total += last - first
    return total


def _json(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise FileError(f"{path}: not JSON: {error}; expected a safetensors index or header") from error
    if not isinstance(found, dict):
        raise FileError(f"{path}: a JSON {type(found).__name__}, expected an object")
    return found
