"""Write the JSON schema of every result to docs/schemas: `python docs/generate_json_schemas.py`."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from rooflab.types.result import RESULTS, complete

FOLDER = Path(__file__).with_name("schemas")
_REF = "#/$defs/{name}"


def schemas() -> dict[str, dict[str, Any]]:
    """The schema of each type of result, by the name of its file: "report.v1.json"."""
    kinds = {name: complete(getattr(importlib.import_module(home), name)) for name, home in RESULTS.items()}
    _, defs = msgspec.json.schema_components(kinds.values(), ref_template=_REF)
    for one in defs.values():
        if "description" in one:  # which some versions of msgspec leave indented
            one["description"] = inspect.cleandoc(one["description"])
    saved = {f"Saved{name}": _as_saved(defs[name], name, kind.DERIVED) for name, kind in kinds.items()}
    # Its reports are saved whole, and name themselves.
    variants = saved["SavedVariants"]
    variants["properties"] |= {"reports": {"type": "array", "items": {"$ref": "#/$defs/SavedReport"}}}
    del variants["properties"]["names"]
    variants["required"].remove("names")
    one = saved["SavedTimedCall"]["properties"]["report"]
    one["anyOf"] = [{"$ref": "#/$defs/SavedReport"} if "$ref" in each else each for each in one["anyOf"]]
    defs |= saved
    return {f"{name.lower()}.v{kind.NEWEST}.json": _document(name, kind, defs) for name, kind in kinds.items()}


def _as_saved(schema: dict[str, Any], name: str, derived: tuple[str, ...]) -> dict[str, Any]:
    """A result as its file has it: with its type, and with what follows from the other keys."""
    properties = {"type": {"const": name}, **schema["properties"], **dict.fromkeys(derived, True)}
    return {**schema, "properties": properties, "required": ["type", *schema.get("required", [])]}


def _document(name: str, kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    used: set[str] = set()
    waiting = [f"Saved{name}"]
    while waiting:
        one = waiting.pop()
        if one not in used:
            used.add(one)
            waiting += _refs(defs[one])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"rooflab {name}, schema {kind.NEWEST}",
        "$ref": f"#/$defs/Saved{name}",
        "$defs": {one: defs[one] for one in sorted(used)},
    }


def _refs(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"].rpartition("/")[2]] if "$ref" in part else []
        return own + [ref for value in part.values() for ref in _refs(value)]
    return [ref for value in part for ref in _refs(value)] if isinstance(part, list) else []


def text(schema: dict[str, Any]) -> str:
    """The content of a file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, schema in schemas().items():
        (FOLDER / file).write_text(text(schema), encoding="utf-8")
