"""What a section of a model's config.json means where it leaves fields out, as its class fills them in."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from rooflab.work.llm.fields import names_of


@functools.cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    text = (resources.files("rooflab.work.llm") / "defaults.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def type_of(outer: Mapping[str, Any], section: str) -> str:
    """The `model_type` of a section of `outer`: its own, else that of `outer`'s class; "" where unknown."""
    inside = outer.get(section)
    own = inside.get("model_type") if isinstance(inside, Mapping) else None
    return word(own) if own else _table()["parts"].get(word(outer.get("model_type")), {}).get(section, "")


def word(name: Any) -> str:
    """A `model_type` as the tables here spell it."""
    return str(name or "").casefold().replace("-", "_")


def left_out(outer: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The fields that a section of `outer` leaves out, with what its class fills in; nothing for an unknown class.

    A field that stands there by another of its names is not left out.
    """
    inside = outer.get(section)
    if not isinstance(inside, Mapping):
        return {}
    kind = type_of(outer, section)
    filled = {"model_type": kind} if kind and not inside.get("model_type") else {}
    for name, value in _table()["fields"].get(kind, {}).items():
        if all(each not in inside for each in names_of(name)):
            filled[name] = value
    return filled
