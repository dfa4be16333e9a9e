"""What the docs say of each rule, for pages that are read without a network."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files


def explained(rule: str) -> tuple[str, ...]:
    """The paragraphs of the docs' section on `rule`, in Markdown; none where it has none."""
    return tuple(_sections().get(rule, {}).get("text", ()))


@cache
def _sections() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((files("rooflab.remedies") / "explained.toml").read_text(encoding="utf-8"))
