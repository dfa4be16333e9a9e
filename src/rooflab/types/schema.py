"""Versions of what is saved: a file of a newer version than this one knows is refused."""

from __future__ import annotations

from rooflab.errors import RooflabError


def refuse_newer(schema: object, newest: int) -> None:
    """Return where `schema`, as a file states it, is no number above `newest`.

    Raises:
        RooflabError: a newer one.
    """
    if isinstance(schema, int) and schema > newest:
        raise RooflabError(f"schema {schema} is newer than this rooflab reads ({newest}); update rooflab")
