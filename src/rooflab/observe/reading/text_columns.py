"""Columns of a table of text as arrays: all at once where the text is clean, cell by cell where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.reading.numerals import numeral
from rooflab.observe.reading.tables import Table
from rooflab.types.trace import NONE


class TextColumns:
    """The columns of a table by the names in its header.

    Args:
        table: with a header.
        key: what a name in the header is looked up by, so that versions that spell it another way are one.
    """

    def __init__(self, table: Table, key: Callable[[str], str] = str.strip) -> None:
        self._rows = table.rows
        # The first of two columns of one name.
        self._at = {key(name): place for place, name in reversed(list(enumerate(table.header)))}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def texts(self, name: str) -> list[str]:
        """The cells of the column `name`; "" where it is missing."""
        if name not in self._at:
            return [""] * len(self._rows)
        place = self._at[name]
        return [row[place].strip() for row in self._rows]

    def wholes(self, name: str) -> NDArray[np.int64]:
        """The whole numbers in the column `name`; `NONE` for what is none."""
        texts = self.texts(name)
        try:
            return np.array(texts).astype(np.int64) if texts and texts[0] else _wholes(texts)
        except (ValueError, OverflowError):
            return _wholes(texts)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The numbers in the column `name`; NaN for what is none."""
        texts = self.texts(name)
        try:
            found = np.array(texts).astype(np.float64) if texts and texts[0] else None
        except (ValueError, OverflowError):
            found = None
        if found is None or "_" in "".join(texts[:1]):
            several = [numeral(text) for text in texts]
            return np.array([math.nan if one is None else one for one in several], np.float64)
        return np.where(np.isfinite(found), found, math.nan)


def _wholes(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.array([_whole(text) for text in texts], np.int64)


def _whole(text: str) -> int:
    if text.isdecimal() and text.isascii():
        return int(text) if len(text) < 20 and int(text) < 2**63 else NONE
    found = numeral(text)
    return NONE if found is None or found != int(found) or abs(found) > 2**53 else int(found)
