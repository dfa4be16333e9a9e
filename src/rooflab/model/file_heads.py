"""The head of a data file, before its first table: it says what the file is of, and is read many times sooner."""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources
from typing import Any

_TABLE = re.compile(r"^\[", re.MULTILINE)


def head(text: str) -> dict[str, Any]:
    """The keys of a TOML file before its first table, which begins a line."""
    return tomllib.loads(_TABLE.split(text, maxsplit=1)[0])


@functools.cache
def heads(package: str, folder: str = "") -> dict[str, dict[str, Any]]:
    """The heads of the data files of a package, or of a folder in it, by their names without suffix, sorted."""
    where = resources.files(package)
    files = (where / folder if folder else where).iterdir()
    found = {each.name.removesuffix(".toml"): each for each in files if each.name.endswith(".toml")}
    return {name: head(found[name].read_text(encoding="utf-8")) for name in sorted(found)}
